"""Reads the recipe of a command: by name, with settings overridden by dotted name."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, make_dataclass, replace
from itertools import pairwise
from typing import Any

from electra.commands.framework.command import Sections
from electra.foundation.config import build, convert, find_recipe, flatten, merge, read_toml
from electra.foundation.errors import ConfigError
from electra.foundation.options import Source, as_name, checked_path
from electra.training.recipe import DEFAULT_OBJECTIVE, Recipe, make_recipe, read_recipe

DEFAULT = "budget-tiny"


@dataclass(frozen=True)
class ObjectiveSection:
    """The section of an objective before it is chosen. With --objective.name, --help lists its options."""

    name: str = DEFAULT_OBJECTIVE
    """rtd, mlm, ... (a file in electra/objectives), or the path of a .py file."""


def recipe_sections(words: Sequence[str], default: str = DEFAULT) -> Mapping[str, Any]:
    """Returns the sections of the recipe that a command line chooses; for --help, with its values."""
    kinds = {name: kind for name, kind in typing.get_type_hints(Recipe).items() if name != "objective"}
    if not words:
        return {"objective": ObjectiveSection, **kinds}
    chosen = _last_value(words, "--objective.name") or _last_value(words, "--objective")
    path = find_recipe(str(recipe_for(_last_value(words, "--recipe"), _last_value(words, "--out"), default)))
    if not {"-h", "--help"} & {*words}:
        sections = read_toml(path).get("objective")
        name = sections.get("name") if isinstance(sections, Mapping) else None
        return {"objective": _options_of(chosen or str(name or DEFAULT_OBJECTIVE)), **kinds}
    recipe = make_recipe(read_recipe(path, chosen), where=str(path))
    if chosen is None:  # the options of an objective import torch, which delays --help
        objective: Any = ObjectiveSection(str(recipe.objective["name"]))
    else:
        objective = build(_options_of(chosen), recipe.objective, where="objective")
    return {"objective": objective, **{name: getattr(recipe, name) for name in kinds}}


def _options_of(objective: str) -> Any:
    """Returns the dataclass of an objective's options, with its name."""
    from electra import objectives

    config = objectives.module_of(objective).Config
    name = ("name", str, field(default=objective))
    return make_dataclass("ObjectiveSection", [name], bases=(config,), frozen=True)


def _last_value(words: Sequence[str], flag: str) -> str | None:
    """Returns the last value of a flag, before the command line is parsed; None if it is not there."""
    pairs = [*pairwise(words), *(word.partition("=")[::2] for word in words if "=" in word)]
    return next((value for name, value in reversed(pairs) if name == flag), None)


Overrides = typing.Annotated[
    Mapping[str, Any] | None,
    Sections(recipe_sections, {"objective": "objective.name", "tokenizer": "tokenizer.source"}),
]


def recipe_for(recipe: Source | None, out: Source | None, default: str = DEFAULT) -> Source:
    """Returns the recipe that was named, else that of the run in the folder `out`, or else `default`."""
    if recipe is None and out is not None:
        from electra.artifacts.run import RunFolder

        folder = RunFolder(checked_path(out, "out"))
        recipe = str(folder.record.get("environment", {}).get("recipe", "")) if folder.exists() else ""
    return recipe or default


def names_of(overrides: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Returns the names of the settings that the user passed, as they are in a recipe."""
    return tuple(str(name).replace("-", "_") for name in overrides or ())


def compose(recipe: Source, overrides: Mapping[str, Any] | None, budget: str | None = None) -> Recipe:
    """Returns a recipe with its budget and other settings, by dotted name, overridden."""
    from electra import objectives
    from electra.foundation.extensions import trust

    path = find_recipe(as_name(recipe, "recipe"))
    changes = convert(dict[str, Any], overrides or {}, "overrides")
    given: dict[str, Any] = {}
    for name, value in zip(names_of(changes), changes.values(), strict=True):
        section, _, key = name.partition(".")
        given.setdefault(section, {})[key] = value
    if budget is not None or "steps" in given.get("training", {}):
        given.setdefault("training", {})["budget"] = budget
    objective = given.get("objective", {}).get("name")
    trust(objective or "")
    try:
        made = make_recipe(merge(read_recipe(path, objective), given))
        name = str(made.objective["name"])
        options = {key: value for key, value in made.objective.items() if key != "name"}
        options = asdict(build(objectives.module_of(name).Config, options, where="objective"))
    except ConfigError as error:
        key, passed = error.key or error.where or "", {*given, *dict(flatten(given))}
        if key in passed or (key == "budget" and budget is not None) or error.where == str(path):
            raise
        raise ConfigError(error.what, where=f"{path}: {key}", fix=error.fix) from None
    return replace(made, objective={"name": name, **options})
