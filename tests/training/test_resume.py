"""Killed at random moments, a run that continues ends with the bits of the run that was never stopped."""

import os
import random
import signal
import time
from pathlib import Path

import pytest
import torch
from driven import (
    SETTINGS,
    Forked,
    command,
    complete,
    fingerprint,
    ranks,
    rows,
    run_processes,
    spawn,
    steps_done,
)
from safetensors.torch import load_file

from electra.commands.framework.main import main

LAST = int(SETTINGS["--training.steps"])


def wait_for(out: Path, step: int, *processes: Forked) -> None:
    while steps_done(out) < step and all(process.poll() is None for process in processes):
        time.sleep(0.01)


def kill_and_continue(
    words: list[str], out: Path, kills: int, seed: int, sign: signal.Signals = signal.SIGKILL
) -> None:
    """Kill the run `kills` times, each at a random step and a random moment in it, then let it finish."""
    draw = random.Random(seed)
    for _ in range(kills):
        process = Forked(words)
        wait_for(out, draw.randint(min(max(0, steps_done(out)), LAST - 1), LAST - 1), process)
        time.sleep(draw.random() * 0.03)
        process.send(sign)
        outputs = process.finish()
        assert process.poll() in ({0, -sign} if sign == signal.SIGKILL else {0, -sign, 143}), outputs
    complete(words)


@pytest.fixture(scope="module")
def unbroken(toy_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("unbroken") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("electra.pages.figures.missing", lambda: "written without figures")
        assert main(command(toy_store, out)) == 0
    return out


@pytest.mark.slow
def test_a_run_killed_five_times_ends_with_the_same_bits(toy_store: Path, unbroken: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    kill_and_continue(command(toy_store, out), out, kills=5, seed=1)
    assert fingerprint(out) == fingerprint(unbroken)
    assert [row["step"] for row in rows(out)] == list(range(1, LAST + 1)), (
        "no update missing from the ledger, none twice"
    )
    for network in ("discriminator", "generator"):
        mine, theirs = (load_file(run / network / "model.safetensors") for run in (out, unbroken))
        assert mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


@pytest.mark.slow
def test_sigterm_saves_the_current_step(toy_store: Path, unbroken: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = command(toy_store, out, **{"training.checkpoint-every": "1000"})
    process = Forked(words)
    wait_for(out, 10, process)
    process.send(signal.SIGTERM)
    output = process.finish()
    assert process.poll() == 143, output
    saved = [path.name for path in (out / "checkpoints").iterdir()]
    last = rows(out)[-1]["step"]
    assert saved == [f"step-{last:08d}"] and 10 <= last < LAST
    assert not (out / "report.html").exists()
    complete(words)
    assert fingerprint(out) == fingerprint(unbroken)


def test_rerunning_a_finished_run_writes_nothing(
    toy_store: Path, unbroken: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in unbroken.rglob("*.safetensors")}
    assert main(command(toy_store, unbroken)) == 0
    assert "is complete" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in unbroken.rglob("*.safetensors")} == before


@pytest.mark.slow
def test_a_damaged_newest_checkpoint_is_named_and_the_previous_one_used(
    toy_store: Path, unbroken: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    words = command(toy_store, out)
    process = Forked(words)
    wait_for(out, 14, process)
    process.send(signal.SIGKILL)
    process.finish()
    newest = max((out / "checkpoints").glob("step-*"))
    weights = bytearray((newest / "model.safetensors").read_bytes())
    weights[len(weights) // 2] ^= 1
    (newest / "model.safetensors").write_bytes(weights)
    foreign = out / "checkpoints" / "step-99999999"
    foreign.mkdir()
    (foreign / "notes.txt").write_text("not a checkpoint")
    output = complete(words)
    flat = " ".join(output.split())
    assert f"{newest.name} is damaged (model.safetensors is damaged" in flat
    assert "step-99999999 is damaged (manifest.json is missing)" in flat
    assert (foreign / "notes.txt").exists(), "what is not ours is not deleted"
    foreign.rename(out / "moved-away")
    assert fingerprint(out) == fingerprint(unbroken)


def same_run(out: Path, whole: Path) -> None:
    """But for the checkpoint of a stop, which leaves no rows."""
    assert fingerprint(out)["model.safetensors"] == fingerprint(whole)["model.safetensors"]
    assert [row["batch_digest"] for row in rows(out)] == [row["batch_digest"] for row in rows(whole)]


@pytest.fixture(scope="module")
def unbroken_by_two(toy_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    run_processes(command(toy_store, folder / "run"), 2, folder)
    return folder / "run"


@pytest.mark.slow
def test_two_killed_processes_resume_with_the_same_bits(toy_store: Path, unbroken_by_two: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    both = ranks(command(toy_store, out), 2, tmp_path)
    wait_for(out, 14, *both)
    for process in both:
        process.send(signal.SIGKILL)
    for process in both:
        process.finish()
    run_processes(command(toy_store, out), 2, tmp_path)
    assert fingerprint(out) == fingerprint(unbroken_by_two)


def lose_one(words: list[str], out: Path, meet: Path, lost: int, step: int) -> None:
    """Kill one of two processes as soon as `step` is done: the other says so in one line, and ends."""
    both = ranks(words, 2, meet)
    wait_for(out, step, *both)
    both[lost].send(signal.SIGKILL)
    outputs = [process.finish(timeout=30) for process in both]
    assert both[1 - lost].poll() == 1, outputs
    told = [line for line in outputs[1 - lost].splitlines() if "error" in line.lower()]
    assert len(told) == 1 and "connection" in told[0], outputs
    assert "Traceback" not in outputs[1 - lost], outputs


@pytest.mark.slow
def test_a_run_resumes_after_one_of_two_processes_is_killed(
    toy_store: Path, unbroken_by_two: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    lose_one(command(toy_store, out), out, tmp_path, lost=1, step=14)
    run_processes(command(toy_store, out), 2, tmp_path)
    same_run(out, unbroken_by_two)


@pytest.mark.slow
def test_a_process_that_hangs_beyond_the_timeout_ends_the_run(toy_store: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    both = ranks(command(toy_store, out), 2, tmp_path, ELECTRA_TIMEOUT_MINUTES="0.02")
    wait_for(out, 6, *both)
    both[1].send(signal.SIGSTOP)
    began = time.monotonic()
    outputs = both[0].finish(timeout=30)
    both[1].send(signal.SIGKILL)
    both[1].finish()
    assert both[0].poll() == 1 and time.monotonic() - began < 15
    assert "another process (no answer for 0.02 minutes)" in outputs, outputs
    assert "Traceback" not in outputs, outputs


@pytest.mark.slow
def test_a_signal_to_one_of_two_processes_stops_both(toy_store: Path, unbroken_by_two: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    both = ranks(command(toy_store, out), 2, tmp_path)
    wait_for(out, 14, *both)
    both[1].send(signal.SIGTERM)
    outputs = [process.finish() for process in both]
    assert [process.poll() for process in both] == [143, 143], outputs
    assert "stopped at step" in (out / "log.txt").read_text()
    run_processes(command(toy_store, out), 2, tmp_path)
    same_run(out, unbroken_by_two)


@pytest.mark.slow
def test_two_launched_processes_learn_what_one_learns(toy_store: Path, tmp_path: Path) -> None:
    changes = {"model.dropout": "0.0", "model.attention-dropout": "0.0", "training.steps": "10"}
    complete(command(toy_store, tmp_path / "one", **changes))
    run_processes(command(toy_store, tmp_path / "two", **changes), 2, tmp_path)
    one, two = rows(tmp_path / "one"), rows(tmp_path / "two")
    assert [row["batch_digest"] for row in one] == [row["batch_digest"] for row in two]
    assert [row["counts"] for row in one] == [row["counts"] for row in two]
    for a, b in zip(one, two, strict=True):
        assert b["loss"] == pytest.approx(a["loss"], rel=1e-3)
    assert two[0]["loss"] == pytest.approx(one[0]["loss"], rel=1e-6)


@pytest.mark.reliability
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "told"])
def test_processes_of_a_stopped_launcher_save_or_end(
    number: signal.Signals, toy_store: Path, unbroken_by_two: Path, tmp_path: Path
) -> None:
    """A killed torchrun leaves nothing behind but what was saved; told to stop, they save and end."""
    out = tmp_path / "run"
    process = spawn(command(toy_store, out), "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    while process.poll() is None and steps_done(out) < 14:
        time.sleep(0.01)
    (os.killpg if number == signal.SIGKILL else os.kill)(process.pid, number)
    process.communicate(timeout=240)  # returns when every process that holds the pipe has ended
    assert ("stopped at step" in (out / "log.txt").read_text()) == (number != signal.SIGKILL)
    run_processes(command(toy_store, out), 2, tmp_path)
    same_run(out, unbroken_by_two)


@pytest.mark.reliability
@pytest.mark.parametrize("seed", range(10))
def test_a_run_killed_fifty_times_ends_with_the_same_bits(
    toy_store: Path, unbroken: Path, tmp_path: Path, seed: int
) -> None:
    out = tmp_path / "run"
    kill_and_continue(command(toy_store, out), out, kills=5, seed=100 + seed)
    assert fingerprint(out) == fingerprint(unbroken)


@pytest.mark.reliability
@pytest.mark.parametrize("seed", range(5))
def test_a_run_terminated_at_random_moments_ends_with_the_same_bits(
    toy_store: Path, unbroken: Path, tmp_path: Path, seed: int
) -> None:
    out = tmp_path / "run"
    kill_and_continue(command(toy_store, out), out, kills=3, seed=seed, sign=signal.SIGTERM)
    assert fingerprint(out) == fingerprint(unbroken)
