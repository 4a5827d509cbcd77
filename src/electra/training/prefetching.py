"""Prepares the next update's rows in the background: reads and corrupts them.

Reading may involve fetching from a remote store. The result does not depend on when the rows are prepared,
because all random numbers are drawn from keys of the examples (objectives/parts/interface.py).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor

from electra.objectives.parts.interface import CorruptedBatch


class Prefetcher:
    """Computes the batches of the next step in a background thread."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._next: tuple[Hashable, Future[list[CorruptedBatch]]] | None = None

    def get(
        self, step: int, state: Hashable, make: Callable[[int], list[CorruptedBatch]], prefetch: bool
    ) -> list[CorruptedBatch]:
        """Returns `make(step)`, from the background thread if it was prefetched.

        A result prefetched for another `state`, what `make` depends on besides the step, is discarded.
        """
        pending, self._next = self._next, None
        valid = pending is not None and pending[0] == (step, state)
        batches = pending[1].result() if pending is not None and valid else make(step)
        if prefetch:
            self._executor = self._executor or ThreadPoolExecutor(1)
            self._next = (step + 1, state), self._executor.submit(make, step + 1)
        return batches
