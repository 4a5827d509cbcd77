"""Requests computed in turns: in order, apart, bounded, and given up when nobody waits."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np
import pytest

from electra.model import passes
from electra.serving.limits import Limits, RequestError
from electra.serving.worker import SLICE, Worker


class Network:
    """Doubles numbers, once its gate is open; notes the parts of requests that it was given."""

    def __init__(self) -> None:
        self.gate, self.parts = threading.Event(), list[list[int]]()

    def of(self, numbers: Sequence[int]) -> tuple[Callable[[slice], list[int]], int]:
        def work(part: slice) -> list[int]:
            self.gate.wait(5)
            self.parts.append(list(numbers[part]))
            if -1 in numbers[part]:
                raise ValueError("a bad number")
            return [2 * number for number in numbers[part]]

        return work, len(numbers)


def run(test: Callable[[Worker, Network], Awaitable[Any]], **limits: Any) -> tuple[Any, Network]:
    network = Network()

    async def with_worker() -> Any:
        worker = Worker(Limits(**limits))
        try:
            return await test(worker, network)
        finally:
            network.gate.set()
            worker.stop()

    return asyncio.run(with_worker()), network


async def answers(worker: Worker, network: Network, *requests: Sequence[int]) -> list[Any]:
    """What the requests get that wait at the same time."""
    tasks = [asyncio.ensure_future(worker(*network.of(numbers))) for numbers in requests]
    await asyncio.sleep(0.05)
    network.gate.set()
    return await asyncio.gather(*tasks, return_exceptions=True)


def test_a_small_request_waits_for_no_more_than_a_slice_of_a_large_one() -> None:
    large, small = list(range(1, 4 * SLICE)), [0]
    found, network = run(lambda worker, network: answers(worker, network, large, small))
    assert found == [[2 * number for number in large], [0]]
    assert [len(part) for part in network.parts] == [SLICE, 1, SLICE, SLICE, SLICE - 1]


def test_a_failing_request_does_not_affect_others() -> None:
    found, _ = run(lambda worker, network: answers(worker, network, [0], [1], [-1], [2]))
    assert [found[i] for i in (0, 1, 3)] == [[0], [2], [4]] and isinstance(found[2], ValueError)


def test_requests_beyond_the_queue_are_rejected_until_it_empties() -> None:
    async def test(worker: Worker, network: Network) -> Any:
        found = await answers(worker, network, *([number] for number in range(5)))
        return found, worker.size, await worker(*network.of([7]))

    (found, size, again), _ = run(test, queue=3)
    assert [isinstance(one, RequestError) and one.status for one in found] == [False] * 3 + [503] * 2
    assert size == 0 and again == [14]


def test_requests_that_nobody_waits_for_are_not_computed() -> None:
    async def test(worker: Worker, network: Network) -> Any:
        first, second = (asyncio.ensure_future(worker(*network.of([number]))) for number in (1, 2))
        await asyncio.sleep(0.02)
        second.cancel()
        with pytest.raises(RequestError) as late:
            await worker(*network.of([3]))
        network.gate.set()
        await asyncio.gather(first, return_exceptions=True)
        return late.value.status, await worker(*network.of([4]))

    (status, answer), network = run(test, timeout=0.2)
    assert status == 504 and answer == [8] and network.parts == [[1], [4]]


def test_work_that_nobody_waits_for_ends_before_the_next_pass() -> None:
    passed: dict[str, int] = {"late": 0, "stopped": 0}

    def reading(name: str) -> Callable[[slice], list[int]]:
        def network(batch: passes.PaddedBatch) -> list[int]:
            passed[name] += 1
            time.sleep(0.02)
            return [0] * len(batch.index)

        rows = [np.zeros(passes.positions_per_batch("cpu"), np.int64)] * 400
        return lambda _: list(passes.map_rows(rows, network, "cpu"))

    async def test(worker: Worker, network: Network) -> Any:
        with pytest.raises(RequestError) as caught:
            await worker(reading("late"), 1)
        asked = [asyncio.ensure_future(worker(work, 1)) for work in (reading("stopped"), network.of([1])[0])]
        await asyncio.sleep(0.1)
        worker.stop()
        with pytest.raises(RequestError):
            await worker(*network.of([1]))
        return caught.value.status, await asyncio.gather(*asked, return_exceptions=True)

    (status, ended), network = run(test, timeout=0.3)
    assert status == 504 and all(0 < count < 100 for count in passed.values()) and not network.parts
    assert all(isinstance(one, RequestError) for one in ended)
