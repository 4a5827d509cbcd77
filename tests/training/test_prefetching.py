"""Rows made ready ahead of their update are the rows of that update."""

from __future__ import annotations

import threading
from typing import Any

import torch

from electra.testing import toy
from electra.training.prefetching import Prefetcher


def test_prefetched_rows_equal_those_made_on_demand() -> None:
    main, objective = threading.current_thread().name, toy.objective("rtd")
    for prefetch in (False, True):
        calls: list[tuple[int, str]] = []
        prefetcher, total = Prefetcher(), 4

        def make(step: int) -> list[Any]:
            calls.append((step, threading.current_thread().name))  # noqa: B023
            return [objective.corrupt(toy.batches().batch(step, 4), 3, step / total)]  # noqa: B023

        for step in range(4):
            if step == 2:
                total = 8  # a re-estimated time budget changes the progress too
            [part] = prefetcher.get(step, total, make, prefetch)
            expected = objective.corrupt(toy.batches().batch(step, 4), 3, step / total)
            assert torch.equal(part.masked_ids, expected.masked_ids)
            assert torch.equal(part.uniforms, expected.uniforms)
        assert {step for step, thread in calls if thread != main} <= ({1, 2, 3, 4} if prefetch else set())
        assert [step for step, thread in calls if thread == main] == ([0, 2] if prefetch else [0, 1, 2, 3])
