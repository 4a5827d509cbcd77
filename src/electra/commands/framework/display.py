"""Shows what a command does while it works: in a terminal, in a notebook, to a function, or not at all.

Functions in other packages take `say(line)` for lines that stay, and `progress(what, share)` for a status
that the next call replaces. `share` is the fraction done, from 0 to 1, or None if it is not known.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import override

from electra.foundation.errors import ConfigError
from electra.foundation.progress import Progress
from electra.foundation.visible import make_visible

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

SECONDS_BETWEEN_LINES = 5.0  # between two lines of progress without a live display


class Display:
    """Shows nothing. Use it as a context manager around the work."""

    def say(self, line: str) -> None:
        """Shows a line that stays."""

    def progress(self, what: str, share: float | None = None) -> None:
        """Shows what is being done now, and how much of it is done; the next call replaces it."""

    def __enter__(self) -> Display:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the display, whether or not the work succeeded."""


ProgressOption = Display | Progress | Literal["quiet"] | None
"""The argument `progress` of every command. None: a live display in a notebook, nothing in a script. "quiet":
nothing. A function: called with (line, share) for every line and every change of the status.
"""


def display_for(progress: ProgressOption) -> Display:
    """Returns the display for an argument `progress`. Raises ConfigError for any other value."""
    if isinstance(progress, Display):
        return progress
    if callable(progress):
        return Callback(progress)
    if progress not in (None, "quiet"):
        raise ConfigError(f"must be None, 'quiet' or a function, not {progress!r}", where="progress")
    return Notebook() if progress is None and in_notebook() else Display()


def in_notebook() -> bool:
    """Whether this process is a notebook's kernel. Does not import IPython to find out."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


class Callback(Display):
    """Passes everything on to a function."""

    def __init__(self, function: Progress) -> None:
        self.function = function

    @override
    def say(self, line: str) -> None:
        self.function(line, None)

    @override
    def progress(self, what: str, share: float | None = None) -> None:
        self.function(what, share)


class Notebook(Display):
    """Shows the last lines and a progress bar in the running cell."""

    LINES, PAUSE = 6, 0.25  # lines shown; seconds between two updates of the bar

    def __init__(self) -> None:
        from IPython.display import HTML, display

        self.html: Callable[[str], Any] = HTML
        self.lines: list[str] = []
        self.now: tuple[str, float | None] = ("", None)
        self.shown = 0.0
        self.handle = display(HTML(""), display_id=True)

    @override
    def say(self, line: str) -> None:
        self.lines.append(line)
        self._show()

    @override
    def progress(self, what: str, share: float | None = None) -> None:
        self.now = (what, share)
        if time.monotonic() - self.shown > self.PAUSE:
            self._show()

    @override
    def close(self) -> None:
        self.now = ("", None)
        self._show()

    def _show(self) -> None:
        import html

        what, share = self.now
        bar = f'<progress value="{share:.4f}" max="1"></progress> ' if share is not None else ""
        lines = [html.escape(line) for line in self.lines[-self.LINES :]]
        lines += [bar + html.escape(what)] if what else []
        self.handle.update(self.html("<br>".join(f"<small>{line}</small>" for line in lines)))
        self.shown = time.monotonic()


class Terminal(Display):
    """Prints lines on standard output, and a live progress bar if that is a terminal.

    lines: if it is not a terminal, also print the status every few seconds and when a stage begins
        ("encoding: 5.1 million characters"; the stage is the part before the colon).
    """

    def __init__(self, *, lines: bool = False) -> None:
        from rich.console import Console

        self.lines = lines
        self.console = Console(highlight=False, soft_wrap=True)
        self.bar: Bar | None = None
        self.task: TaskID | None = None
        self.last_status = 0.0
        self.stage = ""

    @override
    def say(self, line: str) -> None:
        line = make_visible(line)
        if self.console.is_terminal:
            self.console.print(line, markup=False)
        else:  # flushed, so that a reader of a pipe sees it at once
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    @override
    def progress(self, what: str, share: float | None = None) -> None:
        if not self.console.is_terminal:
            before, self.stage = self.stage, what.partition(": ")[0]
            due = time.monotonic() - self.last_status > SECONDS_BETWEEN_LINES or share == 1
            if self.lines and (due or (": " in what and self.stage != before)):
                self.last_status = time.monotonic()
                self.say(what)
            return
        if self.bar is None or self.task is None:
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(bar_width=30), TimeRemainingColumn())
            self.bar = Progress(*columns, console=self.console, transient=True)
            self.bar.start()
            self.task = self.bar.add_task(what, total=None if share is None else 1.0)
        total = None if share is None else 1.0
        self.bar.update(self.task, description=make_visible(what), completed=share or 0.0, total=total)

    @override
    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()
        self.bar = self.task = None
