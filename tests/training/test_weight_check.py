"""Processes whose weights differ stop with an error; what depends on the number of processes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from driven import command, ranks

from electra.artifacts.run import RunFolder
from electra.testing import toy
from electra.training import loop
from electra.training.distributed import World, digest
from electra.training.run import build_run

DRIFTING = str(Path(__file__).with_name("drifting.py"))


def test_a_flipped_bit_in_any_weight_or_moment_changes_the_digest(tmp_path: Path) -> None:
    run = build_run(toy.recipe(), tmp_path, toy.store(), World())
    loop.update(run)
    before, draw = digest(run.tensors()), random.Random(0)
    tensors = {**dict(run.pair.named_parameters()), **run.optimizer.tensors()}
    for name in draw.sample(sorted(tensors), 20):
        words = tensors[name].detach().view(torch.int32).view(-1)
        place, bit = draw.randrange(len(words)), 1 << draw.randrange(31)
        words[place] ^= bit
        assert digest(run.tensors()) != before, name
        words[place] ^= bit
    assert digest(run.tensors()) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variable", "rank", "told"),
    [
        ("FLIP", 1, "process 1 has other weights than process 0 at step 8"),
        pytest.param("FLIP", 0, "process 1 has other weights", marks=pytest.mark.reliability),
        ("NAN", 1, "the gradient is not finite at step 5"),
    ],
)
def test_a_flipped_bit_or_a_nan_in_one_process_stops_both_before_it_is_saved(
    variable: str, rank: int, told: str, toy_store: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    words = command(toy_store, out, **{"objective.name": DRIFTING, "training.steps": "12"})
    both = ranks(words, 2, tmp_path, **{variable: f"{rank} 5"})
    outputs = [process.finish() for process in both]
    assert [process.poll() for process in both] == [1, 1], outputs
    assert all(told in " ".join(text.split()) and "Traceback" not in text for text in outputs), outputs
    assert [saved.step for saved in RunFolder(out).saved_checkpoints()] == [4]
