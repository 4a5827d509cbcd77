"""Computes the requests of many clients in one thread, because the networks use all available cores.

A request is computed in slices, and the slices of waiting requests take turns: a large one delays no other by
more than a slice. Work that nobody waits for any more ends before its next forward pass.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from electra.model.passes import before_each_batch
from electra.serving.limits import Limits, RequestError

SLICE = 16  # texts computed at a time


class Worker:
    """The thread that computes, and the number of requests that wait for it."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.size = limits, 0  # size: the number of requests waiting or being computed
        self._is_stopping, self._thread = False, ThreadPoolExecutor(1, "requests")

    async def __call__(self, work: Callable[[slice], Sequence[Any]], count: int) -> list[Any]:
        """Returns the results of `work` for the `count` texts of a request, which it gets in slices.

        Raises RequestError: queue full or server stopping (503), or no answer in time (504).
        """
        if self._is_stopping or self.size >= self.limits.queue:
            raise RequestError(503, f"{self.size} requests are waiting", "Try again in a moment")
        results, is_abandoned = list[Any](), False

        def before_pass() -> None:
            if is_abandoned or self._is_stopping:
                raise RequestError(503, "the server is stopping", "Try again in a moment")

        def compute(part: slice) -> Sequence[Any]:
            with before_each_batch(before_pass):
                before_pass()
                return work(part)

        self.size += 1
        try:
            async with asyncio.timeout(self.limits.timeout):
                for first in range(0, count, SLICE):
                    part = slice(first, first + SLICE)
                    loop = asyncio.get_running_loop()
                    results += await loop.run_in_executor(self._thread, compute, part)
            return results
        except TimeoutError:
            problem = f"no answer within {self.limits.timeout:g} s"
            raise RequestError(504, problem, "Send fewer or shorter texts, or try again") from None
        finally:
            self.size -= 1
            is_abandoned = True

    def stop(self) -> None:
        """Refuses all open requests, and ends the thread before its next forward pass."""
        self._is_stopping = True
        self._thread.shutdown()
