"""The command `electra report`; pages are written by `electra.pages`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import override

from electra.commands.framework.command import Command, function
from electra.foundation.options import Source, checked_path
from electra.foundation.progress import doing


@dataclass(frozen=True)
class Report(Command[Path], examples=("electra report runs/objectives", "electra report runs/mine")):
    """Write the report of a run, study, fine-tuning, evaluation or analysis as a single HTML file."""

    folder: Source
    """A folder that an electra command wrote: a run (finished or in progress), study, evaluation, ..."""

    @override
    def run(self) -> Path:
        from electra.pages.pages import write_page

        doing("reading the records")
        return write_page(checked_path(self.folder, "folder"))

    @override
    def main(self) -> int:
        from electra.pages import figures

        if note := figures.missing():
            sys.stderr.write(f"{note}\n")
        return super().main()


report = function(Report)
