"""Reads the recipe of a command: by name or purpose, with settings overridden by dotted name."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, make_dataclass
from pathlib import Path
from typing import Any

from electra.commands.framework.command import Sections, Source
from electra.foundation.config import build, convert, find_recipe, merge
from electra.foundation.errors import ConfigError, unknown_choice
from electra.foundation.options import as_name, checked_path
from electra.training.recipe import Recipe, make_recipe, read_recipe, with_budget

PURPOSES = {  # the recipe that scored best for each purpose, with 4 layers of width 128: docs/which-recipe.md
    "pairs": "budget-tiny",
    "tags": "budget-mlm",
    "both": "words-first",
}
Purpose = typing.Literal["pairs", "tags", "both"]


@dataclass(frozen=True)
class ObjectiveSection:
    """The section of an objective before it is chosen. With --objective.name, --help lists its options."""

    name: str = "rtd"
    """rtd, mlm, ... (a file in electra/objectives), the name of one in an installed package, or the path of
    a .py file.
    """


def recipe_sections(words: Sequence[str], default: str = PURPOSES["pairs"]) -> Mapping[str, Any]:
    """Returns the sections of the recipe that the command-line arguments `words` choose.

    Without arguments, returns the types of the sections. Raises ConfigError if there is no such recipe or
    objective, or the recipe is invalid.
    """
    kinds = {name: kind for name, kind in typing.get_type_hints(Recipe).items() if name != "objective"}
    if not words:
        return {"objective": ObjectiveSection, **kinds}
    objective_name = _peek(words, "--objective.name")
    in_help = any(word in ("-h", "--help") for word in words)
    named_recipe = recipe_for(
        _peek(words, "--recipe"), _peek(words, "--purpose"), _peek(words, "--out"), default
    )
    path = find_recipe(str(named_recipe))
    with _values_of(path):
        recipe = make_recipe(read_recipe(path, objective_name), where=str(path))
    objective: Any = ObjectiveSection(str(recipe.objective["name"]))
    if objective_name is not None or not in_help:  # its options import torch, which delays --help
        config = _config_of(objective.name)
        kind: Any = make_dataclass(
            "ObjectiveSection", [("name", str, field(default=objective.name))], bases=(config,), frozen=True
        )
        with _values_of(path):
            objective = build(kind, recipe.objective, where=f"{path}: objective")
    return {"objective": objective, **{name: getattr(recipe, name) for name in kinds}}


Overrides = typing.Annotated[
    Mapping[str, Any] | None,
    Sections(recipe_sections, {"objective": "objective.name", "tokenizer": "tokenizer.source"}),
]


@dataclass(frozen=True, kw_only=True)
class RecipeOptions:
    """The options of a command that uses a recipe."""

    recipe: Source | None = None
    """The recipe: a name or a TOML file (default: the recipe for the purpose)."""
    purpose: Purpose | None = None
    """What the encoder will be used for; it determines the recipe. pairs: whole texts and pairs of texts;
    tags: tagging words, correction, filling masks; both: all of this with one network, and finding words that
    do not fit (default: pairs).
    """
    overrides: Overrides = None
    """Settings that override the recipe's, by dotted name: {"training.learning_rate": 2e-3}."""


def _peek(words: Sequence[str], flag: str) -> str | None:
    """Returns the last value of a flag, before the command line is parsed; None if it is not there."""
    value = None
    for index, word in enumerate(words):
        name, equals, argument = word.partition("=")
        name = "--objective.name" if name == "--objective" else name
        if name == flag and (equals or index + 1 < len(words)):
            value = argument if equals else words[index + 1]
    return value


def recipe_for(
    recipe: Source | None, purpose: str | None, out: Source | None = None, default: str = PURPOSES["pairs"]
) -> Source:
    """Returns the recipe that was named, or the one for a purpose.

    With neither, it is the recipe of the run in the folder `out`, so that it resumes, or else `default`.
    Raises ConfigError if both are given, or for an unknown purpose.
    """
    if purpose is None:
        if recipe is not None:
            return recipe
        return (_recorded_recipe(out) if out is not None else "") or default
    if recipe is not None:
        raise ConfigError(
            "both `recipe` and `purpose` were passed", key="purpose", fix="Pass only one of them"
        )
    if purpose not in PURPOSES:
        problem, fix = unknown_choice(purpose, list(PURPOSES))
        raise ConfigError(problem, key="purpose", fix=fix)
    return PURPOSES[purpose]


def _recorded_recipe(out: Source) -> str:
    """Returns the name of the recipe of the run in the folder `out`; empty if there is no run."""
    from electra.artifacts.run import RunFolder

    folder = RunFolder(checked_path(out, "out"))
    return str(folder.record.get("environment", {}).get("recipe", "")) if folder.exists() else ""


def compose(recipe: Source, overrides: Mapping[str, Any] | None, budget: str | None = None) -> Recipe:
    """Returns a recipe with its budget and other settings overridden, the latter by dotted name.

    Raises:
        ConfigError: a setting is unknown or invalid.
    """
    from electra.foundation.extensions import trust

    path = find_recipe(as_name(recipe, "recipe"))
    by_section: dict[str, Any] = {}
    for name, value in convert(dict[str, Any], overrides or {}, "overrides").items():
        section, _, key = str(name).partition(".")
        by_section.setdefault(section, {})[key.replace("-", "_")] = value
    objective = by_section.get("objective", {}).get("name")
    trust(objective or "")
    sections = read_recipe(path, objective)
    with _values_of(path):
        make_recipe(sections, where=str(path))
    merged = make_recipe(
        with_budget(merge(sections, by_section), budget, "steps" in by_section.get("training", {}))
    )
    return make_recipe({**merged.to_sections(), "objective": _complete(merged.objective, path, by_section)})


def _complete(objective: Mapping[str, Any], path: Path, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the section of an objective with its defaults filled in.

    `path` is the recipe's file and `overrides` the caller's settings by section: an error names the file only
    if it has the value.
    """
    name, values = str(objective["name"]), {key: value for key, value in objective.items() if key != "name"}
    config, set_by_caller = _config_of(name), overrides.get("objective", {})
    in_file = {key: value for key, value in values.items() if key.replace("-", "_") not in set_by_caller}
    with _values_of(path):
        build(config, in_file, where=f"{path}: objective")
    return {"name": name, **asdict(build(config, values, where="objective"))}


@contextmanager
def _values_of(path: Path) -> Iterator[None]:
    """Says of a wrong setting in the block that it is in the recipe's file.

    `key` would spell it as an option of the command line, which is not where the user has to change it.
    """
    try:
        yield
    except ConfigError as error:
        if not error.key:
            raise
        where = error.key if error.key.startswith(str(path)) else f"{path}: {error.key}"
        raise ConfigError(error.what, where=where, fix=error.fix) from None


def _config_of(name: str) -> Any:
    from electra import objectives

    return objectives.module_of(name).Config
