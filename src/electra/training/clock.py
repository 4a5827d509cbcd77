"""The number of steps that a budget of time buys, set again while the run is in its first tenth.

Before a run starts, some updates are measured, which gives a number within seconds. It may be far off: the
machine was busy, or the layers are compiled later. So in the first tenth the number is set again, by what
updates, evaluations and checkpoints have really taken, and the learning rate follows it from there on. Each
number is recorded with the step from which it holds, so a resumed run and a replay do what the run did.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from electra.artifacts.run import RunFolder
from electra.training.budget import TENTH, Clock
from electra.training.run import Run


@dataclass(frozen=True)
class Costs:
    """In seconds."""

    update: float
    evaluation: float = 0.0
    checkpoint: float = 0.0

    def steps_in(self, seconds: float, run: Run, gone: float = 0.0, updates: float = 0.0) -> float:
        """Updates that fit into what is left of a budget, with the evaluations and checkpoints that belong to
        them. At least half of the budget is for updates: a short one on a slow machine would buy nothing but
        evaluations, so there it is exceeded.

        gone: seconds of it that have passed; updates: how many of them updates took.
        """
        evaluations, checkpoints = run.upkeep.evaluate_every, run.upkeep.checkpoint_every
        each = (
            self.update
            + (self.evaluation / evaluations if evaluations else 0)
            + (self.checkpoint / checkpoints if checkpoints else 0)
        )
        once = (1 if evaluations else 11) * self.evaluation + (0 if checkpoints else 20) * self.checkpoint
        left = seconds - gone - once * max(0.0, 1 - gone / seconds)
        return max(left, seconds / 2 - updates, 0.0) / each

    def __str__(self) -> str:
        parts = {"an update": self.update, "an evaluation": self.evaluation, "a checkpoint": self.checkpoint}
        return ", ".join(f"{name} {seconds:.2g} s" for name, seconds in parts.items() if seconds)


def follow_clock(run: Run, clock: Clock) -> bool:
    """Set the number of steps again, and record it. Whether that was the last time."""
    before, gone = run.total_steps, clock.gone
    costs = Costs(clock.update(run.step, run.seconds), **run.costs)
    steps = run.step + max(1, int(costs.steps_in(clock.seconds, run, gone, run.seconds)))
    last = clock.past_a_tenth or abs(steps - before) <= TENTH * before
    [steps, is_last] = map(int, run.world.broadcast([steps, last]))  # type: ignore[call-overload]
    run.lengths.append((run.step, steps))
    run.recipe = replace(run.recipe, training=replace(run.recipe.training, steps=steps))
    if run.world.leads:
        folder = RunFolder(run.folder)
        folder.write_record(with_lengths(folder.record, run, settled=bool(is_last)))
        again = "" if is_last else "; they are measured again in the first tenth"
        what = f"{run.schedule.budget} is {steps:,} steps, as measured so far ({costs}){again}"
        run.telemetry.event(run.step, "budget", what, steps=steps)
    return bool(is_last)


def with_lengths(
    record: dict[str, dict[str, object]], run: Run, *, settled: bool
) -> dict[str, dict[str, object]]:
    """The record of a run with the number of its steps as it is now known, and as it was before."""
    environment = {**record["environment"], "lengths": [list(entry) for entry in run.lengths]}
    return {
        **record,
        "training": {**record["training"], "steps": run.recipe.training.steps},
        "environment": {**environment, "settled": settled},
    }
