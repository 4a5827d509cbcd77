"""A time budget is that time, on machines that change; resumed and extended runs keep their bits."""

import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from electra.artifacts.ledger import Ledger
from electra.artifacts.run_files import RunFolder
from electra.foundation.config import merge
from electra.foundation.errors import ConfigError
from electra.testing import toy
from electra.training import budget, checkpoint, estimate, loop
from electra.training import heldout as evaluation
from electra.training.assemble import start
from electra.training.distributed import World
from electra.training.extend import extended_recipe
from electra.training.replay import replay
from electra.training.run import RunState
from electra.training.schedule import Course

Speed = Callable[[float], float]
CHANGES: dict[str, Speed] = {  # how much slower the machine is, by the fraction of the budget
    "steady": lambda share: 1.0,
    "three times slower": lambda share: 3.0 if share > 0.5 else 1.0,
    "three times faster": lambda share: 1.0 if share > 0.5 else 3.0,
    "busy for a while": lambda share: 3.0 if 0.3 < share < 0.6 else 1.0,
    "busy at the start": lambda share: 9.0 if share < 0.1 else 1.0,
    "slow updates at times": lambda share: 5.0 if int(share * 211) % 20 == 0 else 1.0,
}
FLAT = {"model": {"layers": 1}, "objective": {"mask_fraction": 0.5, "final_mask_fraction": 0.15}}


class Machine:
    """In place of the clock: updates, evaluations and checkpoints take shares of the budget."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float, slower: Speed, updates: int = 80) -> None:
        self.seconds, self.slower, self.now, self.computed = seconds, slower, 1000.0, 0.0

        def timed(function: Callable[..., Any], share: float) -> Callable[..., Any]:
            def slow(*arguments: Any, **named: Any) -> Any:
                result = function(*arguments, **named)
                self.work(share * seconds)
                return result

            return slow

        update = loop.update

        def timed_update(run: RunState) -> None:
            before, began = run.seconds, self.now
            update(run)
            self.work(seconds / updates)
            run.seconds = before + self.now - began

        monkeypatch.setattr(loop, "update", timed_update)
        monkeypatch.setattr(evaluation, "evaluate", timed(evaluation.evaluate, 0.005))
        monkeypatch.setattr(checkpoint, "write", timed(checkpoint.write, 0.002))
        clock = SimpleNamespace(
            monotonic=lambda: self.now, perf_counter=time.perf_counter, thread_time=lambda: self.computed
        )
        for module in (
            "budget",
            "assemble",
            "estimate",
            "loop",
        ):  # in `time` itself it would stop other threads
            monkeypatch.setattr(f"electra.training.{module}.time", clock)
        measured = seconds / updates * slower(0.0)
        monkeypatch.setattr(estimate, "measure", lambda run, limit: measured)

    def work(self, seconds: float) -> None:
        self.now += seconds * self.slower((self.now - 1000) / self.seconds)
        self.computed += seconds


def train(folder: Path, stop_at: int = -1, extend: bool = False, **sections: Any) -> list[dict[str, Any]]:
    recipe = toy.recipe(**merge(FLAT, sections))
    if extend:
        recipe = extended_recipe(RunFolder(folder), RunFolder(folder).record, recipe.training.budget or "")
    with start(recipe, folder, toy.store(), World(), extend=extend) as run:
        assert loop.train(run, lambda: run.step == stop_at) == (stop_at < 0)
    return [row for row in Ledger.read(folder / "metrics.jsonl").rows if row["kind"] == "train"]


def timed(seconds: float, **training: Any) -> dict[str, Any]:
    return {"training": {"steps": None, "budget": f"{seconds}s", "keep": 99} | training}


@pytest.mark.parametrize("schedule", ["linear", "wsd"])
@pytest.mark.parametrize("seconds", [20.0, 120.0, 7200.0])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.slow
def test_a_time_budget_is_that_time(
    change: str, seconds: float, schedule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(monkeypatch, seconds, CHANGES[change])
    rows = train(tmp_path / "run", **timed(seconds, schedule=schedule))
    machine.work(budget.FINISH_SECONDS)
    assert abs(machine.now - 1000 - seconds) <= 0.1 * seconds
    rates = [row["learning_rate"] for row in rows]
    top = max(rates)
    assert rates == sorted(rates, reverse=True) and (rates[-1] < 0.4 * top or seconds == 20)
    assert max(a - b for a, b in pairwise(rates)) < (0.3 if schedule == "linear" else 0.5) * top
    record = RunFolder(tmp_path / "run").record
    assert len(record["environment"]["lengths"]) <= budget.ESTIMATES + 1
    if schedule == "wsd" and seconds > 20:
        begun = next(index for index, rate in enumerate(rates) if rate < top)
        assert 0.6 < rows[begun]["seconds"] / rows[-1]["seconds"] < 0.97


@pytest.mark.parametrize("objective", ["rtd", "two_stage", "rtd_mlm", "adversarial"])
@pytest.mark.slow
def test_resumed_and_replayed_runs_have_the_bits_of_one_never_stopped(
    objective: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if more estimates are recorded than the newest checkpoint has seen."""
    settings = merge(timed(200.0), {"objective": {"name": objective}})
    Machine(monkeypatch, 200.0, CHANGES["three times slower"], updates=40)
    whole = train(tmp_path / "run", **settings)
    folder = RunFolder(tmp_path / "run")
    weights = {saved.step: saved.weights.read_bytes() for saved in folder.saved_checkpoints()}
    assert not [each.problem for each in replay(folder, toy.store(), whole[-1]["step"] - min(weights)) if each.problem]
    for saved in folder.saved_checkpoints():
        if saved.step > 0.4 * whole[-1]["step"]:
            for file in saved.path.iterdir():
                file.unlink()
            saved.path.rmdir()
    again = train(tmp_path / "run", **settings)
    assert [row["losses"] for row in again] == [row["losses"] for row in whole]
    assert [row["learning_rate"] for row in again] == [row["learning_rate"] for row in whole]
    assert weights == {saved.step: saved.weights.read_bytes() for saved in folder.saved_checkpoints()}


@pytest.mark.slow
def test_a_longer_time_goes_on_from_the_plateau(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, 200.0, CHANGES["steady"], updates=40)
    short = train(tmp_path / "run", **timed(200.0, schedule="wsd"))
    with pytest.raises(ConfigError):
        train(tmp_path / "run", extend=True, **timed(100.0))
    began = machine.now
    long = train(tmp_path / "run", extend=True, **timed(400.0))
    plateau = next(row["step"] for row in short if row["learning_rate"] < short[0]["learning_rate"]) - 1
    assert [row["losses"] for row in long[:plateau]] == [row["losses"] for row in short[:plateau]]
    assert long[-1]["step"] > short[-1]["step"]
    assert machine.now - began == pytest.approx(400 - short[plateau]["seconds"], rel=0.1)
    assert not [each.problem for each in replay(RunFolder(tmp_path / "run"), toy.store(), 5) if each.problem]


def test_a_resumed_run_counts_the_time_spent_but_no_pause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, 200.0, CHANGES["steady"], updates=20)
    train(tmp_path / "run", stop_at=9, **timed(200.0))
    spent, machine.now = machine.now - 1000, 1000.0
    train(tmp_path / "run", **timed(200.0))
    assert spent + machine.now - 1000 == pytest.approx(200, rel=0.1)


def test_a_budget_that_is_too_short_is_refused_with_one_that_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Machine(monkeypatch, 6.0, CHANGES["steady"], updates=1)
    with pytest.raises(ConfigError) as refused:
        train(tmp_path / "run", **timed(6.0))
    assert refused.value.key == "budget" and not (tmp_path / "run").exists()
    larger = str(refused.value).rpartition("budget=")[2].split("`")[0]
    assert train(tmp_path / "run", **merge(timed(6.0), {"training": {"budget": larger}}))


@pytest.mark.parametrize(
    "estimates",
    [[(0, 10)], [(0, 10), (4, 22)], [(0, 100), (2, 8)], [(0, 7), (1, 9), (3, 5), (4, 30), (29, 31)]],
)
def test_no_estimate_makes_a_course_jump(estimates: list[tuple[int, int]]) -> None:
    """Between two estimates it goes on evenly, and it ends at its end."""
    last, course = estimates[-1][1], Course(estimates)
    positions = [course.position(step) for step in range(last + 1)]
    assert positions[0] == 0 and positions[-1] == pytest.approx(course.whole) and positions == sorted(positions)
    for (begin, _), (end, _) in zip(estimates, [*estimates[1:], (last, 0)], strict=True):
        steps = [b - a for a, b in zip(positions[begin:end], positions[begin + 1 : end + 1], strict=True)]
        assert steps == pytest.approx([steps[0]] * len(steps))
    for step in range(1, last):
        assert Course(estimates).first(positions[step]) <= step < Course(estimates).first(positions[step + 1])
