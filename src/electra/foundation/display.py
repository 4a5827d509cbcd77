"""What a command shows while it works, in a terminal, a notebook, to a function, or nowhere.

Functions in other packages take `say(line)` for lines that stay, on standard output, and
`progress(what, share)` (or call `foundation.progress.doing`) for a status that the next call replaces, on
standard error. `share` is the fraction done, from 0 to 1, or None if it is not known.
"""

import json
import re
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TextIO

from typing_extensions import override

from electra.foundation.errors import ConfigError
from electra.foundation.progress import Progress, clock, displays, no_progress, time_left
from electra.foundation.terminal_text import make_visible

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

TICK = 0.25  # seconds between two looks at what a terminal should show
START = "starting"  # the activity until there is another
SILENCE = 1.5  # seconds without a line, after which a terminal shows the status
EVERY = 30.0  # the same elsewhere, but for the first time


class Display:
    """Passes everything on to a function, by default to none. A context manager around the work."""

    def __init__(self, report: Progress = no_progress) -> None:
        self.report = report

    def say(self, line: str) -> None:
        """Shows a line that stays."""
        self.report(line, None)

    def progress(self, what: str, share: float | None = None) -> None:
        """Shows what is being done now, and how much of it is done; the next call replaces it."""
        if what:
            self.report(what, share)

    def __enter__(self) -> "Display":
        displays.append(self.progress)
        return self

    def __exit__(self, *error: object) -> None:
        displays.pop()


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
    return Terminal(sys.stdout) if progress is None and in_notebook else Display()


class _AboveBar:
    """Standard output while a bar is below it; a write ends the bar."""

    def __init__(self, stream: TextIO, end_bar: Callable[[], None]) -> None:
        self.stream, self._end_bar = stream, end_bar

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        self._end_bar()
        return self.stream.write(text)


class Terminal(Display):
    """Prints lines on standard output, and the status on standard error (or the stream `status`).

    After a moment without a line, a terminal shows the status as a live bar. Elsewhere it is a line after the
    first moment, and then whenever there was none for half a minute: the activity, with the share that is
    done and the time left where that is known, otherwise with the time that it has taken.
    """

    def __init__(self, status: TextIO | None = None) -> None:
        super().__init__()
        self._stream = status or sys.stderr
        self._what, self._last_line = START, time.monotonic()
        self._share: float | None = None
        self._kind = START  # the activity
        self._began = time.monotonic(), 0.0  # when it began, at which share
        self._counted = time.monotonic()  # when the share was last told
        self._is_silent = True  # no line so far
        self._bar: Bar | None = None
        self._lock, self._ended = threading.RLock(), threading.Event()

    @override
    def say(self, line: str) -> None:
        with self._lock:
            self._stop_bar()
            self._is_silent = False
            sys.stdout.write(f"{make_visible(line)}\n")
            sys.stdout.flush()  # so that a reader of a pipe sees it at once

    @override
    def progress(self, what: str, share: float | None = None) -> None:
        with self._lock:
            if share != self._share:
                self._counted = time.monotonic()
            self._what, self._share = what, share
            kind = re.sub(r"[\d.,:]+", "", what.partition(": ")[0])  # numbers make no new activity
            if kind != self._kind:
                self._kind, self._began = kind, (time.monotonic(), share or 0.0)
            if self._bar is not None:
                self._show() if what else self._stop_bar()

    @override
    def __enter__(self) -> Display:
        if self.progress not in displays:
            self._ended.clear()
            threading.Thread(target=self._watch, daemon=True).start()
        return super().__enter__()

    @override
    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self.progress("")
        if self.progress not in displays:
            self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(TICK):
            self.look()

    def look(self) -> None:
        """Shows the status if there was no line for long enough."""
        with self._lock:
            is_quick = self._is_silent or self._stream.isatty()
            silence = time.monotonic() - self._last_line
            is_due = silence > (SILENCE if is_quick else max(EVERY, SILENCE))
            if self._what and is_due and not self._ended.is_set():
                self._show()

    def _show(self) -> None:
        if not self._stream.isatty():
            if self._what != START:
                self._is_silent, self._last_line = False, time.monotonic()
                self._stream.write(f"{make_visible(self._what + self._pace())}\n")
                self._stream.flush()
            return
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description}"), BarColumn(bar_width=30), TimeElapsedColumn())
            console = Console(file=self._stream)
            self._bar = Progress(*columns, console=console, transient=True, redirect_stdout=False)
            self._bar.add_task("")
            self._bar.start()
            if sys.stdout.isatty():
                sys.stdout = _AboveBar(sys.stdout, self._stop_bar)  # type: ignore[assignment]
        total, [task] = None if self._share is None else 1.0, self._bar.task_ids
        self._bar.update(task, description=make_visible(self._what), completed=self._share or 0, total=total)

    def _pace(self) -> str:
        (began, first), share = self._began, self._share
        spent = time.monotonic() - began
        if self._what.endswith(" left"):
            return ""
        if share is None or share <= first:
            return f" ({clock(spent)} so far)" if spent >= 5 else ""
        left = (self._counted - began) * (1 - share) / (share - first) - (time.monotonic() - self._counted)
        return f" ({share:.0%} done, {time_left(left) if left >= 0 else f'{clock(spent)} so far'})"

    def _stop_bar(self) -> None:
        with self._lock:
            if self._bar is not None:
                self._bar.stop()
                sys.stdout = getattr(sys.stdout, "stream", sys.stdout)
            self._bar, self._last_line = None, time.monotonic()


def json_text(text: str) -> str:
    """Returns JSON text for standard output: escaped to ASCII if its encoding is not UTF-8."""
    is_utf8 = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")
    return text if is_utf8 else re.sub(r"[^\x00-\x7f]+", lambda match: json.dumps(match[0])[1:-1], text)
