"""Who is told what a verb does while it works: nobody, a function, a notebook's cell or a terminal.

Below this room, functions take `say(line)`, for what stays to be read, and `progress(what, share)`, for what
is replaced by the next: `share` is the share that is done, from 0 to 1, or None where it is not known.
"""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from electra.foundation.errors import ConfigError
from electra.foundation.progress import Progress
from electra.foundation.visible import visible

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

SECONDS = 5.0  # between two plain lines of progress where there is no live display


class Display:
    """Nobody is told. Use as a context manager around the work."""

    def say(self, line: str) -> None:
        """A line that stays."""

    def progress(self, what: str, share: float | None = None) -> None:
        """What is being done now; the next call replaces it."""

    def __enter__(self) -> Display:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """The work is over, for good or ill."""


Told = Display | Progress | Literal["quiet"] | None
"""What the argument `progress` of every verb takes. None: a live display in a notebook, nothing in a script.
"quiet": nothing. A function: called with (line, share) for every line and every bit of progress.
"""


def display_for(told: Told) -> Display:
    """The display that an argument `progress` asks for."""
    if isinstance(told, Display):
        return told
    if callable(told):
        return Callback(told)
    if told not in (None, "quiet"):
        raise ConfigError(f"must be None, 'quiet' or a function, not {told!r}", where="progress")
    return Notebook() if told is None and in_notebook() else Display()


def in_notebook() -> bool:
    """Whether this process is a notebook's kernel. IPython is not imported to find out."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


class Callback(Display):
    """Passes everything on to a function of the user's."""

    def __init__(self, told: Progress) -> None:
        self.told = told

    def say(self, line: str) -> None:
        self.told(line, None)

    def progress(self, what: str, share: float | None = None) -> None:
        self.told(what, share)


class Notebook(Display):
    """The last lines said and a bar, in the cell at work."""

    LINES, PAUSE = 6, 0.25  # lines that are shown; seconds between two updates of the bar

    def __init__(self) -> None:
        from IPython.display import HTML, display

        self.html: Callable[[str], Any] = HTML
        self.lines: list[str] = []
        self.now: tuple[str, float | None] = ("", None)
        self.shown = 0.0
        self.handle = display(HTML(""), display_id=True)

    def say(self, line: str) -> None:
        self.lines.append(line)
        self._show()

    def progress(self, what: str, share: float | None = None) -> None:
        self.now = (what, share)
        if time.monotonic() - self.shown > self.PAUSE:
            self._show()

    def close(self) -> None:
        self.now = ("", None)
        self._show()

    def _show(self) -> None:
        what, share = self.now
        bar = f'<progress value="{share:.4f}" max="1"></progress> ' if share is not None else ""
        lines = [html.escape(line) for line in self.lines[-self.LINES :]]
        lines += [bar + html.escape(what)] if what else []
        self.handle.update(self.html("<br>".join(f"<small>{line}</small>" for line in lines)))
        self.shown = time.monotonic()


class Terminal(Display):
    """Lines on standard output, and a live bar where that is a terminal.

    lines: where it is none, also tell the progress, as a line every few seconds and as each stage begins
    ("encoding: 5.1 million characters"; what stands before the colon names the stage).
    """

    def __init__(self, *, lines: bool = False) -> None:
        from rich.console import Console

        self.lines = lines
        self.console = Console(highlight=False, soft_wrap=True)
        self.bar: Bar | None = None
        self.task: TaskID | None = None
        self.told = 0.0
        self.stage = ""

    def say(self, line: str) -> None:
        line = visible(line)
        if self.console.is_terminal:
            self.console.print(line, markup=False)
        else:  # at once: whoever watches a pipe sees it too
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    def progress(self, what: str, share: float | None = None) -> None:
        if not self.console.is_terminal:
            before, self.stage = self.stage, what.partition(": ")[0]
            due = time.monotonic() - self.told > SECONDS or share == 1
            if self.lines and (due or (": " in what and self.stage != before)):
                self.told = time.monotonic()
                self.say(what)
            return
        if self.bar is None or self.task is None:
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(bar_width=30), TimeRemainingColumn())
            self.bar = Progress(*columns, console=self.console, transient=True)
            self.bar.start()
            self.task = self.bar.add_task(what, total=None if share is None else 1.0)
        total = None if share is None else 1.0
        self.bar.update(self.task, description=visible(what), completed=share or 0.0, total=total)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()
        self.bar = self.task = None
