"""Killed at random moments, a run that continues ends with the bits of the run that was never stopped."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest
import torch
from driven import command, complete, fingerprint, launch, rows, steps_done
from safetensors.torch import load_file


def kill_and_continue(arguments: list[str], out: Path, kills: int, seed: int, sign: signal.Signals = signal.SIGKILL) -> None:
    """Kill the run `kills` times, each at a random step and a random moment in it, then let it finish."""
    draw = random.Random(seed)
    for _ in range(kills):
        begun = steps_done(out)
        target = draw.randint(min(max(0, begun), 39), 39)
        process = launch(arguments)
        while process.poll() is None and steps_done(out) < target:
            time.sleep(0.002)
        time.sleep(draw.random() * 0.03)
        os.killpg(process.pid, sign)
        process.communicate()
        assert process.returncode in (-sign, 0)
    complete(arguments)


@pytest.fixture(scope="module")
def unbroken(toy_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("unbroken") / "run"
    complete(command(toy_store, out))
    return out


def test_sigkill_five_times(toy_store: Path, unbroken: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    kill_and_continue(command(toy_store, out), out, kills=5, seed=1)
    assert fingerprint(out) == fingerprint(unbroken)
    assert [row["step"] for row in rows(out)] == list(range(1, 41)), "no update missing from the ledger, none twice"
    for network in ("discriminator", "generator"):
        mine, theirs = (load_file(run / network / "model.safetensors") for run in (out, unbroken))
        assert mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_sigkill_in_bf16_with_accumulation(toy_store: Path, tmp_path: Path) -> None:
    changes = {"training.precision": "bf16", "training.micro-batch": "3", "training.optimizer": "muon", "model.encoder": "modern"}
    complete(command(toy_store, tmp_path / "whole", **changes))
    kill_and_continue(command(toy_store, tmp_path / "run", **changes), tmp_path / "run", kills=1, seed=2)
    assert fingerprint(tmp_path / "run") == fingerprint(tmp_path / "whole")


def test_sigkill_of_a_corrector_with_a_head_and_a_table_of_two_parts(toy_store: Path, tmp_path: Path) -> None:
    changes = {"objective.name": "all_tokens_mlm", "objective.masking": "whole_word", "model.sharing": "disentangled"}
    complete(command(toy_store, tmp_path / "whole", **changes))
    kill_and_continue(command(toy_store, tmp_path / "run", **changes), tmp_path / "run", kills=1, seed=3)
    assert fingerprint(tmp_path / "run") == fingerprint(tmp_path / "whole")


def test_sigterm_saves_the_step_it_stopped_at(toy_store: Path, unbroken: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    arguments = command(toy_store, out, **{"training.checkpoint-every": "1000"})
    process = launch(arguments)
    while steps_done(out) < 17:
        time.sleep(0.002)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 143, output
    saved = [path.name for path in (out / "checkpoints").iterdir()]
    last = rows(out)[-1]["step"]
    assert saved == [f"step-{last:08d}"] and 17 <= last < 40
    assert not (out / "report.html").exists()
    complete(arguments)
    assert fingerprint(out) == fingerprint(unbroken)


def test_a_finished_run_says_so_and_writes_nothing(toy_store: Path, unbroken: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in unbroken.rglob("*.safetensors")}
    output = complete(command(toy_store, unbroken))
    assert "is complete" in output
    assert {path: path.stat().st_mtime_ns for path in unbroken.rglob("*.safetensors")} == before


def test_damaged_newest_checkpoint_is_named_and_the_one_before_used(toy_store: Path, unbroken: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    arguments = command(toy_store, out)
    process = launch(arguments)
    while steps_done(out) < 20:
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    newest = max((out / "checkpoints").glob("step-*"))
    weights = bytearray((newest / "model.safetensors").read_bytes())
    weights[len(weights) // 2] ^= 1
    (newest / "model.safetensors").write_bytes(weights)
    foreign = out / "checkpoints" / "step-99999999"
    foreign.mkdir()
    (foreign / "notes.txt").write_text("not a checkpoint")
    output = complete(arguments)
    flat = " ".join(output.split())
    assert f"{newest.name} is damaged (model.safetensors is damaged" in flat
    assert "step-99999999 is damaged (manifest.json is missing)" in flat
    assert (foreign / "notes.txt").exists(), "what is not ours is not deleted"
    foreign_less = fingerprint_without(out, foreign)
    assert foreign_less == fingerprint(unbroken)


def fingerprint_without(out: Path, foreign: Path) -> object:
    foreign.rename(out / "moved-away")
    return fingerprint(out)


def test_two_processes_killed_and_continued(toy_store: Path, tmp_path: Path) -> None:
    """Killed under torchrun, told to stop under our own launcher: both continue to the bits of the run that was left alone."""
    whole = tmp_path / "whole"
    complete(command(toy_store, whole, processes=2))
    stop_two_processes(toy_store, whole, tmp_path / "torchrun", signal.SIGKILL, torchrun=True)
    stop_two_processes(toy_store, whole, tmp_path / "told", signal.SIGTERM)


@pytest.mark.reliability
def test_a_killed_launcher_s_processes_save_and_end(toy_store: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    complete(command(toy_store, whole, processes=2))
    stop_two_processes(toy_store, whole, tmp_path / "killed", signal.SIGKILL)


def stop_two_processes(toy_store: Path, whole: Path, out: Path, number: signal.Signals, torchrun: bool = False) -> None:
    process = launch(command(toy_store, out, processes=2, torchrun=torchrun))
    while process.poll() is None and steps_done(out) < 22:
        time.sleep(0.002)
    (os.killpg if torchrun else os.kill)(process.pid, number)
    process.communicate(timeout=60)  # returns when every process that holds the pipe has ended
    if not torchrun:
        assert process.returncode == (143 if number == signal.SIGTERM else -number)
        assert "stopped at step" in (out / "log.txt").read_text()
    complete(command(toy_store, out, processes=2))
    assert fingerprint(out)["model.safetensors"] == fingerprint(whole)["model.safetensors"]
    assert [row["batch_digest"] for row in rows(out)] == [row["batch_digest"] for row in rows(whole)]
    if torchrun:  # without the checkpoint of the stop, the whole ledger is the same
        assert fingerprint(out) == fingerprint(whole)


def test_what_is_wrong_is_said_once(tmp_path: Path) -> None:
    process = launch(command(tmp_path / "no-store", tmp_path / "run", processes=2))
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert output.count("error:") == 1, output


def test_two_processes_learn_what_one_learns(toy_store: Path, tmp_path: Path) -> None:
    changes = {"model.dropout": "0.0", "model.attention-dropout": "0.0", "training.steps": "10"}
    complete(command(toy_store, tmp_path / "one", **changes))
    complete(command(toy_store, tmp_path / "two", processes=2, **changes))
    one, two = rows(tmp_path / "one"), rows(tmp_path / "two")
    assert [row["batch_digest"] for row in one] == [row["batch_digest"] for row in two]
    assert [row["counts"] for row in one] == [row["counts"] for row in two]
    for a, b in zip(one, two, strict=True):
        assert b["loss"] == pytest.approx(a["loss"], rel=1e-3)
    assert two[0]["loss"] == pytest.approx(one[0]["loss"], rel=1e-6)


@pytest.mark.reliability
@pytest.mark.parametrize("seed", range(10))
def test_fifty_sigkills(toy_store: Path, unbroken: Path, tmp_path: Path, seed: int) -> None:
    out = tmp_path / "run"
    kill_and_continue(command(toy_store, out), out, kills=5, seed=100 + seed)
    assert fingerprint(out) == fingerprint(unbroken)


@pytest.mark.reliability
@pytest.mark.parametrize("seed", range(5))
def test_sigterm_at_random_moments(toy_store: Path, unbroken: Path, tmp_path: Path, seed: int) -> None:
    out = tmp_path / "run"
    draw = random.Random(seed)
    arguments = command(toy_store, out)
    for _ in range(3):
        process = launch(arguments)
        target = draw.randint(min(max(0, steps_done(out)), 39), 39)
        while process.poll() is None and steps_done(out) < target:
            time.sleep(0.002)
        time.sleep(draw.random() * 0.05)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=240)
        assert process.returncode in (143, 0, -15)
    complete(arguments)
    assert fingerprint(out) == fingerprint(unbroken)


@pytest.mark.reliability
def test_four_processes_killed_and_continued(toy_store: Path, tmp_path: Path) -> None:
    complete(command(toy_store, tmp_path / "whole", processes=4))
    out = tmp_path / "run"
    process = launch(command(toy_store, out, processes=4))
    while process.poll() is None and steps_done(out) < 15:
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    complete(command(toy_store, out, processes=4))
    assert fingerprint(out) == fingerprint(tmp_path / "whole")


def test_ledger_is_readable_after_a_torn_line(toy_store: Path, unbroken: Path, tmp_path: Path) -> None:
    from electra.training.telemetry import read_rows

    path = tmp_path / "metrics.jsonl"
    path.write_bytes((unbroken / "metrics.jsonl").read_bytes() + b'{"kind": "train", "st')
    assert read_rows(path) == [json.loads(line) for line in (unbroken / "metrics.jsonl").read_text().splitlines()]
