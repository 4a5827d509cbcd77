"""What a command that trains was asked to do: its recipe with its changed settings, text, and models."""

import typing
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, make_dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from electra.foundation.config import build, convert, find_recipe, flatten, merge, read_toml
from electra.foundation.errors import ConfigError
from electra.foundation.options import Source, as_name, checked_path
from electra.training.recipe import DEFAULT_OBJECTIVE, Recipe, make_recipe, read_recipe

DEFAULT = "budget-tiny"


@dataclass(frozen=True)
class TrainingText:
    """What to train on: text, which is prepared in the run's folder, or a token store."""

    corpus: tuple[str, ...] = ()
    store: str | None = None
    workers: int | None = None  # processes that encode text (None: all cores)
    allow_unknown: bool = False  # whether to train on text with any share of unknown tokens


@dataclass(frozen=True)
class Request:
    """What a command was asked to train. Models and text are named, not opened."""

    recipe: Recipe
    """With all settings that the user changed."""
    text: TrainingText
    out: Path
    """The run folder."""
    main: str | None = None
    """The model that the main network starts from, perhaps with some of its layers: tiny-en[0,2] (None:
    random weights).
    """
    generator: str | None = None
    """The model that the generator starts from."""
    source: str = ""
    """The recipe's name or file."""
    given: tuple[str, ...] = ()
    """The settings that the user passed, by dotted name."""
    command: str = ""
    """The command line or Python call, for the record."""
    began: float | None = None
    """Monotonic time of the command's start, from which a time budget counts (None: now)."""
    extend: bool = False
    """Whether the run that is there is trained to a larger budget."""


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
    from electra import objectives

    config = objectives.module_of(objective).Config
    name = ("name", str, field(default=objective))
    return make_dataclass("ObjectiveSection", [name], bases=(config,), frozen=True)


def _last_value(words: Sequence[str], flag: str) -> str | None:
    pairs = [*pairwise(words), *(word.partition("=")[::2] for word in words if "=" in word)]
    return next((value for name, value in reversed(pairs) if name == flag), None)


def recipe_for(recipe: Source | None, out: Source | None, default: str = DEFAULT) -> Source:
    """Returns the recipe that was named, else that of the run in the folder `out`, or else `default`."""
    if recipe is None and out is not None:
        from electra.artifacts.run_files import RunFolder

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
    given = with_one_length(given, budget)
    objective = given.get("objective", {}).get("name")
    trust(objective or "")
    try:
        sections = read_recipe(path, objective)
        refuse_two_lengths(sections.get("training"), str(path))
        made = make_recipe(merge(sections, given))
        name = str(made.objective["name"])
        options = {key: value for key, value in made.objective.items() if key != "name"}
        options = asdict(build(objectives.module_of(name).Config, options, where="objective"))
    except ConfigError as error:
        key, passed = error.key or error.where or "", {*given, *dict(flatten(given))}
        if key in passed or (key == "budget" and budget is not None) or error.where == str(path):
            raise
        raise ConfigError(error.what, where=f"{path}: {key}", fix=error.fix) from None
    return replace(made, objective={"name": name, **options})


def with_one_length(given: dict[str, Any], budget: str | None) -> dict[str, Any]:
    """Returns the given settings with one length, a budget or steps, which overrides the recipe's."""
    training = dict(given.get("training") or {})
    if budget is not None and training.get("budget", budget) != budget:
        problem = f"{training['budget']} and {budget} were both passed"
        raise ConfigError(problem, key="training.budget", fix="Pass one of them")
    if budget is not None:
        training["budget"] = budget
    refuse_two_lengths(training)
    if training.get("steps") is not None:
        training["budget"] = None
    elif training.get("budget") is not None:
        training["steps"] = None
    return {**given, "training": training} if training else given


def refuse_two_lengths(training: Any, where: str = "") -> None:
    """Raises ConfigError if the settings of a training have both a number of steps and a budget."""
    if not isinstance(training, Mapping):
        return
    steps, budget = training.get("steps"), training.get("budget")
    if steps is not None and budget is not None:
        problem = f"{steps} steps and a budget of {budget} were both set, and a run has one length"
        raise ConfigError(problem, where=where, key="training.steps", fix="Set one of them")
