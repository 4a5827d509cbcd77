"""A run that is stopped at the edges of what it does resumes to the bits of one that was not."""

import gc
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from driven import fingerprint

from electra.artifacts.run_files import RunFolder
from electra.foundation.signals import StopRequest
from electra.testing import toy
from electra.training import checkpoint, loop
from electra.training import heldout as evaluation
from electra.training.assemble import build_run, start
from electra.training.distributed import World

STEPS, EPOCH = 12, 10  # an epoch of 77 rows ends within the update that finishes step 10
SMALL = {"layers": 1, "hidden_size": 64}
SHAPE = {"length": 64, "micro_batch": 3, "warmup": 0.5, "evaluate_every": 4, "checkpoint_every": 3}


class Died(Exception):
    """Stands for a kill: nothing is saved after it."""


def go(folder: Path, until: int = STEPS, **training: Any) -> None:
    recipe = toy.recipe(model=SMALL, training={"steps": STEPS, **SHAPE, **training}, evaluation={"rows": 2})
    with start(recipe, folder, toy.store(), World()) as run:
        assert loop.train(run, lambda: until == run.step < STEPS) == (until == STEPS)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    go(folder)
    assert 8 * EPOCH > toy.batches(length=64).num_blocks > 8 * (EPOCH - 1)
    return folder


@pytest.mark.parametrize(
    "step", [1, EPOCH - 1, EPOCH, STEPS], ids=["first", "before the epoch ends", "epoch's end", "last"]
)
def test_a_run_stopped_after_a_step_resumes_with_the_same_bits(
    whole: Path, tmp_path: Path, step: int
) -> None:
    go(tmp_path, until=step)
    assert RunFolder(tmp_path).saved_checkpoints()[0].step == step
    go(tmp_path)
    assert fingerprint(tmp_path) == fingerprint(whole)


@pytest.mark.parametrize("moment", ["accumulation", "evaluation", "save"])
def test_a_run_that_ends_within_a_step_resumes_with_the_same_bits(
    whole: Path, tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Counter[str]()

    def dying(name: str, at: int, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            calls[name] += 1
            if calls[name] == at:
                raise Died
            return real(*given, **named)

        return call

    with monkeypatch.context() as patch:
        if moment == "accumulation":  # in the second of three micro-batches of update 6
            patch.setattr(torch, "manual_seed", dying(moment, 5 * 3 + 2, torch.manual_seed))
        elif moment == "evaluation":  # the one at step 8
            patch.setattr(evaluation, "evaluate", dying(moment, 3, evaluation.evaluate))
        else:
            patch.setattr(checkpoint, "write", dying(moment, 3, checkpoint.write))
        with pytest.raises(Died):
            go(tmp_path)
    go(tmp_path)
    assert fingerprint(tmp_path) == fingerprint(whole)


def test_a_run_resumed_with_other_intervals_has_the_same_weights(whole: Path, tmp_path: Path) -> None:
    go(tmp_path, until=5)
    go(tmp_path, log_every=5, checkpoint_every=2, evaluate_every=6)
    actual, theirs = fingerprint(tmp_path), fingerprint(whole)
    assert actual["model.safetensors"] == theirs["model.safetensors"]
    assert actual["optimizer.safetensors"] == theirs["optimizer.safetensors"]


def resident() -> float:
    """MiB."""
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmRSS")).split()[1]) / 1024


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    "steps", [250, pytest.param(10_000, marks=[pytest.mark.reliability, pytest.mark.timeout(3600)])]
)
def test_memory_and_open_files_do_not_grow(tmp_path: Path, steps: int) -> None:
    small = {"batch_size": 2, "log_every": 10, "evaluate_every": 50, "checkpoint_every": 50}
    recipe = toy.recipe(model=SMALL, training={"steps": steps, **small}, evaluation={"rows": 2})
    recorded: list[tuple[float, int]] = []
    with start(recipe, tmp_path, toy.store(), World()) as run, StopRequest() as stop:
        while run.step + 1 < steps:
            loop.update(run)
            if run.step % 50 == 0:
                loop.evaluate(run, stop)
                loop.save(run)
                gc.collect()
                recorded.append((resident(), len(os.listdir("/proc/self/fd"))))
    memory, files = zip(*recorded[1:], strict=True)
    assert max(files) == min(files)
    assert memory[-1] - memory[0] < 20


def test_a_checkpoint_can_be_saved_to_the_path_it_was_loaded_from(tmp_path: Path) -> None:
    """What was read from a file that is then replaced stays what it was (safetensors issue 762: zeros)."""
    run = build_run(toy.recipe(), tmp_path, toy.store(), World())
    loop.update(run)
    path = checkpoint.write(tmp_path, run.pair, run.optimizer, {"step": 1}, keep=2)
    before = {name: tensor.detach().clone() for name, tensor in run.pair.named_parameters()}
    files = {file.name: file.read_bytes() for file in path.iterdir()}
    for _ in range(2):
        checkpoint.restore(path, run.pair, run.optimizer)
        assert checkpoint.write(tmp_path, run.pair, run.optimizer, {"step": 1}, keep=2) == path
    assert {file.name: file.read_bytes() for file in path.iterdir()} == files
    assert all(torch.equal(before[name], now) for name, now in run.pair.named_parameters())
