"""A finished run that grows: it goes on from the end of its plateau, as if it had been meant to be longer.

Under the schedule `wsd` nothing depends on the length of a training before the learning rate falls. So the
state at that point is the state of every longer run, and what is left to do is the rest of the plateau and a
new fall.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from electra.artifacts.run import RunFolder
from electra.foundation import durable
from electra.foundation.errors import ConfigError
from electra.training.recipe import Recipe, recorded_recipe
from electra.training.run import Run
from electra.training.schedule import plateau_end


def longer(folder: RunFolder, record: Mapping[str, Any], budget: str) -> Recipe:
    """The recipe of a recorded run with another budget; raises ConfigError where it cannot grow."""
    recorded = recorded_recipe(record)
    training = recorded.training
    if training.schedule != "wsd":
        raise ConfigError(
            f"its learning rate followed the schedule {training.schedule!r}: only a run with"
            " `training.schedule=wsd` can be extended",
            where=folder.path,
            fix="Start another run from its networks with `init_discriminator` and `init_generator`",
        )
    return replace(recorded, training=replace(training, budget=budget, steps=None, warmup_steps=rise(record)))


def rise(record: Mapping[str, Any]) -> int:
    """The updates over which the learning rate of a recorded run rose: the same for a longer one."""
    training = record["training"]
    if training.get("warmup_steps") is not None:
        return int(training["warmup_steps"])
    if absent := {"warmup", "steps"} - training.keys():
        raise ConfigError(f"the run's record lacks it: {min(absent)}", key=f"training.{min(absent)}")
    share = float(training["warmup"])
    return max(1, round(share * int(training["steps"]))) if share > 0 else 0


def length(recipe: Recipe) -> dict[str, Any]:
    """The settings that say how long a training is."""
    training = recipe.training
    return {"budget": training.budget, "steps": training.steps, "warmup_steps": training.warmup_steps}


def grown(record: Mapping[str, Any], run: Run) -> dict[str, Any]:
    """The record of a run with the length of the longer run."""
    environment = {
        name: value for name, value in record["environment"].items() if name not in ("lengths", "settled")
    }
    return {**record, "training": {**record["training"], **length(run.recipe)}, "environment": environment}


def reached_by_both(record: Mapping[str, Any], step: int, run: Run) -> bool:
    """Whether the recorded run and `run`, which may differ in length, have the same state at `step`."""
    training = record["training"]
    if training.get("schedule") != "wsd" or run.plateau_end is None:
        return False
    both = min(run.plateau_end, plateau_end(int(training["steps"]), float(training["decay"])))
    now = {"training": vars(run.recipe.training)}
    return step <= both and rise(record) == rise(now)


def grow(run: Run, record: Mapping[str, Any]) -> None:
    """Give the recorded run on disk the length of `run`. What it made so far moves to its milestones.

    The record is written last: killed before that, the folder holds the shorter run.
    """
    folder, steps = RunFolder(run.folder), int(record["training"]["steps"])
    if run.total_steps <= steps:
        raise ConfigError(
            f"{run.schedule.budget} is {run.total_steps:,} steps, and the run has {steps:,} already",
            key="budget",
            fix="Give the budget of the whole run, including what it has spent",
        )
    end = plateau_end(steps, float(record["training"]["decay"]))
    behind = [checkpoint.step for checkpoint in folder.saved()]
    if not any(0 < step <= end for step in behind) and any(step > end for step in behind):
        raise ConfigError(
            f"the checkpoint of step {end:,}, where its learning rate began to fall, is gone",
            where=folder.checkpoints,
            fix="Start another run from its networks with `init_discriminator` and `init_generator`",
        )
    keep_milestone(folder, steps)
    for checkpoint in folder.saved():
        if checkpoint.step > end:
            durable.remove_directory(checkpoint.path)
    folder.write_record(grown(record, run))


def keep_milestone(folder: RunFolder, steps: int) -> None:
    """Move what a finished run of so many steps left into a folder of its own."""
    milestone = folder.milestone(steps)
    for path in folder.finish:
        if path.exists():
            milestone.path.mkdir(parents=True, exist_ok=True)
            earlier = milestone.path / path.name  # of a try that was killed
            if earlier.is_dir():
                durable.remove_directory(earlier)
            os.replace(path, earlier)
