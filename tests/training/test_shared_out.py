"""What each process does in each update: its own rows, its own dropout, gradients of this update alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from electra.testing import toy
from electra.training import loop
from electra.training.assemble import build_run
from electra.training.distributed import World
from electra.training.run import RunState


class Pretended(World):
    """One of several processes, whose others say nothing."""

    def sum(self, values: list[float]) -> list[float]:
        return values


def made(folder: Path, world: World | None = None) -> RunState:
    run = build_run(toy.recipe(training={"micro_batch": 2, "log_every": 100}), folder, toy.store(), World())
    return replace(run, world=world or World())


@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_rows_of_all_processes_are_the_batch_of_the_step(tmp_path: Path, size: int) -> None:
    run, rows = made(tmp_path), 8
    for step in (0, 1, 50):
        whole = run.batches.batch(step, rows)
        parts = [part for rank in range(size) for part in replace(run, world=Pretended(rank, size)).micro_batches(step)]
        assert np.concatenate([part.examples for part in parts]).tolist() == [*range(8 * step, 8 * step + 8)]
        assert (np.concatenate([part.input_ids for part in parts]) == whole.input_ids).all()


def test_no_two_passes_have_the_same_dropout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [made(tmp_path / str(rank), Pretended(rank, 2)) for rank in (0, 1)]
    drawn: list[int] = []
    monkeypatch.setattr(torch, "manual_seed", drawn.append)
    for run in runs:
        loop.update(run)
        loop.update(run)
    assert len(set(drawn)) == len(drawn) == 2 * 2 * 2, "processes, updates, micro-batches"


def test_gradients_are_those_of_this_update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gradients(*steps: int) -> list[Any]:
        run = made(tmp_path)
        monkeypatch.setattr(run.optimizer, "step", lambda rate: None)
        for step in steps:
            run.step = step
            loop.update(run)
        return [parameter.grad for parameter in run.optimizer.parameters]

    for alone, after_another in zip(gradients(1), gradients(0, 1), strict=True):
        assert alone is after_another is None or torch.equal(alone, after_another)


@pytest.mark.parametrize("prefetch", [False, True])
def test_prefetched_rows_equal_those_made_on_demand(tmp_path: Path, prefetch: bool) -> None:
    falling = {"name": "rtd", "mask_fraction": 0.5, "final_mask_fraction": 0.1}
    run = build_run(toy.recipe(objective=falling, training={"steps": 4}), tmp_path, toy.store(), World())
    for step in range(4):
        run.step = step
        if step == 2:
            run.course.estimates.append((2, 8))  # a re-estimated time budget changes the mask fraction too
        [part], [expected] = run.next_batches(prefetch), run.corrupted_batches(step)
        assert torch.equal(part.masked_ids, expected.masked_ids)
        assert torch.equal(part.uniforms, expected.uniforms)
