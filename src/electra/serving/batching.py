"""Dynamic batching of the requests of many clients: the next batch fills while the current one is computed.

The oldest request goes first, together with as many waiting requests for the same model and settings as fit
in the batch. One thread computes, because the networks use all available cores; it gives up work whose
clients have all gone before the next forward pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from electra.model.passes import before_each_batch
from electra.serving.limits import Limits, RequestError

Work = Callable[[Sequence[Any]], Sequence[Any]]  # one result for each item


@dataclass(frozen=True, eq=False)
class _Request:
    key: Hashable
    work: Work
    items: Sequence[Any]
    answer: asyncio.Future[Sequence[Any]] = field(default_factory=asyncio.Future)


class _Abandoned(Exception):
    """No client is waiting for the answer any more."""


class Batcher:
    """Queues requests and computes them in batches, in a thread of its own."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.size = limits, 0  # size: the number of requests waiting or being computed
        self._waiting: list[_Request] = []
        self._is_stopping, self._thread = False, ThreadPoolExecutor(1, "batches")
        self._answering: asyncio.Task[None] | None = None

    async def __call__(self, key: Hashable, work: Work, items: Sequence[Any]) -> Sequence[Any]:
        """Returns the results of `work` on the items, computed with those of requests with an equal key.

        Raises RequestError: queue full or server stopping (503), or no answer in time (504).
        """
        if self._is_stopping or self.size >= self.limits.queue:
            raise RequestError(503, f"{self.size} requests are waiting", "Try again in a moment")
        request = _Request(key, work, items)
        self.size += 1
        self._waiting.append(request)
        if self._answering is None or self._answering.done():
            self._answering = asyncio.create_task(self._answer_all())
        try:
            return await asyncio.wait_for(request.answer, self.limits.timeout)
        except TimeoutError:
            problem = f"no answer within {self.limits.timeout:g} s"
            raise RequestError(504, problem, "Send fewer or shorter texts, or try again") from None
        finally:
            self.size -= 1

    async def stop(self) -> None:
        """Cancels all open requests, and ends the thread before its next forward pass."""
        self._is_stopping = True
        if self._answering is not None:
            await self._answering
        self._thread.shutdown()

    async def _answer_all(self) -> None:
        while batch := self._take():
            await self._answer(batch)

    def _take(self) -> list[_Request]:
        """Removes and returns the oldest request, and those that fit in its batch."""
        batch, room = list[_Request](), self.limits.batch_size
        for request in self._waiting:
            fits = request.key == batch[0].key and len(request.items) <= room if batch else True
            if fits and not request.answer.done():
                batch.append(request)
                room -= len(request.items)
        self._waiting = [each for each in self._waiting if each not in batch and not each.answer.done()]
        return batch

    async def _answer(self, batch: list[_Request]) -> None:
        """Answers the requests of a batch; each alone if one fails, so that the others are answered."""
        loop = asyncio.get_running_loop()
        try:
            results = await loop.run_in_executor(self._thread, self._compute, batch)
        except _Abandoned:
            for request in batch:
                request.answer.cancel()
        except Exception as problem:
            for request in batch:
                if len(batch) > 1:
                    await self._answer([request])
                elif not request.answer.done():
                    request.answer.set_exception(problem)
        else:
            for request in batch:
                answer, results = results[: len(request.items)], results[len(request.items) :]
                if not request.answer.done():
                    request.answer.set_result(answer)

    def _compute(self, batch: list[_Request]) -> Sequence[Any]:
        def before_pass() -> None:
            if self._is_stopping or all(request.answer.done() for request in batch):
                raise _Abandoned

        with before_each_batch(before_pass):
            before_pass()
            return batch[0].work([item for request in batch for item in request.items])
