"""Dynamic batching of the requests of many clients: the next batch fills while the current one is computed.

The oldest request goes first, together with as many waiting requests for the same model and settings as fit
in the batch. Requests larger than a batch wait in another lane. One lane computes at a time, because
the networks use all available cores. Between two forward passes the large lane yields to the small one, and
work whose clients have all gone is abandoned.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from electra.model.passes import before_each_batch
from electra.serving.limits import Limits, RequestError

Work = Callable[[Sequence[Any]], Sequence[Any]]  # one result for each item
TOLERANCE = 1e-9  # tolerance for sums of loads


@dataclass(frozen=True, eq=False)
class _Request:
    key: Hashable
    work: Work
    items: Sequence[Any]
    load: float
    answer: asyncio.Future[Sequence[Any]]


class _Abandoned(Exception):
    """No client is waiting for the answer any more."""


class _FairLock:
    """A lock that waiting threads acquire in the order of their arrival."""

    def __init__(self) -> None:
        self._changed, self._next_ticket, self._serving = threading.Condition(), 0, 0

    def __enter__(self) -> None:
        with self._changed:
            ticket, self._next_ticket = self._next_ticket, self._next_ticket + 1
            self._changed.wait_for(lambda: self._serving == ticket)

    def __exit__(self, *exception: object) -> None:
        with self._changed:
            self._serving += 1
            self._changed.notify_all()


class _Lane:
    """A queue of requests, and the thread that computes them."""

    def __init__(self, name: str) -> None:
        self.waiting: deque[_Request] = deque()
        self.arrived = asyncio.Event()
        self.thread = ThreadPoolExecutor(1, thread_name_prefix=name)


class Batcher:
    """Queues requests and computes them in batches, in two threads.

    Args:
        limits: queue length, batch size and timeout.
        on_batch: called with the number of items of every computed batch.
    """

    def __init__(self, limits: Limits, on_batch: Callable[[int], None] = lambda items: None) -> None:
        self.limits, self.on_batch = limits, on_batch
        self._small, self._large, self._lock = _Lane("small"), _Lane("large"), _FairLock()
        self._lane_tasks: list[asyncio.Task[None]] = []
        self._open: set[_Request] = set()

    @property
    def size(self) -> int:
        """The number of requests that are waiting or being computed."""
        return len(self._open)

    async def __call__(
        self, key: Hashable, work: Work, items: Sequence[Any], load: float | None = None
    ) -> Sequence[Any]:
        """Returns the results of `work` on the items, computed alone or in a batch with other requests.

        Args:
            key: requests with equal keys may share a batch.
            work: returns one result per item.
            items: the request's inputs.
            load: the fraction of a batch that the items fill (None: their number divided by the batch size).

        Raises:
            RequestError: the queue is full or the server is stopping (503), or there is no answer in time
                (504). The computation then ends before the next forward pass, unless another client still
                waits for the same batch.
            Exception: any exception of `work`.
        """
        if self.size >= self.limits.queue:
            raise RequestError(503, f"{self.size} requests are waiting", "Try again in a moment")
        load = len(items) / self.limits.batch_size if load is None else load
        request = _Request(key, work, items, load, asyncio.get_running_loop().create_future())
        lane = self._small if load <= 1 + TOLERANCE else self._large
        self._open.add(request)
        try:
            lane.waiting.append(request)
            lane.arrived.set()
            async with asyncio.timeout(self.limits.timeout):
                return await request.answer
        except TimeoutError:
            problem = f"no answer within {self.limits.timeout:g} s"
            raise RequestError(504, problem, "Send fewer or shorter texts, or try again") from None
        finally:
            self._open.discard(request)

    def start(self) -> None:
        """Starts both lanes in the running event loop."""
        self._lane_tasks = [asyncio.create_task(self._run(lane)) for lane in (self._small, self._large)]

    def refuse_all(self) -> None:
        """Answers every open request with 503: the server is stopping."""
        for request in self._open:
            if not request.answer.done():
                error = RequestError(503, "the server is stopping", "Try again in a moment")
                request.answer.set_exception(error)

    async def stop(self) -> None:
        """Answers open requests with 503, stops both lanes and waits for their threads."""
        self.refuse_all()
        for task in self._lane_tasks:
            task.cancel()
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
        """Removes and returns the oldest request and those that fit in its batch; drops abandoned ones."""
        batch: list[_Request] = []
        rest: list[_Request] = []
        batch_load = 0.0
        for request in lane.waiting:
            if request.answer.done():
                continue
            fits = not batch or (request.key == batch[0].key and batch_load + request.load <= 1 + TOLERANCE)
            (batch if fits else rest).append(request)
            batch_load += request.load * fits
        lane.waiting = deque(rest)
        return batch

    def _work(self, lane: _Lane, batch: list[_Request], items: Sequence[Any]) -> Sequence[Any]:
        """Returns the results of a batch; runs in the lane's thread.

        Raises:
            _Abandoned: no client is waiting for any of its requests.
        """

        def before_pass() -> None:
            if all(request.answer.done() for request in batch):
                raise _Abandoned
            if lane is self._large:  # let a waiting small batch go first
                self._lock.__exit__()
                self._lock.__enter__()

        with self._lock, before_each_batch(before_pass):
            before_pass()
            return batch[0].work(items)

    async def _compute(self, lane: _Lane, batch: list[_Request]) -> None:
        items = [item for request in batch for item in request.items]
        loop = asyncio.get_running_loop()
        try:
            results = await loop.run_in_executor(lane.thread, self._work, lane, batch, items)
        except _Abandoned:
            return
        except Exception as problem:
            if len(batch) > 1:  # one request is at fault: compute each alone, so that the others are answered
                for request in batch:
                    if not request.answer.done():
                        await self._compute(lane, [request])
            elif not batch[0].answer.done():
                batch[0].answer.set_exception(problem)
            return
        self.on_batch(len(items))
        start = 0
        for request in batch:
            if not request.answer.done():
                request.answer.set_result(results[start : start + len(request.items)])
            start += len(request.items)
