"""SIGTERM, SIGINT and SIGUSR1 ask a run to stop at the next safe point; a second one ends it at once."""

from __future__ import annotations

import os
import signal
from types import FrameType

EXIT_CODES = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGUSR1: 143}


class StopRequest:
    """Use as a context manager around a run; poll `received`."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._previous: dict[signal.Signals, object] = {}

    def __enter__(self) -> StopRequest:
        for number in EXIT_CODES:
            self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            os._exit(EXIT_CODES[self.received])
        self.received = signal.Signals(number)

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.received] if self.received is not None else 0
