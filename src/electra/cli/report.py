"""Write a run's report: one self-contained HTML page with its curves, data audit, held-out metrics and worked
examples.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from electra.cli.arguments import Positional


@dataclass(frozen=True)
class Arguments:
    run: Positional[Path]
    """The run folder, finished or still going."""
    out: Path | None = None
    """Where the page goes. Default: report.html in the run folder."""
    compare: tuple[Path, ...] = ()
    """Other run folders, to be drawn over this one at equal tokens and FLOPs."""


def run(arguments: Arguments) -> int:
    from electra.report.run import write_report

    path = write_report(arguments.run, arguments.out, arguments.compare)
    sys.stdout.write(f"{path}\n")
    return 0
