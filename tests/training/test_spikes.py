"""Loss spikes: what is one, what is recorded, and that skipping one is as exact as everything else."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from driven import command, fingerprint, ranks, rows, steps_done

from electra.artifacts.run import RunFolder
from electra.foundation.config import merge
from electra.foundation.extensions import trust
from electra.foundation.signals import StopRequest
from electra.testing import toy
from electra.training import loop, spikes
from electra.training.distributed import World
from electra.training.run import build_run
from electra.training.spikes import WINDOW, RecentLosses
from electra.training.start import start

GOLDEN = Path(__file__).parents[1] / "golden"
SPIKY = str(Path(__file__).with_name("spiky.py"))


@pytest.fixture(autouse=True)
def spiky(no_trusted_code: None) -> None:
    trust(SPIKY)


AT = 12 + 1  # the step that is finished with the update of batch 12


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare with few updates already."""
    monkeypatch.setattr(spikes, "MIN_UPDATES", 8)


def noisy(number: int, seed: int = 0) -> list[float]:
    draw = random.Random(seed)
    return [draw.gauss(20.0, 1.0) for _ in range(number)]


def test_only_losses_far_above_the_median_are_spikes() -> None:
    recent = RecentLosses()
    assert [spike for loss in noisy(2000) if (spike := recent.add(loss))] == []
    spike = recent.add(40.0)
    assert spike is not None and 15 < spike.deviations < 30 and 19 < spike.median < 21
    assert recent.add(20.0) is None and recent.add(0.0) is None, "far below is none"
    assert recent.add(41.0) is not None, "one spike does not hide the next"


def test_small_changes_of_constant_losses_are_no_spikes() -> None:
    recent = RecentLosses([2.0] * WINDOW)
    assert recent.add(2.1) is None and recent.add(2.2) is not None


def train(folder: Path, stop_at: int | None = None, **training: Any) -> list[dict[str, Any]]:
    """To the end, or to a checkpoint of step `stop_at`; the alarms of the ledger."""
    settings = toy.recipe(training={"steps": 16, "log_every": 1, "evaluate_every": 16, **training})
    sections = merge(settings.to_sections(), {"objective": {"name": SPIKY}})
    with start(toy.make_recipe(sections), folder, toy.store(), World()) as run, StopRequest() as stop:
        while stop_at is not None and run.step < stop_at:
            loop.update(run)
        if stop_at is None:
            assert loop.train(run, stop)
        else:
            loop.save(run)
    return [row for row in RunFolder(folder).ledger().rows if row.get("event") == "spike"]


def weights(folder: Path) -> tuple[str, str]:
    events = fingerprint(folder)
    return events["model.safetensors"], events["optimizer.safetensors"]


@pytest.mark.slow
@pytest.mark.usefixtures("soon")
def test_a_spike_is_recorded_with_its_batch_and_changes_no_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [alarm] = train(tmp_path / "warned")
    assert alarm["step"] == AT and not alarm["skipped"] and alarm["loss"] > 2 * alarm["median"]
    [row] = [row for row in rows(tmp_path / "warned") if row["step"] == AT]
    assert (alarm["batch_digest"], alarm["loss"]) == (row["batch_digest"], row["loss"])
    assert f"loss spike at step {AT}: " in (tmp_path / "warned" / "log.txt").read_text()
    monkeypatch.setattr(spikes, "DEVIATIONS", 1e9)
    assert train(tmp_path / "deaf") == []
    assert weights(tmp_path / "warned") == weights(tmp_path / "deaf")


@pytest.mark.slow
@pytest.mark.usefixtures("soon")
def test_a_skipped_update_leaves_the_networks_and_is_skipped_again_after_a_resume(tmp_path: Path) -> None:
    [alarm] = train(tmp_path / "whole", on_spike="skip")
    assert alarm["skipped"]
    train(tmp_path / "cut", on_spike="skip", stop_at=AT - 1)
    before = weights(tmp_path / "cut")[0]
    train(tmp_path / "cut", on_spike="skip", stop_at=AT)
    assert weights(tmp_path / "cut")[0] == before
    [again] = train(tmp_path / "cut", on_spike="skip")
    assert again == alarm and weights(tmp_path / "cut") == weights(tmp_path / "whole")
    train(tmp_path / "warned")
    assert weights(tmp_path / "warned") != weights(tmp_path / "whole")


def test_losses_of_another_phase_are_not_compared_with(tmp_path: Path) -> None:
    recipe = toy.recipe(training={"steps": 90}, objective={"name": "two_stage"})
    run = build_run(recipe, tmp_path, toy.store(), World())
    [switch] = {run.objective.phase(step, 90)[0] for step in range(90)} - {0}
    run.recent_losses = RecentLosses([1.0] * WINDOW)
    run.step = switch
    assert not loop.handle_spike(run, 1000.0) and list(run.recent_losses) == [1000.0]


@pytest.mark.slow
def test_two_processes_skip_the_same_update_even_after_a_kill(toy_store: Path, tmp_path: Path) -> None:
    settings = {"objective.name": SPIKY, "training.on-spike": "skip", "training.steps": "40"}
    both = ranks(command(toy_store, tmp_path / "whole", **settings), 2, tmp_path)
    assert [(process.finish(), process.poll())[1] for process in both] == [0, 0]
    out = tmp_path / "run"
    both = ranks(command(toy_store, out, **settings), 2, tmp_path)
    while steps_done(out) < 34 and all(process.poll() is None for process in both):
        pass
    for process in both:
        process.process.kill()
        process.finish()
    both = ranks(command(toy_store, out, **settings), 2, tmp_path)
    assert [(process.finish(), process.poll())[1] for process in both] == [0, 0]
    assert fingerprint(out) == fingerprint(tmp_path / "whole")
    messages = [row for row in RunFolder(out).ledger().rows if row.get("event") == "spike"]
    assert [row["step"] for row in messages] == [37] and messages[0]["skipped"]
