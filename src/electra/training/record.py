"""run.toml: the resolved recipe of a run, what identifies it, and what it ran on."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from electra import objectives
from electra.artifacts import harmless
from electra.artifacts.run import RunFolder
from electra.artifacts.session import refuse_differences, refuse_strangers
from electra.config import differences, merge
from electra.errors import ConfigError
from electra.extensions import OBJECTIVES
from electra.training.recipe import make_recipe
from electra.training.run import Run


def record(run: Run, name: str, command: str) -> dict[str, dict[str, Any]]:
    """run.toml: the resolved recipe, what identifies the run, and what it ran on."""
    versions = {
        name: importlib.metadata.version(name) for name in ("torch", "numpy", "tokenizers", "safetensors")
    }
    environment: dict[str, Any] = {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        **versions,
        "device": str(run.device),
    }
    environment |= {"command": command, "recipe": name}
    environment |= {"threads": torch.get_num_threads(), "processes": run.world.size, "compiled": run.compiled}
    shapes = {kind: asdict(network.encoder.config) for kind, network in run.pair.named.items()}
    sections = run.recipe.to_sections()
    sections["objective"] |= {"name": run.identity["objective"]}  # a file's name, without where it lay
    return {**sections, **shapes, "identity": run.identity, "environment": environment}


def read_record(folder: Path) -> dict[str, Any] | None:
    """The run.toml of a folder, None for a new or empty one; refuses a folder that holds something else."""
    run = RunFolder(folder)
    if run.exists():
        return run.record
    refuse_strangers(folder, run.RECORD, "a run", run.BESIDE)
    return None


def refuse_changes(recorded: Mapping[str, Any], run: Run) -> None:
    """A run goes on with the recipe, tokenizer and data it began with, or not at all."""
    old = RunFolder.settings(recorded)
    now = {**run.recipe.to_sections(), "identity": run.identity}
    named = now["objective"].get("name", "rtd")
    if OBJECTIVES.name_of(named) == OBJECTIVES.name_of(old["objective"].get("name", "rtd")):
        old["objective"]["name"] = named  # wherever its file lies: the digest in `identity` tells a change
    changed = [
        (name, a, b)
        for name, a, b in differences(with_defaults(old), with_defaults(now))
        if name not in harmless.WHEN_RESUMED
    ]
    changed = [(name, a, b) for name, a, b in changed if not (name == "training.steps" and b is None)]
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
