"""run.toml: the resolved recipe of a run, what identifies it, and what it ran on."""

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
from electra.artifacts.session import refuse_differences, refuse_other_contents
from electra.foundation.config import merge
from electra.foundation.errors import ConfigError, RunFolderError
from electra.foundation.extensions import OBJECTIVES
from electra.foundation.machine import versions
from electra.training.growth import length, reached_by_both
from electra.training.networks import TAKEN
from electra.training.recipe import make_recipe
from electra.training.run import Run


def record(run: Run, name: str, command: str, *, settled: bool = True) -> dict[str, dict[str, Any]]:
    """run.toml: the resolved recipe, what identifies the run, and what it ran on.

    settled: whether the number of steps is; that of a budget of time is measured again.
    """
    environment: dict[str, Any] = {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        **versions("torch", "numpy", "tokenizers", "safetensors"),
        "device": str(run.device),
    }
    environment |= {"command": command, "recipe": name, "store": str(run.store.path.absolute())}
    environment |= conditions(run)
    if not settled:
        environment |= {"lengths": [list(entry) for entry in run.lengths], "settled": False}
    shapes = {row.name: asdict(row.config) for row in run.networks.trained}
    return {**recipe_of(run), **shapes, "identity": run.identity, "environment": environment}


def conditions(run: Run) -> dict[str, Any]:
    """What moves the bits of an update, besides the recipe: the order of sums, and which dropout is drawn."""
    how = {
        "threads": torch.get_num_threads(),
        "processes": run.world.size,
        "micro_batch": run.micro_batch_size,
        "compiled": run.compiled,
        "device": str(run.device),
        "torch": torch.__version__,
    }
    return how | ({"cpu": torch.backends.cpu.get_cpu_capability()} if run.device.type == "cpu" else {})


def parts_of(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The parts of a recorded run, each from its `step` on under the same conditions; older records lack
    some of them.
    """
    environment = record["environment"]
    names = ("threads", "processes", "micro_batch", "compiled", "device", "torch", "cpu")
    begun = {name: environment[name] for name in names if name in environment}
    return [dict(part) for part in environment.get("parts") or [{"step": 0, **begun}]]


def go_on(run: Run, recorded: Mapping[str, Any]) -> list[str]:
    """Record under which conditions a run resumes, where they have changed. Returns what to say of that."""
    now, parts = conditions(run), parts_of(recorded)
    kept = [part for part in parts if part["step"] < run.step]
    free = ("processes",) if run.machine.summation == "fixed" else ()
    changed = [
        f"{name.replace('_', ' ')} {now[name]} instead of {kept[-1][name]}"
        for name in now
        if kept and name in kept[-1] and kept[-1][name] != now[name] and name not in free
    ]
    if changed or not kept:
        kept.append({"step": run.step, **now})
    if kept != parts and run.world.leads:
        environment = {**recorded["environment"], "parts": kept}
        RunFolder(run.folder).write_record({**RunFolder(run.folder).record, "environment": environment})
    return [f"resumed with {', '.join(changed)}: not bit-exact"] if changed else []


def recipe_of(run: Run) -> dict[str, dict[str, Any]]:
    """The sections of the recipe, as they are recorded."""
    sections = run.recipe.to_sections()
    sections["objective"] |= {"name": run.identity["objective"]}  # a file's name, without where it lay
    return sections


def read_record(folder: Path) -> dict[str, Any] | None:
    """The run.toml of a folder, None for a new or empty one; refuses a folder that holds something else."""
    run = RunFolder(folder)
    if run.exists():
        recorded = run.record
        for table in ("objective", "training", "identity", "environment"):
            if table not in recorded:
                fix = "Restore it, or start over in another folder"
                raise RunFolderError(f"no table [{table}]", where=folder / run.RECORD, fix=fix)
        return recorded
    refuse_other_contents(folder, run.RECORD, "a run", run.BESIDE)
    return None


def lengths_of(record: Mapping[str, Any]) -> list[tuple[int, int]]:
    """The numbers of steps of a recorded run, each with the step from which it holds."""
    recorded = record["environment"].get("lengths") or [(0, record["training"].get("steps") or 0)]
    return [(int(begin), int(steps)) for begin, steps in recorded]


def refuse_changes(recorded: Mapping[str, Any], run: Run) -> None:
    """A run goes on with the recipe, tokenizer and data it began with, or not at all."""
    changed = changes(recorded, run)
    fix = ""
    if all(
        name in ("training.budget", "training.steps") for name, _, _ in changed
    ):  # the schedule hangs on the number of steps
        fix = (
            "Use the same, or train on in another `out`: `init_discriminator` and `init_generator` take this"
            " run's networks"
        )
    if any(name == "identity.objective_sha256" for name, _, _ in changed):
        file = run.identity["objective_file"]
        fix = f"{file} has changed since the run began: restore it, or use another `out`"
    refuse_differences(run.folder, "run", changed, fix=fix)


def refuse_foreign(saved: Checkpoint, state: Mapping[str, Any], run: Run) -> None:
    """A checkpoint must be of this very run: copied from one of another seed, it would go on as neither.

    Checkpoints of older versions hold less of what they are of; what they hold must agree.
    """
    old = {**state.get("recipe", {}), "identity": state.get("identity", {})}
    if "recipe" in state:
        if old.get("training", {}).get("steps") in [steps for _, steps in run.lengths]:
            old["training"] = {**old["training"], "steps": run.recipe.training.steps}
        if reached_by_both(old, int(state["step"]), run):
            old["training"] = {**old["training"], **length(run.recipe)}
        changed = changes(old, run)
    else:
        known = {name: value for name, value in run.identity.items() if name in old["identity"]}
        changed = RunFolder.compare({"identity": old["identity"]}, {"identity": known})
    fix = "Remove it from this folder, or restore the run's own"
    refuse_differences(saved.path, "run's checkpoint", changed, most=3, fix=fix)


def changes(old: Mapping[str, Any], run: Run) -> list[tuple[str, Any, Any]]:
    """What keeps `run` from being the one whose recipe and identity were `old`: (name, then, now)."""
    old = RunFolder.settings(old)
    now = {**run.recipe.to_sections(), "identity": run.identity}
    named = now["objective"].get("name", "rtd")
    if OBJECTIVES.name_of(named) == OBJECTIVES.name_of(old["objective"].get("name", "rtd")):
        old["objective"]["name"] = named  # wherever its file lies: the digest in `identity` tells a change
    changed = RunFolder.compare(with_defaults(old), with_defaults(now))
    if f"initial_{run.objective.main}" in run.identity:
        changed = [(name, a, b) for name, a, b in changed if name not in TAKEN and not _left_open(name, a)]
    if old.get("identity", {}).get("data") == run.identity["data"]:  # that is what these settings made
        changed = [(name, a, b) for name, a, b in changed if not name.startswith(("tokenizer.", "data."))]
    return [(name, a, b) for name, a, b in changed if not (name == "training.steps" and b is None)]


def _left_open(name: str, before: Any) -> bool:
    """Whether an older version recorded as open what is now recorded as it was built."""
    return name == "model.generator_width" and before is None


def with_defaults(sections: Mapping[str, Any]) -> dict[str, Any]:
    """A recorded recipe with every option of today, at its default where the recording version lacked it."""
    try:
        objective = asdict(objectives.module_of(str(sections["objective"].get("name", "rtd"))).Config())
    except ConfigError:  # not on this machine
        objective = {}
    plain: dict[str, Any] = _plain(merge({**make_recipe({}).to_sections(), "objective": objective}, sections))
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items() if inner is not None}
    return list(value) if isinstance(value, tuple) else value
