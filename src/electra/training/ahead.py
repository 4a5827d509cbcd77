"""The next update's rows, made ready on the host while an accelerator is busy with this one's.

What is made does not depend on when: rows are drawn from keys of the examples
(objectives/parts/interface.py).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor

from electra.objectives.parts.interface import Corrupted


class Ahead:
    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._next: tuple[Hashable, Future[list[Corrupted]]] | None = None

    def take(
        self, step: int, state: Hashable, make: Callable[[int], list[Corrupted]], further: bool
    ) -> list[Corrupted]:
        """What `make` gives for the step; where `further`, that for the next step is begun as well.

        state: what `make` depends on beside the step; what was begun in another is made anew.
        """
        waiting, self._next = self._next, None
        known = waiting is not None and waiting[0] == (step, state)
        made = waiting[1].result() if waiting is not None and known else make(step)
        if further:
            self._thread = self._thread or ThreadPoolExecutor(1)
            self._next = (step + 1, state), self._thread.submit(make, step + 1)
        return made
