"""The command `electra report`; pages are written by `electra.pages`."""

from __future__ import annotations

import sys
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from typing_extensions import override

from electra.commands.framework.command import Command, Source, function
from electra.commands.framework.display import display_for
from electra.foundation.options import checked_path
from electra.foundation.signals import StopRequest


@dataclass(frozen=True)
class Report(
    Command[Path],
    group="Measure",
    examples=(
        "electra report runs/mine --follow",
        "electra report runs/mine --out mine.html",
    ),
):
    """Write the report of a run, study, fine-tuning, evaluation or analysis as a single HTML file."""

    folder: Source
    """A folder that an electra command wrote: a run (finished or in progress), study, evaluation, ..."""
    _: KW_ONLY
    out: Source | None = None
    """For a run: the file to write (default: report.html in the run folder)."""
    follow: bool = False
    """For a run that is training on this machine: keep rewriting the page, which reloads itself in a browser.
    """

    @override
    def run(self) -> Path:
        from electra.pages import pages

        path = checked_path(self.folder, "folder")
        page = None if self.out is None else checked_path(self.out, "out")
        if not self.follow:
            return pages.write_page(path, page)
        with display_for(self.progress) as display, StopRequest() as stop:
            return pages.follow(path, page, stop, display.say)

    @override
    def main(self) -> int:
        from electra.pages import figures

        path = self.run()
        sys.stdout.write(f"{path}\n")
        if note := figures.missing():
            sys.stderr.write(f"{note}\n")
        return 0


report = function(Report)
