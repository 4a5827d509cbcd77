"""Processes whose weights differ stop with an error; what depends on the number of processes."""

import random
from pathlib import Path

import pytest
import torch
from driven import command, complete, ranks, rows, run_processes

from electra.artifacts.run_files import RunFolder
from electra.testing import toy
from electra.training import loop
from electra.training.assemble import build_run
from electra.training.distributed import World, digest

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


@pytest.mark.reliability
def test_a_run_of_two_processes_can_be_resumed_by_one_and_by_two_again(
    toy_store: Path, tmp_path: Path
) -> None:
    """The batches stay to the bit; losses up to rounding; and the log says what they are not."""
    still = {"model.dropout": "0.0", "model.attention-dropout": "0.0"}
    complete(command(toy_store, tmp_path / "whole", **still))
    out = tmp_path / "run"
    words = command(toy_store, out, **still)
    run_processes(words, 2, tmp_path, until=6)
    run_processes(words, 1, tmp_path, until=14)
    run_processes(words, 2, tmp_path)
    own, whole = rows(out), rows(tmp_path / "whole")
    assert [row["batch_digest"] for row in own] == [row["batch_digest"] for row in whole]
    assert [row["counts"] for row in own] == [row["counts"] for row in whole]
    assert [row["loss"] for row in own] == pytest.approx([row["loss"] for row in whole], rel=1e-3)
    log = " ".join((out / "log.txt").read_text().split())
    assert "processes 1 instead of 2, " in log
    assert "processes 2 instead of 1, " in log
