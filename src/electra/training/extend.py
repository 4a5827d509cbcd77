"""Extends a finished run: it continues from the end of its plateau as if it had always been longer.

Under the schedule `wsd` nothing depends on the total length before the cooldown begins. So the state at the
end of the plateau is also the state of every longer run at that step, and only the rest of the longer plateau
and a new cooldown remain to be trained.
"""

import os
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from electra.artifacts.run_files import RunFolder
from electra.foundation import durable
from electra.foundation.errors import ConfigError
from electra.training.recipe import Recipe, recorded_recipe
from electra.training.run import RunState
from electra.training.schedule import Course, warmup_updates


def extended_recipe(folder: RunFolder, record: Mapping[str, Any], budget: str) -> Recipe:
    """Returns a run's recipe with another budget; ConfigError if its schedule is not `wsd`."""
    recorded = recorded_recipe(record)
    training = recorded.training
    if training.schedule != "wsd":
        problem = f"cannot be extended: its learning rate has fallen to 0 (schedule {training.schedule})"
        raise ConfigError(problem, where=folder.path, fix=restart(folder, record, budget))
    warmup = warmup_of(record["training"], course_of(record))
    return replace(recorded, training=replace(training, budget=budget, steps=None, warmup_steps=warmup))


def restart(folder: RunFolder, record: Mapping[str, Any], budget: str) -> str:
    """Returns the advice to start another run from the networks of one that cannot be extended."""
    store = folder.store.path if folder.store.exists() else record["environment"].get("store") or "STORE"
    path, objective = os.path.normpath(folder.path), record["identity"]["objective"]
    words = ["electra", "pretrain", str(store), "--recipe", "continue", "--objective.name", objective]
    words += ["--init", path, "--out", f"{path}-longer", "--budget", budget]
    return f"Start another run from its networks: {shlex.join(words)}"


def course_of(record: Mapping[str, Any]) -> Course:
    """Returns the course of a recorded run."""
    return Course.recorded(record["environment"], record["training"].get("steps"))


def warmup_of(training: Mapping[str, Any], course: Course) -> int:
    """Returns the number of warm-up updates of a run, which stays the same when it is extended."""
    if training.get("warmup_steps") is not None:
        return int(training["warmup_steps"])
    return course.first(warmup_updates(course.whole, float(training["warmup"])))


def cooldown_start(record: Mapping[str, Any]) -> int:
    """Returns the step at which the cooldown of a recorded run with schedule `wsd` begins."""
    return course_of(record).cooldown_start(float(record["training"]["decay"]))


def length_settings(recipe: Recipe) -> dict[str, Any]:
    """Returns the settings that determine the length of a training."""
    training = recipe.training
    return {"budget": training.budget, "steps": training.steps, "warmup_steps": training.warmup_steps}


def clock_state(run: RunState) -> dict[str, Any]:
    """Returns what the environment records of a time budget; {} for others."""
    if run.budget_seconds is None:
        return {}
    return {"lengths": [list(entry) for entry in run.course.estimates], "evaluations": run.evaluations}


def restore_clock_state(run: RunState, record: Mapping[str, Any]) -> None:
    """Gives a run the recorded state of its time budget, and the recorded estimates of its length."""
    run.course = course_of(record)
    run.evaluations = int(record["environment"].get("evaluations", run.evaluations))


def with_length(record: Mapping[str, Any], run: RunState) -> dict[str, Any]:
    """Returns the record with the length settings of `run` and all estimates of its length so far."""
    environment = dict(record["environment"])
    for name in ("lengths", "evaluations"):
        environment.pop(name, None)
    return {
        **record,
        "training": {**record["training"], **length_settings(run.recipe)},
        "environment": {**environment, **clock_state(run)},
    }


def shares_state(training: Mapping[str, Any], course: Course, state: Mapping[str, Any], run: RunState) -> bool:
    """Whether a checkpoint's state, of a run with these settings, is also one of a run of another length."""
    if training.get("schedule") != "wsd" or run.plateau_end is None:
        return False
    last_shared_step = min(run.plateau_end, course.cooldown_start(float(training["decay"])))
    own_warmup = warmup_of(vars(run.training), run.course)
    return int(state["step"]) <= last_shared_step and warmup_of(training, course) == own_warmup


def shared_checkpoint(folder: RunFolder, record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the state of the newest checkpoint that a longer run shares; {} if it begins anew."""
    start, saved = cooldown_start(record), folder.saved_checkpoints()
    shared = next((checkpoint for checkpoint in saved if 0 < checkpoint.step <= start), None)
    if shared is None and saved:
        raise ConfigError(
            f"the checkpoint of step {start:,}, where the cooldown began, is missing",
            where=folder.checkpoints,
            fix=restart(folder, record, str(record["training"].get("budget") or "1h")),
        )
    return shared.record if shared else {}


def extend(run: RunState, record: Mapping[str, Any]) -> None:
    """Gives the run on disk the length of `run`, and moves its earlier results to its milestones.

    Removes the checkpoints of its cooldown. The record is written last, so if the process is killed, the
    folder still contains the shorter run. Raises ConfigError if the run is already that long.
    """
    folder, recorded_steps = RunFolder(run.folder), int(record["training"]["steps"])
    if run.total_steps <= recorded_steps:
        raise ConfigError(
            f"{run.training.budget} is {run.total_steps:,} steps, but the run already has {recorded_steps:,}",
            key="budget",
            fix="Set the budget of the whole run, including the part already used",
        )
    keep_milestone(folder, recorded_steps)
    start = cooldown_start(record)
    for checkpoint in folder.saved_checkpoints():
        if checkpoint.step > start:
            durable.remove_directory(checkpoint.path)
    folder.write_record(with_length(record, run))


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
