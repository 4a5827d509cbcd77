"""Time budgets in real processes, by the real clock: killed, shared by two, on a machine that changes."""

import multiprocessing
import time
from pathlib import Path

import pytest
from driven import Forked, command, complete, ranks, rows, steps_done

FREE = {"training.keep": "9", "training.evaluate-every": "1000000", "training.checkpoint-every": "20"}


def timed(store: Path, out: Path, budget: str) -> list[str]:
    words = command(store, out, **FREE)
    at = words.index("--training.steps")
    return [*words[:at], *words[at + 2 :], "--budget", budget]


def compute(period: float) -> None:
    """Takes a core away for `period` seconds, gives it back for as long, and so on."""
    while True:
        if int(time.monotonic() / period) % 2:
            time.sleep(0.05)
        else:
            sum(range(100_000))


@pytest.mark.slow
def test_a_killed_run_spends_what_is_left_of_its_time(toy_store: Path, tmp_path: Path) -> None:
    """Killed twice with SIGKILL; no step is missing or repeated, and a replay finds nothing."""
    words, out, began, spent = timed(toy_store, tmp_path / "run", "20s"), tmp_path / "run", 0.0, []
    for _ in range(2):
        process, before, began = Forked(words), steps_done(out) if out.exists() else 0, time.monotonic()
        while not out.exists() or steps_done(out) < before + 40:
            assert process.poll() is None, process.finish()
            time.sleep(0.01)
        process.process.kill()
        process.finish()
        spent.append(time.monotonic() - began)
    began = time.monotonic()
    complete(words)
    spent.append(time.monotonic() - began)
    steps = [row["step"] for row in rows(out)]
    assert steps == list(range(1, len(steps) + 1))
    # After a kill, what was done since the newest checkpoint (20 updates) is done and counted again.
    assert 0.5 * 20 < sum(spent) < 1.5 * 20 + 2 * spent[0]
    complete(["verify", str(out), "--replay", "5"])


@pytest.mark.slow
def test_two_processes_end_at_one_step_when_the_time_is_over(toy_store: Path, tmp_path: Path) -> None:
    began = time.monotonic()
    both = ranks(timed(toy_store, tmp_path / "run", "15s"), 2, tmp_path)
    said = [process.finish() for process in both]
    assert [process.poll() for process in both] == [0, 0], said
    # A busy machine reserves more for the end than it then takes, and other tests run beside; exact: below
    assert 0.3 * 15 < time.monotonic() - began < 3 * 15
    assert (tmp_path / "run" / "discriminator" / "model.safetensors").exists()


@pytest.mark.reliability
def test_a_minute_is_a_minute_while_a_core_comes_and_goes(toy_store: Path, tmp_path: Path) -> None:
    other = multiprocessing.get_context("spawn").Process(target=compute, args=(10.0,), daemon=True)
    other.start()
    began = time.monotonic()
    complete(timed(toy_store, tmp_path / "run", "60s"))
    took = time.monotonic() - began
    other.kill()
    assert abs(took - 60) <= 6
