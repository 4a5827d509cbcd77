"""SIGTERM, SIGINT and SIGUSR1 request a stop at the next safe point; a second one ends the process at once.

Signals reach the main thread only, and only the main thread can install a handler. So a signal reaches every
open `StopRequest` of the process, whichever thread opened it. Without a handler, call `StopRequest.request`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from electra.foundation.errors import Interrupted

Stop = Callable[[], bool]  # whether to stop at the next safe point; a StopRequest is one
EXIT_CODES = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGUSR1: 143}
_open: list[StopRequest] = []


class StopRequest:
    """A context manager around work that can stop; poll it by calling it: `while not stop(): ...`.

    Attributes:
        received: the first signal, or None.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._previous: dict[signal.Signals, object] = {}

    def __enter__(self) -> StopRequest:
        _open.append(self)
        if _in_main_thread():
            for number in EXIT_CODES:
                self._previous[number] = signal.signal(number, _handle)
        return self

    def __exit__(self, *exception: object) -> None:
        _open.remove(self)
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def __call__(self) -> bool:
        """Whether a stop was requested."""
        return self.received is not None

    def request(self, number: signal.Signals = signal.SIGINT) -> None:
        """Requests a stop from within the program."""
        self.received = self.received or number

    @property
    def exit_code(self) -> int:
        """The exit code for the received signal; 0 without one."""
        return EXIT_CODES[self.received] if self.received is not None else 0


def _handle(number: int, frame: FrameType | None) -> None:
    waiting = [each for each in _open if each.received is None]
    for each in waiting:
        each.request(signal.Signals(number))
    if waiting:
        return
    if hasattr(sys, "ps1"):  # a notebook or an interactive shell outlives the work it began
        raise KeyboardInterrupt
    os._exit(_open[0].exit_code)


@contextmanager
def interrupt_on_signal(where: object) -> Iterator[None]:
    """Makes SIGTERM and SIGINT raise `Interrupted` at once; for work that leaves no files behind.

    Does nothing outside the main thread.
    """

    def leave(number: int, frame: FrameType | None) -> None:
        raise Interrupted(where, EXIT_CODES[signal.Signals(number)], saved=False)

    caught = (signal.SIGTERM, signal.SIGINT) if _in_main_thread() else ()
    previous = {number: signal.signal(number, leave) for number in caught}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def end_with_parent(parent: int) -> None:
    """Makes this process end within a second once its parent (a process id) has ended, even by SIGKILL."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
