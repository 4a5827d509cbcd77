"""Check any folder that electra wrote for damage: manifests, hashes, tensor shapes and values."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from electra.cli.arguments import Positional


@dataclass(frozen=True)
class Arguments:
    folder: Positional[Path]
    """The folder to check. Exit code 1 when something in it is damaged."""


def run(arguments: Arguments) -> int:
    from electra.workflow.open import verify

    damaged = 0
    for finding in verify(arguments.folder):
        damaged += bool(finding.problem)
        sys.stdout.write(
            f"{'DAMAGED' if finding.problem else 'ok':8}{finding.path}  {finding.problem or finding.what}\n"
        )
    return 1 if damaged else 0
