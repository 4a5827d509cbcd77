"""Write the report of a run, study, fine-tuning, evaluation or analysis: one self-contained HTML file."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from electra.commands.cli.arguments import Positional


@dataclass(frozen=True)
class Arguments:
    folder: Positional[Path]
    """A folder that any electra command wrote: a run (finished or in progress), study, evaluation, ..."""
    out: Path | None = None
    """Where to write a run's page (default: report.html in the run folder)."""
    compare: tuple[Path, ...] = ()
    """Other run folders to compare with this run at equal tokens and FLOPs."""
    follow: bool = False
    """Rewrite a run's page while the run trains on this machine; an open page reloads itself."""


def run(arguments: Arguments) -> int:
    from electra.commands.workflow.display import Terminal
    from electra.commands.workflow.open import report
    from electra.pages.svg import left_out

    path = report(**vars(arguments), progress=Terminal())
    sys.stdout.write(f"{path}\n")
    if note := left_out(path):
        sys.stderr.write(f"{note}\n")
    return 0
