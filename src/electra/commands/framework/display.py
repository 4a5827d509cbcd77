"""Standard output: what a command does while it works, in a terminal, a notebook, to a function, or nowhere.

Functions in other packages take `say(line)` for lines that stay, and `progress(what, share)` for a status
that the next call replaces. `share` is the fraction done, from 0 to 1, or None if it is not known.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
import time
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import override

from electra.foundation.errors import ConfigError
from electra.foundation.progress import Progress, no_progress
from electra.foundation.terminal_text import make_visible

if TYPE_CHECKING:
    from rich.progress import Progress as Bar


class Display:
    """Passes everything on to a function, by default to none. A context manager around the work."""

    def __init__(self, report: Progress = no_progress) -> None:
        self.report = report

    def say(self, line: str) -> None:
        """Shows a line that stays."""
        self.report(line, None)

    def progress(self, what: str, share: float | None = None) -> None:
        """Shows what is being done now, and how much of it is done; the next call replaces it."""
        self.report(what, share)

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *error: object) -> None:
        """Ends the display, whether or not the work succeeded."""


ProgressOption = Display | Progress | Literal["quiet"] | None
"""The argument `progress` of every command. None: lines in a notebook, nothing in a script. "quiet": nothing.
A function: called with (line, share) for every line and every change of the status.
"""


def display_for(progress: ProgressOption) -> Display:
    """Returns the display for an argument `progress`. Raises ConfigError for any other value."""
    if isinstance(progress, Display) or callable(progress):
        return progress if isinstance(progress, Display) else Display(progress)
    if progress not in (None, "quiet"):
        raise ConfigError(f"must be None, 'quiet' or a function, not {progress!r}", where="progress")
    ipython: Any = sys.modules.get("IPython")
    in_notebook = ipython is not None and hasattr(ipython.get_ipython(), "kernel")
    return Terminal(pause=30.0) if progress is None and in_notebook else Display()


class Terminal(Display):
    """Prints lines on standard output, and a live bar if that is a terminal, else the status at times."""

    def __init__(self, pause: float = 5.0) -> None:
        super().__init__()
        self.is_terminal, self.pause = sys.stdout.isatty(), pause
        self.bar: Bar | None = None
        self.last_status, self.stage = 0.0, ""

    @override
    def say(self, line: str) -> None:
        if self.bar is not None:
            self.bar.console.print(make_visible(line), markup=False, highlight=False, soft_wrap=True)
        else:  # flushed, so that a reader of a pipe sees it at once
            sys.stdout.write(f"{make_visible(line)}\n")
            sys.stdout.flush()

    @override
    def progress(self, what: str, share: float | None = None) -> None:
        if not self.is_terminal:
            before, self.stage = self.stage, what.partition(": ")[0]
            is_due = time.monotonic() - self.last_status > self.pause or share == 1
            if is_due or (": " in what and self.stage != before):
                self.last_status = time.monotonic()
                self.say(what)
            return
        if self.bar is None:
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(bar_width=30), TimeRemainingColumn())
            self.bar = Progress(*columns, transient=True)
            self.bar.add_task(what)
            self.bar.start()
        total, [task] = None if share is None else 1.0, self.bar.task_ids
        self.bar.update(task, description=make_visible(what), completed=share or 0.0, total=total)

    @override
    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.stop()
        self.bar = None


def prepare_output() -> None:
    """Makes standard output escape the characters that its encoding lacks, instead of failing."""
    if sys.stdout is None:  # closed by the caller
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def output_failed() -> bool:
    """Whether standard output can no longer be written: its disk is full, or its terminal is gone."""
    try:
        sys.stdout.flush()
    except OSError:
        return True
    return False


def abandon_output() -> None:
    """Discards what is left to write, so that the interpreter's last flush raises nothing."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def json_text(text: str) -> str:
    """Returns JSON text for standard output: escaped to ASCII if its encoding is not UTF-8."""
    is_utf8 = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")
    return text if is_utf8 else re.sub(r"[^\x00-\x7f]+", lambda match: json.dumps(match[0])[1:-1], text)
