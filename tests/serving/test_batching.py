"""Requests computed together: in order, apart where they must be, bounded."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np
import pytest

from electra.model import passes
from electra.serving.batching import Batcher
from electra.serving.limits import Limits, RequestError


class Worker:
    """Doubles numbers, and waits at a gate; notes what it was given together."""

    def __init__(self) -> None:
        self.gate, self.batches = threading.Event(), list[list[int]]()

    def __call__(self, items: Sequence[int]) -> Sequence[int]:
        self.gate.wait(5)
        self.batches.append(list(items))
        if -1 in items:
            raise ValueError("a bad number")
        return [2 * item for item in items]


def run(test: Callable[[Batcher, Worker], Awaitable[Any]], **limits: Any) -> tuple[Any, Worker]:
    worker = Worker()

    async def with_batcher() -> Any:
        batcher = Batcher(Limits(**limits))
        try:
            return await test(batcher, worker)
        finally:
            worker.gate.set()
            await batcher.stop()

    return asyncio.run(with_batcher()), worker


async def later(worker: Worker, *asked: Awaitable[Any]) -> list[Any]:
    """All of them, once all wait."""
    tasks = [asyncio.ensure_future(one) for one in asked]
    await asyncio.sleep(0.05)
    worker.gate.set()
    return await asyncio.gather(*tasks, return_exceptions=True)


def test_waiting_requests_are_computed_in_one_batch() -> None:
    async def test(batcher: Batcher, worker: Worker) -> Any:
        return await later(worker, *(batcher("a", worker, [n, n + 1]) for n in (1, 10, 20, 30)))

    found, worker = run(test, batch_size=5)
    assert found == [[2, 4], [20, 22], [40, 42], [60, 62]]
    assert worker.batches == [[1, 2, 10, 11], [20, 21, 30, 31]], "as many as fit, whole requests"


def test_requests_with_other_settings_are_computed_separately() -> None:
    async def test(batcher: Batcher, worker: Worker) -> Any:
        keys = ["a", "b", "a", "b"]
        return await later(worker, *(batcher(key, worker, [n]) for n, key in enumerate(keys)))

    found, worker = run(test)
    assert found == [[0], [2], [4], [6]] and worker.batches == [[0, 2], [1, 3]]


def test_a_failing_request_does_not_affect_others_in_its_batch() -> None:
    async def test(batcher: Batcher, worker: Worker) -> Any:
        return await later(worker, *(batcher("a", worker, [n]) for n in (0, 1, -1, 2)))

    found, _ = run(test)
    assert [found[i] for i in (0, 1, 3)] == [[0], [2], [4]] and isinstance(found[2], ValueError)


def test_requests_beyond_the_queue_are_rejected_until_it_empties() -> None:
    async def test(batcher: Batcher, worker: Worker) -> Any:
        found = await later(worker, *(batcher("a", worker, [n]) for n in range(5)))
        return found, batcher.size, await batcher("a", worker, [7])

    (found, size, again), _ = run(test, queue=3)
    assert [isinstance(one, RequestError) and one.status for one in found] == [False] * 3 + [503] * 2
    assert size == 0 and again == [14]


def test_requests_of_disconnected_clients_are_not_computed() -> None:
    async def test(batcher: Batcher, worker: Worker) -> Any:
        first = asyncio.ensure_future(batcher("a", worker, [1]))
        await asyncio.sleep(0.02)
        second = asyncio.ensure_future(batcher("a", worker, [2]))
        await asyncio.sleep(0.02)
        second.cancel()
        with pytest.raises(RequestError) as late:
            await batcher("a", worker, [3])
        worker.gate.set()
        await asyncio.gather(first, return_exceptions=True)
        return late.value.status, await batcher("a", worker, [4])

    (status, answer), worker = run(test, timeout=0.2)
    assert status == 504 and answer == [8] and worker.batches == [[1], [4]]


class Reader:
    """Work of many passes, as all reading with a network is."""

    def __init__(self) -> None:
        self.passes = 0

    def __call__(self, items: Sequence[int]) -> Sequence[int]:
        def network(one: passes.PaddedBatch) -> list[int]:
            self.passes += 1
            time.sleep(0.02)
            return [0] * len(one.index)

        longest = passes.positions_per_batch("cpu")
        list(passes.map_rows([np.zeros(longest, np.int64)] * 400, network, "cpu"))
        return items


def test_work_that_nobody_waits_for_ends_before_the_next_pass() -> None:
    async def test(batcher: Batcher, worker: Worker) -> Any:
        late, first, second = Reader(), Reader(), Reader()
        with pytest.raises(RequestError) as caught:
            await batcher("late", late, [1])
        asked = [asyncio.ensure_future(batcher("a", each, [1])) for each in (first, second)]
        await asyncio.sleep(0.1)
        await batcher.stop()
        with pytest.raises(RequestError):
            await batcher("a", worker, [1])
        return caught.value.status, late, first, await asyncio.gather(*asked, return_exceptions=True)

    (status, late, first, ended), _ = run(test, timeout=0.3)
    assert status == 504 and 0 < late.passes < 100 and first.passes < 100
    assert all(isinstance(one, asyncio.CancelledError) for one in ended)
