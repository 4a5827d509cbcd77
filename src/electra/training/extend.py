"""Extends a finished run: it continues from the end of its plateau as if it had always been longer.

Under the schedule `wsd` nothing depends on the total length before the cooldown begins. So the state at the
end of the plateau is also the state of every longer run at that step, and only the rest of the longer plateau
and a new cooldown remain to be trained.
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


def extended_recipe(folder: RunFolder, record: Mapping[str, Any], budget: str) -> Recipe:
    """Returns the recipe of a recorded run with another budget.

    Raises:
        ConfigError: if the run's schedule is not `wsd`, or the record lacks a setting.
    """
    recorded = recorded_recipe(record)
    training = recorded.training
    if training.schedule != "wsd":
        raise ConfigError(
            f"was trained with schedule {training.schedule!r}; only runs with `training.schedule=wsd` can be"
            " extended",
            where=folder.path,
            fix="Start another run from its networks with `init_discriminator` and `init_generator`",
        )
    return replace(
        recorded, training=replace(training, budget=budget, steps=None, warmup_steps=warmup_updates(record))
    )


def warmup_updates(record: Mapping[str, Any]) -> int:
    """Returns the number of warm-up updates of a recorded run, which stays the same when it is extended.

    Raises:
        ConfigError: if the record lacks a setting that determines it.
    """
    training = record["training"]
    if training.get("warmup_steps") is not None:
        return int(training["warmup_steps"])
    if missing_settings := {"warmup", "steps"} - training.keys():
        raise ConfigError("missing from the run's record", key=f"training.{min(missing_settings)}")
    fraction = float(training["warmup"])
    return max(1, round(fraction * int(training["steps"]))) if fraction > 0 else 0


def length_settings(recipe: Recipe) -> dict[str, Any]:
    """Returns the settings that determine the length of a training."""
    training = recipe.training
    return {"budget": training.budget, "steps": training.steps, "warmup_steps": training.warmup_steps}


def extended_record(record: Mapping[str, Any], run: Run) -> dict[str, Any]:
    """Returns the record with the length settings of `run`, and without estimates of the number of steps."""
    environment = {
        name: value for name, value in record["environment"].items() if name not in ("lengths", "settled")
    }
    return {
        **record,
        "training": {**record["training"], **length_settings(run.recipe)},
        "environment": environment,
    }


def shares_state(record: Mapping[str, Any], step: int, run: Run) -> bool:
    """Whether the recorded run and a run of another length have the same state at `step`."""
    training = record["training"]
    if training.get("schedule") != "wsd" or run.plateau_end is None:
        return False
    last_shared_step = min(run.plateau_end, plateau_end(int(training["steps"]), float(training["decay"])))
    run_record = {"training": vars(run.recipe.training)}
    return step <= last_shared_step and warmup_updates(record) == warmup_updates(run_record)


def extend(run: Run, record: Mapping[str, Any]) -> None:
    """Gives the run on disk the length of `run`, and moves its earlier results to its milestones.

    Removes the checkpoints of its cooldown. The record is written last, so if the process is killed, the
    folder still contains the shorter run.

    Raises:
        ConfigError: if the run is already that long, or the checkpoint to continue from is missing.
    """
    folder, recorded_steps = RunFolder(run.folder), int(record["training"]["steps"])
    if run.total_steps <= recorded_steps:
        raise ConfigError(
            f"{run.training.budget} is {run.total_steps:,} steps, but the run already has {recorded_steps:,}",
            key="budget",
            fix="Set the budget of the whole run, including the part already used",
        )
    cooldown_start = plateau_end(recorded_steps, float(record["training"]["decay"]))
    saved_steps = [checkpoint.step for checkpoint in folder.saved_checkpoints()]
    if not any(0 < step <= cooldown_start for step in saved_steps) and any(
        step > cooldown_start for step in saved_steps
    ):
        raise ConfigError(
            f"the checkpoint of step {cooldown_start:,}, where the cooldown began, is missing",
            where=folder.checkpoints,
            fix="Start another run from its networks with `init_discriminator` and `init_generator`",
        )
    keep_milestone(folder, recorded_steps)
    for checkpoint in folder.saved_checkpoints():
        if checkpoint.step > cooldown_start:
            durable.remove_directory(checkpoint.path)
    folder.write_record(extended_record(record, run))


def keep_milestone(folder: RunFolder, steps: int) -> None:
    """Moves the results of a run of `steps` updates into a folder under its milestones."""
    milestone = folder.milestone(steps)
    for path in folder.final_outputs:
        if path.exists():
            durable.make_folder(milestone.path)
            target = milestone.path / path.name
            if target.is_dir():  # left by an attempt that was killed
                durable.remove_directory(target)
            os.replace(path, target)
