"""The record of a run, run.toml: its resolved recipe, its identity and its environment."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from electra import objectives
from electra.artifacts.checkpoints import Checkpoint
from electra.artifacts.run import RunFolder
from electra.artifacts.session import raise_if_changed, require_no_other_contents
from electra.foundation.config import merge
from electra.foundation.errors import ConfigError, RunFolderError
from electra.foundation.extensions import OBJECTIVES
from electra.foundation.machine import versions
from electra.training.extend import length_settings, shares_state
from electra.training.networks import INHERITED
from electra.training.recipe import make_recipe, recorded_sections
from electra.training.run import Run


def make_record(run: Run, name: str, command: str, *, settled: bool = True) -> dict[str, dict[str, Any]]:
    """Returns the record of a new run.

    Its number of steps is not `settled` while a time budget is being re-estimated.
    """
    environment: dict[str, Any] = {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        **versions("torch", "numpy", "tokenizers", "safetensors"),
        "device": str(run.device),
    }
    environment |= {"command": command, "recipe": name, "store": run.store.place}
    environment |= conditions(run)
    if not settled:
        environment |= {"lengths": [list(entry) for entry in run.step_estimates], "settled": False}
    shapes = {row.name: asdict(row.config) for row in run.networks.trained}
    return {**recipe_sections(run), **shapes, "identity": run.identity, "environment": environment}


def conditions(run: Run) -> dict[str, Any]:
    """Returns the conditions besides the recipe that affect the last bits of an update.

    They determine, for example, the order of sums and the random stream of dropout.
    """
    known = {
        "threads": torch.get_num_threads(),
        "processes": run.world.size,
        "micro_batch": run.micro_batch_size,
        "compiled": run.compiled,
        "device": str(run.device),
        "torch": torch.__version__,
    }
    return known | ({"cpu": torch.backends.cpu.get_cpu_capability()} if run.device.type == "cpu" else {})


def parts_of(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the parts of a recorded run, each with its first `step` and its conditions.

    Older records lack some of the conditions.
    """
    environment = record["environment"]
    names = ("threads", "processes", "micro_batch", "compiled", "device", "torch", "cpu")
    first_conditions = {name: environment[name] for name in names if name in environment}
    return [dict(part) for part in environment.get("parts") or [{"step": 0, **first_conditions}]]


def record_resumption(run: Run, recorded: Mapping[str, Any]) -> list[str]:
    """Records the conditions of a resumed run if they changed. Returns warnings for the user."""
    current, parts = conditions(run), parts_of(recorded)
    earlier_parts = [part for part in parts if part["step"] < run.step]
    ignored_names = ("processes",) if run.training.summation == "fixed" else ()
    differences = [
        f"{name.replace('_', ' ')} {current[name]} instead of {earlier_parts[-1][name]}"
        for name in current
        if earlier_parts
        and name in earlier_parts[-1]
        and earlier_parts[-1][name] != current[name]
        and name not in ignored_names
    ]
    if differences or not earlier_parts:
        earlier_parts.append({"step": run.step, **current})
    if earlier_parts != parts and run.world.is_main:
        environment = {**recorded["environment"], "parts": earlier_parts}
        RunFolder(run.folder).write_record({**RunFolder(run.folder).record, "environment": environment})
    return [f"resumed with {', '.join(differences)}: not bit-exact"] if differences else []


def recipe_sections(run: Run) -> dict[str, dict[str, Any]]:
    """Returns the sections of the recipe as they are recorded."""
    sections = run.recipe.to_sections()
    sections["objective"] |= {"name": run.identity["objective"]}  # a file's name without its folder
    return sections


def read_record(folder: Path) -> dict[str, Any] | None:
    """Returns the run.toml of a folder, or None if the folder is new or empty.

    Raises:
        RunFolderError: if the folder contains something else, or if the record lacks a table.
    """
    run = RunFolder(folder)
    if run.exists():
        recorded = run.record
        for table in ("objective", "training", "identity", "environment"):
            if table not in recorded:
                fix = "Restore it, or start over in another folder"
                raise RunFolderError(f"table [{table}] is missing", where=folder / run.RECORD, fix=fix)
        return recorded
    require_no_other_contents(folder, run.RECORD, "a run", run.ALLOWED_EARLY)
    return None


def step_estimates_of(record: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Returns the estimates of a recorded run's total steps, as (step from which it holds, total steps)."""
    recorded = record["environment"].get("lengths") or [(0, record["training"].get("steps") or 0)]
    return [(int(begin), int(steps)) for begin, steps in recorded]


def refuse_changes(recorded: Mapping[str, Any], run: Run) -> None:
    """Checks that a run resumes with its own recipe, tokenizer and data.

    Raises:
        RunFolderError: if there is a difference; the message names each.
    """
    changed = changes(recorded, run)
    fix = ""
    # the learning rate schedule depends on the number of steps
    if all(name in ("training.budget", "training.steps") for name, _, _ in changed):
        fix = (
            "Use the same number of steps or budget, or continue from this run's networks in another"
            " `out`, with `init_discriminator` and `init_generator`"
        )
    if any(name == "identity.objective_sha256" for name, _, _ in changed):
        file = run.identity["objective_file"]
        fix = f"{file} has changed since the run began: restore it, or use another `out`"
    raise_if_changed(run.folder, "run", changed, fix=fix)


def refuse_foreign_checkpoint(saved: Checkpoint, state: Mapping[str, Any], run: Run) -> None:
    """Raises RunFolderError if the checkpoint belongs to another run, for example to one with another seed.

    Checkpoints of older versions record fewer settings; the recorded ones must agree.
    """
    identity = state.get("identity", {})
    if "recipe" in state:
        old = {**state["recipe"], "identity": identity}
        if old["training"].get("steps") in [steps for _, steps in run.step_estimates]:
            old["training"] = {**old["training"], "steps": run.training.steps}
        if shares_state(old, int(state["step"]), run):
            old["training"] = {**old["training"], **length_settings(run.recipe)}
        changed = changes(old, run)
    else:
        known = {name: value for name, value in run.identity.items() if name in identity}
        changed = RunFolder.compare({"identity": identity}, {"identity": known})
    fix = "Remove it from this folder, or restore the run's own"
    raise_if_changed(saved.path, "run's checkpoint", changed, limit=3, fix=fix)


def changes(old: Mapping[str, Any], run: Run) -> list[tuple[str, Any, Any]]:
    """Returns the settings and identities in which `run` differs from a recorded one: (name, then, now)."""
    old = RunFolder.settings(old)
    now = {**run.recipe.to_sections(), "identity": run.identity}
    name = now["objective"].get("name", "rtd")
    if OBJECTIVES.canonical_name(name) == OBJECTIVES.canonical_name(old["objective"].get("name", "rtd")):
        old["objective"]["name"] = name  # its file may have moved; `identity` contains the digest
    changed = RunFolder.compare(with_defaults(old), with_defaults(now))
    if f"initial_{run.objective.main}" in run.identity:
        changed = [(name, a, b) for name, a, b in changed if name not in INHERITED]
    # if the store is the same, so is the result of these settings
    if old.get("identity", {}).get("data") == run.identity["data"]:
        changed = [(name, a, b) for name, a, b in changed if not name.startswith(("tokenizer.", "data."))]
    return [(name, a, b) for name, a, b in changed if not (name == "training.steps" and b is None)]


def with_defaults(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a recorded recipe with today's defaults for options that the recording version lacked."""
    try:
        objective = asdict(objectives.module_of(str(sections["objective"].get("name", "rtd"))).Config())
    except ConfigError:  # the objective is not installed here
        objective = {}
    settings = merge(
        {**make_recipe({}).to_sections(), "objective": objective}, {**sections, **recorded_sections(sections)}
    )
    return _plain(settings)  # type: ignore[no-any-return]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items() if inner is not None}
    return list(value) if isinstance(value, tuple) else value
