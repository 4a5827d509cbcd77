"""Dynamic batching of the requests of many clients: the next batch fills while the current one is computed.

The oldest request goes first, together with as many waiting requests for the same model and settings as fit
in the batch. One thread computes, because the networks use all available cores. Between two forward passes of
a request larger than a batch, smaller ones are computed, and work whose clients have all gone is abandoned.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from electra.model.passes import before_each_batch
from electra.serving.limits import Limits, RequestError

Work = Callable[[Sequence[Any]], Sequence[Any]]  # one result for each item
FULL = 1 + 1e-9  # the load of a full batch, with a tolerance for sums


@dataclass(frozen=True, eq=False)
class _Request:
    key: Hashable
    work: Work
    items: Sequence[Any]
    load: float
    answer: Future[Sequence[Any]] = field(default_factory=Future)


class _Abandoned(Exception):
    """No client is waiting for the answer any more."""


class Batcher:
    """Queues requests and computes them in batches, in a thread of its own.

    Args:
        limits: queue length, batch size and timeout.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits, self.size = limits, 0  # size: the number of requests waiting or being computed
        self._waiting: list[_Request] = []
        self._changed, self._stopping = threading.Condition(), False
        self._thread = threading.Thread(target=self._run, name="batches", daemon=True)

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
        request = _Request(key, work, items, len(items) / self.limits.batch_size if load is None else load)
        self.size += 1
        try:
            with self._changed:
                if self._stopping:
                    raise RequestError(503, "the server is stopping", "Try again in a moment")
                self._waiting.append(request)
                self._changed.notify()
            return await asyncio.wait_for(asyncio.wrap_future(request.answer), self.limits.timeout)
        except TimeoutError:
            problem = f"no answer within {self.limits.timeout:g} s"
            raise RequestError(504, problem, "Send fewer or shorter texts, or try again") from None
        finally:
            self.size -= 1

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Cancels all open requests, and ends the thread before its next forward pass."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._stopping)
            self._compute(self._take())
        for request in self._waiting:
            request.answer.cancel()

    def _take(self, most: float = float("inf")) -> list[_Request]:
        """Removes and returns the oldest request of at most this load, and those that fit in its batch."""
        with self._changed:
            self._waiting = [request for request in self._waiting if not request.answer.cancelled()]
            batch: list[_Request] = []
            for request in self._waiting:
                total = sum(each.load for each in batch) + request.load
                if request.load <= most if not batch else request.key == batch[0].key and total <= FULL:
                    batch.append(request)
            self._waiting = [request for request in self._waiting if request not in batch]
        return batch

    def _compute(self, batch: list[_Request]) -> None:
        """Answers the requests of a batch; each alone if one fails, so that the others are answered."""

        def before_pass() -> None:
            if self._stopping or all(request.answer.cancelled() for request in batch):
                raise _Abandoned
            if batch[0].load > FULL:
                self._compute(self._take(FULL))

        if not batch:
            return
        try:
            with before_each_batch(before_pass):
                before_pass()
                results = batch[0].work([item for request in batch for item in request.items])
        except _Abandoned:
            for request in batch:
                request.answer.cancel()
            return
        except Exception as problem:
            if len(batch) > 1:
                for request in batch:
                    self._compute([] if request.answer.cancelled() else [request])
            elif batch[0].answer.set_running_or_notify_cancel():
                batch[0].answer.set_exception(problem)
            return
        start = 0
        for request in batch:
            if request.answer.set_running_or_notify_cancel():
                request.answer.set_result(results[start : start + len(request.items)])
            start += len(request.items)
