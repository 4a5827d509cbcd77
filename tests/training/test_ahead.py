"""Rows made ready ahead of their update are the rows of that update."""

from __future__ import annotations

import threading
from typing import Any

import torch

from electra.testing import toy
from electra.training.ahead import Ahead


def test_the_rows_are_those_of_the_step_wherever_they_are_made() -> None:
    main, made = threading.current_thread().name, toy.objective("rtd")
    for further in (False, True):
        seen: list[tuple[int, str]] = []
        ahead, total = Ahead(), 4

        def make(step: int) -> list[Any]:
            seen.append((step, threading.current_thread().name))  # noqa: B023
            return [made.corrupt(toy.batches().batch(step, 4), 3, step / total)]  # noqa: B023

        for step in range(4):
            if step == 2:
                total = 8  # a budget of time, measured again: the share done moves too
            [part] = ahead.take(step, total, make, further)
            expected = made.corrupt(toy.batches().batch(step, 4), 3, step / total)
            assert torch.equal(part.masked_ids, expected.masked_ids)
            assert torch.equal(part.uniforms, expected.uniforms)
        assert {step for step, thread in seen if thread != main} <= ({1, 2, 3, 4} if further else set())
        assert [step for step, thread in seen if thread == main] == ([0, 2] if further else [0, 1, 2, 3])
