"""SIGTERM, SIGINT and SIGUSR1 request a stop at the next safe point; a second one ends the process at once.

A signal reaches every open `StopRequest` of the process, whichever thread opened it. The user gets an answer
at once, from a thread that the kernel's signal wakes: Python's own handlers run in the main thread, between
two bytecodes, and a library may compute for minutes before the next one.
"""

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import Self

from electra.foundation.errors import Interrupted
from electra.foundation.terminal_text import when

Stop = Callable[[], bool]  # whether to stop at the next safe point; a StopRequest is one
EXIT_CODES = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGUSR1: 143}
SLOW = 1.0  # seconds until work that should have ended at once is named
AGAIN = "press Ctrl-C again to stop now"
_open: list["StopRequest"] = []
_received: list[signal.Signals] = []
_safe_points: list[str] = []
_wakes_thread = False


class StopRequest:
    """A context manager around work that can stop; poll it by calling it: `while not stop(): ...`."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None  # the first
        self._restored = ExitStack()

    def __enter__(self) -> Self:
        _open.append(self)
        self._restored.callback(_open.remove, self)
        self._restored.enter_context(answering())
        self._restored.enter_context(_handled_by(_handle, *EXIT_CODES))
        return self

    def __exit__(self, *exception: object) -> None:
        self._restored.close()

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


@contextmanager
def stops_after(what: str) -> Iterator[None]:
    """Names what a request to stop waits for in the block, such as "this update; a checkpoint is saved"."""
    _safe_points.append(what)
    try:
        yield
    finally:
        _safe_points.remove(what)


@contextmanager
def answering() -> Iterator[None]:
    """Answers signals at once in the block, from a thread, unless this is an interactive shell."""
    global _wakes_thread  # noqa: PLW0603
    if not _in_main_thread() or _wakes_thread or hasattr(sys, "ps1"):
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    _wakes_thread, previous = True, signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    thread = threading.Thread(target=_answer_from, args=(reading,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(previous)
        _wakes_thread = False
        os.close(writing)
        thread.join()
        os.close(reading)
        _received.clear()


def _answer_from(descriptor: int) -> None:
    patience = None  # of work that should end at once, and is named if it does not
    while True:
        if patience and not select.select([descriptor], [], [], patience)[0]:
            _tell(f"stopping; {AGAIN}")
        if not (byte := os.read(descriptor, 1)):
            return
        if byte[0] in EXIT_CODES:
            patience = None if _receive(signal.Signals(byte[0])) else SLOW


def _receive(number: signal.Signals) -> bool:
    """Requests the stop and answers, or ends the process if that was done before; False if nobody polls."""
    waiting = [each for each in _open if each.received is None]
    _received.append(number)
    for each in waiting:
        each.request(number)
    if waiting:
        what = _safe_points[-1] if _safe_points else "this step; what is finished is kept"
        _tell(f"stopping after {what}{when(number == signal.SIGINT, f'; {AGAIN}')}")
    elif (len(_received) > 1 or _open) and not hasattr(sys, "ps1"):  # a shell outlives the work it began
        _tell("stopped at once")
        os._exit(EXIT_CODES[_open[0].received or number if _open else _received[0]])
    return bool(_open)


def _tell(line: str) -> None:
    with suppress(OSError, ValueError, AttributeError):  # closed
        sys.stderr.write(f"{line}\n")
        sys.stderr.write(when(sys.stderr.isatty(), "\x1b[?25h"))  # the cursor, which a progress bar hides
        sys.stderr.flush()


def _handle(number: int, frame: FrameType | None) -> None:
    if not _wakes_thread:
        is_second = all(each.received for each in _open)
        _receive(signal.Signals(number))
        if is_second:
            raise KeyboardInterrupt
    patience = time.monotonic() + SLOW
    while any(each.received is None for each in _open) and time.monotonic() < patience:
        time.sleep(0.001)  # so that the next bytecode of the program sees what the thread does


@contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None], *numbers: signal.Signals) -> Iterator[None]:
    """Installs a handler of signals in the block; does nothing outside the main thread."""
    previous = {number: signal.signal(number, handler) for number in numbers if _in_main_thread()}
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)


@contextmanager
def interrupt_on_signal(where: object) -> Iterator[None]:
    """Makes SIGTERM and SIGINT raise `Interrupted` at once (main thread): for work that leaves no files."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise Interrupted(where, EXIT_CODES[signal.Signals(number)], saved=False)

    with _handled_by(leave, signal.SIGTERM, signal.SIGINT):
        yield


def end_with_parent(parent: int) -> None:
    """Makes this process end within a second once its parent (a process id) has ended, even by SIGKILL."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
