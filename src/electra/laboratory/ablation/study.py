"""A study: the arms that are compared, as a small declarative TOML file.

    title = "..."            what is compared            question = "..."     what the study answers
    baseline = "mlm"         the arm that the others are tested against
    budgets = [0.25, 1.0]    shares of the budget that every arm is trained for, each a run of its own
    (default: [1.0])
    axis = "..."             what the arms' `at` measures
    [paper]                  source, metric and note of the arms' `paper` numbers
    [base]                   recipe sections for every arm, over the recipe
    [arms.NAME]              title, at, series, paper, baseline; every other key is a section of a recipe:
    objective.name = "mlm"

An arm is the base recipe with just what the arm names changed. The options of the recipe's objective carry
over to another objective as far as that has them, so that arms differ in what they say and in nothing else.
Whatever decides which rows are read, and in which order, is the study's and not an arm's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from electra.foundation.config import build, find_named, find_recipe, merge, read_toml
from electra.foundation.errors import ConfigError, nearest
from electra.training.recipe import Recipe, make_recipe, paths_from, read_recipe

STUDIES = Path(__file__).with_name("studies")
DEFAULT_RECIPE = "budget-tiny"
FROM_COMMAND = {"training.seed": "`seed`", "training.steps": "`budget`", "training.budget": "`budget`"}
SHARED_SECTIONS = {"data", "tokenizer", "evaluation"}
SHARED = {"training.length", "training.precision", "training.device"}


@dataclass(frozen=True)
class Paper:
    """Published numbers, on another scale than ours."""

    source: str = ""
    metric: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class _ArmHead:
    """An arm's own keys in the file."""

    title: str = ""
    at: float | None = None
    """Where it lies on the study's axis; an arm without a place is drawn as a level to compare with."""
    series: str = ""
    """Arms of one series are joined by a line."""
    paper: float | None = None
    baseline: str = ""
    """The arm that this one is tested against (default: the study's)."""


@dataclass(frozen=True, kw_only=True)
class Arm(_ArmHead):
    name: str
    sections: Mapping[str, Any]
    """What it changes in the recipe."""


@dataclass(frozen=True, kw_only=True)
class _File:
    """The keys of the file."""

    title: str = ""
    question: str = ""
    baseline: str
    arms: dict[str, Any]
    axis: str = ""
    recipe: str = DEFAULT_RECIPE
    budgets: tuple[float, ...] = (1.0,)
    paper: Paper = field(default_factory=Paper)
    base: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Study(_File):
    name: str
    arms: dict[str, Arm]


def find_study(name: str) -> Path:
    return find_named(STUDIES, name, "study", key="study")


def read_study(path: Path) -> Study:
    """Parse and check everything that can be checked without a recipe."""
    values = read_toml(path)
    for key in ("baseline", "arms"):
        if not values.get(key):
            raise ConfigError(
                "missing",
                where=f"{path}: {key}",
                fix="A study has a baseline and arms: see docs/ablations.md",
            )
    file = build(_File, values, where=f"{path}:")
    for sections in (file.base, *file.arms.values()):
        paths_from(sections, path)
    arms = {name: _arm(name, section, path) for name, section in file.arms.items()}
    if file.baseline not in arms:
        raise ConfigError(
            f"{file.baseline!r} is not one of the arms",
            where=f"{path}: baseline",
            fix=nearest(file.baseline, list(arms)),
        )
    for name, arm in arms.items():
        if arm.baseline and arm.baseline not in arms:
            where = f"{path}: arms.{name}.baseline"
            raise ConfigError(
                f"{arm.baseline!r} is not one of the arms", where=where, fix=nearest(arm.baseline, list(arms))
            )
    if (
        not file.budgets
        or any(not 0 < share <= 1 for share in file.budgets)
        or len(set(file.budgets)) < len(file.budgets)
    ):
        raise ConfigError("must be different shares above 0 and up to 1", where=f"{path}: budgets")
    _refuse_values(file.base, f"{path}: base")
    _refuse_keys(file.base, FROM_COMMAND, f"{path}: base")
    own = {
        "name": path.stem,
        "title": file.title or path.stem,
        "arms": arms,
        "budgets": tuple(sorted(file.budgets)),
    }
    return Study(**vars(file) | own)


def _arm(name: str, section: Any, path: Path) -> Arm:
    where = f"{path}: arms.{name}"
    if not isinstance(section, Mapping):
        raise ConfigError(f"expected a table, got {section!r}", where=where)
    if not name.replace("-", "").replace("_", "").replace(".", "").isalnum() or name.startswith("."):
        raise ConfigError("an arm's name is a folder's name: letters, digits, '-', '_' and '.'", where=where)
    heads, sections = (
        [item.name for item in dataclasses.fields(_ArmHead)],
        [item.name for item in dataclasses.fields(Recipe)],
    )
    for key in section:
        if key not in heads and key not in sections:
            raise ConfigError("no such key", where=f"{where}.{key}", fix=nearest(key, heads + sections))
    changes = {key: value for key, value in section.items() if key in sections}
    _refuse_values(changes, where)
    _refuse_keys(changes, FROM_COMMAND, where)
    for key in _dotted(changes):
        if key in SHARED or key.partition(".")[0] in SHARED_SECTIONS:
            fix = "Set it for all of them, under [base]"
            raise ConfigError(
                "arms are compared on the same rows, so this cannot differ between them",
                where=f"{where}.{key}",
                fix=fix,
            )
    head = build(_ArmHead, {key: value for key, value in section.items() if key in heads}, where)
    return Arm(**vars(head) | {"name": name, "title": head.title or name, "sections": changes})


def _refuse_values(sections: Mapping[str, Any], where: str) -> None:
    for name, section in sections.items():
        if not isinstance(section, Mapping):
            raise ConfigError(
                f"expected a table, got {section!r}",
                where=f"{where}.{name}",
                fix="Write objective.name = ..., say",
            )


def _refuse_keys(sections: Mapping[str, Any], refused: Mapping[str, str], where: str) -> None:
    for key in _dotted(sections):
        if key in refused:
            raise ConfigError(
                "is not set in a study", where=f"{where}.{key}", fix=f"Give {refused[key]} instead"
            )


def _dotted(sections: Mapping[str, Any]) -> list[str]:
    """The names of the keys in a recipe's sections: training.seed, ..."""
    return [
        f"{name}.{key.replace('-', '_')}"
        for name, keys in sections.items()
        if isinstance(keys, Mapping)
        for key in keys
    ]


def arm_recipe(study: Study, arm: Arm, recipe: str) -> Recipe:
    """The recipe of an arm; seed, steps and budget are still to be set."""
    path = find_recipe(recipe)
    base = merge(read_recipe(path), study.base)
    base["training"] = {
        key: value
        for key, value in base.get("training", {}).items()
        if key not in ("steps", "budget", "seed")
    }
    base["objective"] = carry_over(base.get("objective", {}), arm.sections.get("objective", {}))
    return make_recipe(merge(base, arm.sections), where=f"{study.name}: arms.{arm.name} over {path.stem}")


def carry_over(options: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the recipe's objective that the arm's objective has too."""
    from electra import objectives

    before, now = str(options.get("name", "rtd")), str(changes.get("name", options.get("name", "rtd")))
    known = {item.name for item in dataclasses.fields(objectives.module_of(now).Config)}
    kept = {key: value for key, value in options.items() if key != "name" and (now == before or key in known)}
    return {"name": now, **kept}
