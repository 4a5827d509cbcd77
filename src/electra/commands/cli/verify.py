"""Check any folder that electra wrote for damage: manifests, hashes, tensor shapes and values."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from electra.commands.cli.arguments import Positional

if TYPE_CHECKING:
    from electra.artifacts import Finding


@dataclass(frozen=True)
class Arguments:
    folder: Positional[Path]
    """The folder to check, or tiny-en. Exit code 1 when something in it is damaged; ? marks what has nothing
    to be compared with.
    """
    replay: int | None = None
    """Also train so many updates of a run again, from a checkpoint it has kept, and compare batches, losses
    and weights with what was recorded. Exit code 2 when something differs.
    """
    store: str | None = None
    """For --replay: the store the run was trained on (default: RUN/store, or the recorded path)."""


def run(arguments: Arguments) -> int:
    from electra.commands.workflow.open import verify
    from electra.commands.workflow.run import Run

    damaged = tell(verify(arguments.folder), "DAMAGED")
    if arguments.replay is None:
        return 1 if damaged else 0
    differs = tell(Run(arguments.folder).replay(arguments.replay, arguments.store), "DIFFERS")
    return 2 if differs else 1 if damaged else 0


def tell(findings: Iterable[Finding], wrong: str) -> int:
    """A line for each thing; how many have a problem."""
    problems = 0
    for finding in findings:
        problems += bool(finding.problem)
        state = wrong if finding.problem else "ok" if finding.compared else "?"
        sys.stdout.write(f"{state:8}{finding.path}  {finding.problem or finding.what}\n")
    return problems
