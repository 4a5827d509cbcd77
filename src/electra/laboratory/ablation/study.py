"""Studies: the arms to compare, defined in a small TOML file (docs/ablations.md describes it).

An arm is the base recipe with only the named settings changed. If it names another objective, it keeps those
options of the recipe's objective that the other one also has, so that arms differ only in what they name. The
settings that decide which rows are read, and in which order, belong to the study and not to an arm.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from electra.foundation.config import build, find_named, find_recipe, merge, read_toml
from electra.foundation.errors import ConfigError, nearest
from electra.training.recipe import Recipe, make_recipe, paths_from, read_recipe

STUDIES = Path(__file__).with_name("studies")
SET_BY_COMMAND = {"training.seed": "`seed`", "training.steps": "`budget`", "training.budget": "`budget`"}
# Sections and settings that decide which rows are read; they cannot differ between arms.
SHARED_SECTIONS = {"data", "tokenizer", "evaluation"}
SHARED = {"training.length", "training.precision", "training.device"}
ARM_KEYS = ["title", "at", "series", "paper", "baseline"]
SECTIONS = [section.name for section in dataclasses.fields(Recipe)]


@dataclass(frozen=True)
class Paper:
    """The source of the arms' published numbers, which are on a different scale from ours."""

    source: str = ""
    metric: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One arm of a study."""

    title: str = ""
    at: float | None = None
    """Position on the study's axis. An arm without one is drawn as a horizontal reference line."""
    series: str = ""
    """Arms with the same series are joined by a line."""
    paper: float | None = None
    """The published score."""
    baseline: str = ""
    """The arm that this one is tested against (default: the study's baseline)."""
    name: str = ""
    sections: Mapping[str, Any] = field(default_factory=dict)
    """The recipe sections that it changes, with the changed settings."""


@dataclass(frozen=True, kw_only=True)
class StudyFile:
    """A study as its file describes it, with its arms by name."""

    title: str = ""
    question: str = ""
    baseline: str
    arms: dict[str, Any]
    axis: str = ""
    recipe: str = "budget-tiny"
    paper: Paper = field(default_factory=Paper)
    base: dict[str, Any] = field(default_factory=dict)
    name: str = ""  # the name in messages (default: the file's)


def find_study(name: str) -> Path:
    """Returns the path of a built-in study's file, by name, or of a file of your own."""
    return find_named(STUDIES, name, "study", key="study")


def read_study(path: Path) -> StudyFile:
    """Reads a study's file; ConfigError, with the file and the key, for what is wrong without a recipe."""
    values = read_toml(path)
    for key in ("baseline", "arms"):
        if not values.get(key):
            fix = "A study needs a baseline and arms: see docs/ablations.md"
            raise ConfigError("missing", where=f"{path}: {key}", fix=fix)
    study = build(StudyFile, values, where=f"{path}:")
    for sections in (study.base, *study.arms.values()):
        paths_from(sections, path)
    arms = {name: _arm(name, section, path) for name, section in study.arms.items()}
    baselines = {"baseline": study.baseline}
    baselines |= {f"arms.{name}.baseline": arm.baseline for name, arm in arms.items() if arm.baseline}
    for key, baseline in baselines.items():
        if baseline not in arms:
            fix = nearest(baseline, list(arms))
            raise ConfigError(f"{baseline!r} is not one of the arms", where=f"{path}: {key}", fix=fix)
    _check_sections(study.base, f"{path}: base")
    name, title = study.name or path.stem, study.title or path.stem
    return replace(study, name=name, title=title, arms=arms)


def _arm(name: str, section: Any, path: Path) -> Arm:
    where = f"{path}: arms.{name}"
    if not isinstance(section, Mapping):
        raise ConfigError(f"expected a table, got {section!r}", where=where)
    if not name.replace("-", "").replace("_", "").replace(".", "").isalnum() or name.startswith("."):
        fix = "Use letters, digits, '-', '_' and '.', which must not come first"
        raise ConfigError("not a name for an arm", where=where, fix=fix)
    for key in section:
        if key not in ARM_KEYS + SECTIONS:
            raise ConfigError("unknown key", where=f"{where}.{key}", fix=nearest(key, ARM_KEYS + SECTIONS))
    changes = {key: value for key, value in section.items() if key in SECTIONS}
    for key in _check_sections(changes, where):
        if key in SHARED or key.partition(".")[0] in SHARED_SECTIONS:
            problem = "must be the same in all arms, which are compared on the same rows"
            raise ConfigError(problem, where=f"{where}.{key}", fix="Set it for all arms, under [base]")
    arm = build(Arm, {key: value for key, value in section.items() if key in ARM_KEYS}, where)
    return replace(arm, title=arm.title or name, name=name, sections=changes)


def _check_sections(sections: Mapping[str, Any], where: str) -> list[str]:
    keys = []
    for name, section in sections.items():
        if not isinstance(section, Mapping):
            fix = 'For example: objective.name = "mlm"'
            raise ConfigError(f"expected a table, got {section!r}", where=f"{where}.{name}", fix=fix)
        keys += [f"{name}.{key.replace('-', '_')}" for key in section]
    for key in keys:
        if key in SET_BY_COMMAND:
            fix = f"Pass {SET_BY_COMMAND[key]} instead"
            raise ConfigError("cannot be set in a study", where=f"{where}.{key}", fix=fix)
    return keys


def arm_recipe(study: StudyFile, arm: Arm, recipe: str) -> Recipe:
    """Returns the recipe of an arm, without seed, steps and budget, over `recipe` (its name or path)."""
    from electra import objectives

    path = find_recipe(recipe)
    base = merge(read_recipe(path), study.base)
    training = base.get("training", {}).items()
    base["training"] = {key: value for key, value in training if key not in ("steps", "budget", "seed")}
    # The arm's objective before its changes: the recipe's options that it also has.
    options = base.get("objective", {})
    old_name = options.get("name", "rtd")
    name = str(arm.sections.get("objective", {}).get("name", old_name))
    known = {item.name for item in dataclasses.fields(objectives.module_of(name).Config)}
    carried = {key: value for key, value in options.items() if name == old_name or key in known}
    base["objective"] = carried | {"name": name}
    return make_recipe(merge(base, arm.sections), where=f"{study.name}: arms.{arm.name} over {path.stem}")
