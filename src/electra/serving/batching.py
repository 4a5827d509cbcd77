"""Requests of many clients, computed together: while one batch is computed, the next one gathers.

One thread computes, because the networks use all cores they were given. Whoever comes first is served first,
and takes along all who wait for the same thing (the same model and settings), as many as fit a batch: a batch
cannot be cut short, so it is small enough to be over before those who wait have given up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from electra.serving.limits import Limits, Refused

Work = Callable[[Sequence[Any]], Sequence[Any]]  # one result for each item
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class _Request:
    key: Hashable
    work: Work
    items: Sequence[Any]
    load: float
    answer: asyncio.Future[Sequence[Any]]


class Batcher:
    def __init__(self, limits: Limits, computed: Callable[[int], None] = lambda items: None) -> None:
        """computed: told the number of items of every batch."""
        self.limits, self.computed = limits, computed
        self._waiting: deque[_Request] = deque()
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="compute")
        self._loop: asyncio.Task[None] | None = None
        self._open = 0

    @property
    def size(self) -> int:
        """Requests that wait or are computed."""
        return self._open

    async def __call__(
        self, key: Hashable, work: Work, items: Sequence[Any], load: float | None = None
    ) -> Sequence[Any]:
        """What `work` makes of the items, maybe together with other requests of this key.

        load: the share of a batch that they fill (None: by their number).

        Raises Refused where too many wait, or where the answer takes too long; then it is not computed,
        unless that has begun.
        """
        if self._open >= self.limits.queue:
            raise Refused(503, f"{self._open} requests are waiting", "Try again in a moment")
        share = len(items) / self.limits.batch_size if load is None else load
        request = _Request(key, work, items, share, asyncio.get_running_loop().create_future())
        self._open += 1
        try:
            self._waiting.append(request)
            self._arrived.set()
            async with asyncio.timeout(self.limits.timeout):
                return await request.answer
        except TimeoutError:
            what = f"no answer within {self.limits.timeout:g} s"
            raise Refused(504, what, "Send fewer or shorter texts, or try again") from None
        finally:
            self._open -= 1

    def start(self) -> None:
        self._loop = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._loop is not None:
            self._loop.cancel()
        await asyncio.to_thread(self._thread.shutdown)

    async def _run(self) -> None:
        while True:
            await self._arrived.wait()
            batch = self._take()
            if batch:
                await self._compute(batch)
            else:
                self._arrived.clear()

    def _take(self) -> list[_Request]:
        """The oldest request, and those that can be computed with it. Who has gone is forgotten."""
        batch: list[_Request] = []
        left: list[_Request] = []
        load = 0.0
        for request in self._waiting:
            if request.answer.done():
                continue
            fits = not batch or (request.key == batch[0].key and load + request.load <= 1 + ROUNDING)
            (batch if fits else left).append(request)
            load += request.load * fits
        self._waiting = deque(left)
        return batch

    async def _compute(self, batch: list[_Request]) -> None:
        items = [item for request in batch for item in request.items]
        loop = asyncio.get_running_loop()
        try:
            results = await loop.run_in_executor(self._thread, batch[0].work, items)
        except Exception as problem:
            if len(batch) > 1:  # one of them is at fault: let the others have their answers
                for request in batch:
                    if not request.answer.done():
                        await self._compute([request])
            elif not batch[0].answer.done():
                batch[0].answer.set_exception(problem)
            return
        self.computed(len(items))
        start = 0
        for request in batch:
            if not request.answer.done():
                request.answer.set_result(results[start : start + len(request.items)])
            start += len(request.items)
