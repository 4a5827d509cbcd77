"""The record of a run, run.toml: its resolved recipe, its identity and its conditions."""

import platform
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from electra import objectives
from electra.artifacts.checkpoints import Checkpoint
from electra.artifacts.run_files import RunFolder
from electra.artifacts.session import raise_if_changed, require_no_other_contents
from electra.foundation.config import merge
from electra.foundation.errors import ConfigError, RunFolderError
from electra.foundation.extensions import OBJECTIVES
from electra.foundation.machine import versions
from electra.training.extend import clock_state, length_settings, shares_state
from electra.training.network_table import INHERITED
from electra.training.recipe import make_recipe, recorded_sections
from electra.training.run import RunState
from electra.training.schedule import Course


def make_record(run: RunState, name: str, command: str) -> dict[str, dict[str, Any]]:
    """Returns the record of a new run."""
    environment: dict[str, Any] = {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        **versions("torch", "numpy", "tokenizers", "safetensors"),
        "device": str(run.device),
        "command": command,
        "recipe": name,
        "store": str(run.store.path.resolve()),
        **conditions(run),
        **clock_state(run),
    }
    shapes = {row.name: asdict(row.config) for row in run.networks.trained}
    return {**recipe_sections(run), **shapes, "identity": run.identity, "environment": environment}


def conditions(run: RunState) -> dict[str, Any]:
    """Returns what else affects the last bits of an update, such as the order of sums."""
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
    first = {"step": 0} | {name: environment[name] for name in names if name in environment}
    return [dict(part) for part in environment.get("parts") or [first]]


def record_resumption(run: RunState, recorded: Mapping[str, Any]) -> list[str]:
    """Records the conditions of a resumed run if they changed. Returns warnings for the user."""
    now, parts = conditions(run), [part for part in parts_of(recorded) if part["step"] < run.step]
    then = parts[-1] if parts else {}
    changed = [
        f"{name.replace('_', ' ')} {now[name]} instead of {then[name]}"
        for name in now
        if then.get(name, now[name]) != now[name] and not (name == "processes" and run.training.summation == "fixed")
    ]
    if changed or not parts:
        parts.append({"step": run.step, **now})
    if parts != parts_of(recorded) and run.world.is_main:
        environment = {**recorded["environment"], "parts": parts}
        RunFolder(run.folder).write_record({**RunFolder(run.folder).record, "environment": environment})
    return [f"resumed with {', '.join(changed)}: not bit-exact"] if changed else []


def recipe_sections(run: RunState) -> dict[str, dict[str, Any]]:
    """Returns the sections of the recipe as they are recorded."""
    sections = run.recipe.to_sections()
    sections["objective"] |= {"name": run.identity["objective"]}  # a file's name without its folder
    return sections


def read_record(folder: Path) -> dict[str, Any] | None:
    """Returns a folder's run.toml, None if it is new or empty; RunFolderError for anything else in it."""
    run = RunFolder(folder)
    if not run.exists():
        require_no_other_contents(run)
        return None
    record, tables = run.record, {"objective", "training", "identity", "environment"}
    if missing := sorted(tables - record.keys()):
        fix = "Restore it, or start over in another folder"
        raise RunFolderError(f"table [{missing[0]}] is missing", where=folder / run.RECORD, fix=fix)
    return record


def refuse_changes(recorded: Mapping[str, Any], run: RunState) -> None:
    """Raises RunFolderError, which names each, for a change of the run's recipe, tokenizer or data."""
    changed, fix = changes(recorded, run), ""
    # the learning rate schedule depends on the number of steps
    if all(name in ("training.budget", "training.steps") for name, _, _ in changed):
        fix = (
            "Use the same number of steps or budget, or continue from this run's networks in another `out`, with `init`"
        )
    if any(name == "identity.objective_sha256" for name, _, _ in changed):
        file = run.identity["objective_file"]
        fix = f"{file} has changed since the run began: restore it, or use another `out`"
    raise_if_changed(run.folder, "run", changed, fix=fix)


def refuse_foreign_checkpoint(saved: Checkpoint, run: RunState) -> None:
    """Raises RunFolderError if the checkpoint belongs to another run, for example to one with another seed.

    Checkpoints of older versions record fewer settings; the recorded ones must agree.
    """
    state = saved.record
    identity = state.get("identity", {})
    if "recipe" in state:
        old = {**state["recipe"], "identity": identity}
        if old["training"].get("steps") in [steps for _, steps in run.course.estimates]:
            old["training"] = {**old["training"], "steps": run.training.steps}
        if shares_state(old["training"], Course.recorded(state, old["training"].get("steps")), state, run):
            old["training"] = {**old["training"], **length_settings(run.recipe)}
        changed = changes(old, run)
    else:
        known = {name: value for name, value in run.identity.items() if name in identity}
        changed = RunFolder.compare({"identity": identity}, {"identity": known})
    fix = "Remove it from this folder, or restore the run's own"
    raise_if_changed(saved.path, "run's checkpoint", changed, limit=3, fix=fix)


def changes(old: Mapping[str, Any], run: RunState) -> list[tuple[str, Any, Any]]:
    """Returns the settings and identities in which `run` differs from a recorded one: (name, then, now)."""
    old = RunFolder.settings(old)
    now = {**run.recipe.to_sections(), "identity": run.identity}
    name = now["objective"].get("name", "rtd")
    if OBJECTIVES.canonical_name(name) == OBJECTIVES.canonical_name(old["objective"].get("name", "rtd")):
        old["objective"]["name"] = name  # its file may have moved; `identity` contains the digest
    same_data = old.get("identity", {}).get("data") == run.identity["data"]
    inherits = f"initial_{run.objective.main}" in run.identity
    return [
        (name, then, value)
        for name, then, value in RunFolder.compare(with_defaults(old), with_defaults(now))
        if not (inherits and name in INHERITED)
        and not (same_data and name.startswith(("tokenizer.", "data.")))  # these made the same store
        and not (name == "training.steps" and value is None)
    ]


def with_defaults(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a recorded recipe with today's defaults for options that the recording version lacked."""
    try:
        objective = asdict(objectives.module_of(str(sections["objective"].get("name", "rtd"))).Config())
    except ConfigError:  # the objective is not installed here
        objective = {}
    defaults = {**make_recipe({}).to_sections(), "objective": objective}
    return _plain(merge(defaults, {**sections, **recorded_sections(sections)}))  # type: ignore[no-any-return]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items() if inner is not None}
    return list(value) if isinstance(value, tuple) else value
