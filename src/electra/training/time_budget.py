"""Re-estimates the number of steps of a time budget while the run is in its first tenth.

Before a run starts, a few updates are timed, which gives an estimate within seconds. It may be far off, for
example because the machine was busy or the layers were not compiled yet. So in the first tenth of the run the
number of steps is re-estimated from the actual times of updates, evaluations and checkpoints, and the
learning-rate schedule is adjusted to the new number. Each estimate is recorded with the step from which it
holds, so resumed and replayed runs use the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from electra.artifacts.run import RunFolder
from electra.training.budget import ESTIMATING_FRACTION, TimeBudget
from electra.training.run import Run


@dataclass(frozen=True)
class Costs:
    """The measured times of a run's work, in seconds."""

    update: float
    evaluation: float = 0.0
    checkpoint: float = 0.0

    def steps_in(self, seconds: float, run: Run, elapsed: float = 0.0, update_seconds: float = 0.0) -> float:
        """Returns how many updates fit into the rest of a budget, with their evaluations and checkpoints.

        At least half of the budget is reserved for updates, so a short budget on a slow machine is exceeded
        rather than spent on evaluations.

        `elapsed` seconds of it have passed, of which `update_seconds` were spent on updates.
        """
        evaluate_every, checkpoint_every = run.training.evaluate_every, run.training.checkpoint_every
        seconds_per_step = (
            self.update
            + (self.evaluation / evaluate_every if evaluate_every else 0)
            + (self.checkpoint / checkpoint_every if checkpoint_every else 0)
        )
        # the first evaluation is at step 0; by default there are 20 checkpoints, however long the run is
        evaluations, checkpoints = (
            1 if evaluate_every else run.num_intervals + 1,
            0 if checkpoint_every else 20,
        )
        fixed_seconds = evaluations * self.evaluation + checkpoints * self.checkpoint
        remaining_seconds = seconds - elapsed - fixed_seconds * max(0.0, 1 - elapsed / seconds)
        return max(remaining_seconds, seconds / 2 - update_seconds, 0.0) / seconds_per_step

    def __str__(self) -> str:
        parts = {"update": self.update, "evaluation": self.evaluation, "checkpoint": self.checkpoint}
        return ", ".join(f"{seconds:.2g} s per {name}" for name, seconds in parts.items() if seconds)


def follow(run: Run, clock: TimeBudget) -> bool:
    """Re-estimates the number of steps and records it. Returns whether the estimate is final.

    All processes must call it, and get the main one's estimate.
    """
    previous_steps = run.total_steps
    costs = Costs(clock.seconds_per_update(run.step, run.seconds), **run.last_costs)
    steps = run.step + max(1, int(costs.steps_in(clock.seconds, run, clock.elapsed, run.seconds)))
    is_final = clock.past_a_tenth or abs(steps - previous_steps) <= ESTIMATING_FRACTION * previous_steps
    steps, is_final = run.world.broadcast((steps, is_final))
    run.step_estimates.append((run.step, steps))
    run.recipe = replace(run.recipe, training=replace(run.recipe.training, steps=steps))
    if run.world.is_main:
        folder = RunFolder(run.folder)
        folder.write_record(with_step_estimates(folder.record, run, settled=is_final))
        status = "now fixed" if is_final else "re-estimated during the first tenth of the run"
        message = f"{run.training.budget} is {steps:,} steps at the measured speed ({costs}); {status}"
        run.telemetry.record_event(run.step, "budget", message, steps=steps)
    return is_final


def with_step_estimates(
    record: dict[str, dict[str, object]], run: Run, *, settled: bool
) -> dict[str, dict[str, object]]:
    """Returns the record with the current number of steps and all estimates so far."""
    environment = {**record["environment"], "lengths": [list(entry) for entry in run.step_estimates]}
    return {
        **record,
        "training": {**record["training"], "steps": run.recipe.training.steps},
        "environment": {**environment, "settled": settled},
    }
