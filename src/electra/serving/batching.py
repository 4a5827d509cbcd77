"""Requests of many clients, computed together: while one batch is computed, the next one gathers.

Whoever comes first is served first, and takes along all who wait for the same thing (the same model and
settings), as many as fit a batch. A request larger than a batch waits in a lane of its own. One lane computes
at a time, because the networks use all cores they were given: between two passes, large work lets what is
small go first, and work that nobody waits for any more ends.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from electra.model.passes import between_passes
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


class _Abandoned(Exception):
    """Nobody waits for the answer any more."""


class _Turns:
    """A lock that is given to those who wait for it in the order they came."""

    def __init__(self) -> None:
        self._changed, self._given, self._now = threading.Condition(), 0, 0

    def __enter__(self) -> None:
        with self._changed:
            mine, self._given = self._given, self._given + 1
            self._changed.wait_for(lambda: self._now == mine)

    def __exit__(self, *exception: object) -> None:
        with self._changed:
            self._now += 1
            self._changed.notify_all()


class _Lane:
    """Requests that wait for one thread."""

    def __init__(self, name: str) -> None:
        self.waiting: deque[_Request] = deque()
        self.arrived = asyncio.Event()
        self.thread = ThreadPoolExecutor(1, thread_name_prefix=name)


class Batcher:
    def __init__(self, limits: Limits, computed: Callable[[int], None] = lambda items: None) -> None:
        """computed: told the number of items of every batch."""
        self.limits, self.computed = limits, computed
        self._small, self._large, self._turns = _Lane("small"), _Lane("large"), _Turns()
        self._loops: list[asyncio.Task[None]] = []
        self._open: set[_Request] = set()

    @property
    def size(self) -> int:
        """Requests that wait or are computed."""
        return len(self._open)

    async def __call__(
        self, key: Hashable, work: Work, items: Sequence[Any], load: float | None = None
    ) -> Sequence[Any]:
        """What `work` makes of the items, maybe together with other requests of this key.

        load: the share of a batch that they fill (None: by their number).

        Raises Refused where too many wait, or where the answer takes too long; its computation then ends
        before the next pass.
        """
        if self.size >= self.limits.queue:
            raise Refused(503, f"{self.size} requests are waiting", "Try again in a moment")
        share = len(items) / self.limits.batch_size if load is None else load
        request = _Request(key, work, items, share, asyncio.get_running_loop().create_future())
        lane = self._small if share <= 1 + ROUNDING else self._large
        self._open.add(request)
        try:
            lane.waiting.append(request)
            lane.arrived.set()
            async with asyncio.timeout(self.limits.timeout):
                return await request.answer
        except TimeoutError:
            what = f"no answer within {self.limits.timeout:g} s"
            raise Refused(504, what, "Send fewer or shorter texts, or try again") from None
        finally:
            self._open.discard(request)

    def start(self) -> None:
        self._loops = [asyncio.create_task(self._run(lane)) for lane in (self._small, self._large)]

    def refuse_all(self) -> None:
        """Leave what is not answered yet unanswered: the server is stopping."""
        for request in self._open:
            if not request.answer.done():
                request.answer.set_exception(Refused(503, "the server is stopping", "Try again in a moment"))

    async def stop(self) -> None:
        self.refuse_all()
        for loop in self._loops:
            loop.cancel()
        for lane in (self._small, self._large):
            await asyncio.to_thread(lane.thread.shutdown)

    async def _run(self, lane: _Lane) -> None:
        while True:
            await lane.arrived.wait()
            batch = self._take(lane)
            if batch:
                await self._compute(lane, batch)
            else:
                lane.arrived.clear()

    def _take(self, lane: _Lane) -> list[_Request]:
        """The oldest request, and those that can be computed with it. Who has gone is forgotten."""
        batch: list[_Request] = []
        left: list[_Request] = []
        load = 0.0
        for request in lane.waiting:
            if request.answer.done():
                continue
            fits = not batch or (request.key == batch[0].key and load + request.load <= 1 + ROUNDING)
            (batch if fits else left).append(request)
            load += request.load * fits
        lane.waiting = deque(left)
        return batch

    def _work(self, lane: _Lane, batch: list[_Request], items: Sequence[Any]) -> Sequence[Any]:
        """In the lane's thread."""

        def between() -> None:
            if all(request.answer.done() for request in batch):
                raise _Abandoned
            if lane is self._large:
                self._turns.__exit__()
                self._turns.__enter__()

        with self._turns, between_passes(between):
            between()
            return batch[0].work(items)

    async def _compute(self, lane: _Lane, batch: list[_Request]) -> None:
        items = [item for request in batch for item in request.items]
        loop = asyncio.get_running_loop()
        try:
            results = await loop.run_in_executor(lane.thread, self._work, lane, batch, items)
        except _Abandoned:
            return
        except Exception as problem:
            if len(batch) > 1:  # one of them is at fault: let the others have their answers
                for request in batch:
                    if not request.answer.done():
                        await self._compute(lane, [request])
            elif not batch[0].answer.done():
                batch[0].answer.set_exception(problem)
            return
        self.computed(len(items))
        start = 0
        for request in batch:
            if not request.answer.done():
                request.answer.set_result(results[start : start + len(request.items)])
            start += len(request.items)
