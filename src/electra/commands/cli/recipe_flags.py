"""The settings of a recipe as flags: defaults, then the recipe's file, then what is typed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field, make_dataclass
from typing import Any, Generic, TypeVar

from electra.commands.cli.arguments import expand
from electra.commands.cli.arguments import parse as parse_arguments
from electra.foundation.config import build, find_recipe
from electra.training.recipe import Recipe, make_recipe, read_recipe, with_budget

SECTIONS = ("model", "training", "evaluation", "tokenizer", "data")
ALIASES = {"--tokenizer": "--tokenizer.source"}
FIRST = ("--model.size", "--objective.name")  # what most users choose
Options = TypeVar("Options")


@dataclass(frozen=True)
class ObjectiveSection:
    """Without --objective.name, --help lists this one option; with it, all options of that objective."""

    name: str = "rtd"
    """rtd, mlm, ... (one file each in electra/objectives), an installed package's, or your own: mine.py."""


@dataclass(frozen=True)
class Parsed(Generic[Options]):
    options: Options
    recipe: Recipe
    argv: tuple[str, ...]

    def named(self) -> list[str]:
        """The settings that were typed, by their dotted names."""
        return [word.partition("=")[0].removeprefix("--") for word in self.argv if word.startswith("--")]


def parse(
    options: type[Options], argv: Sequence[str], *, recipe: str, verb: str, description: str
) -> Parsed[Options]:
    """Parse `argv` into `options`, a dataclass with the recipe's sections, `recipe` and `budget`; the options
    of the objective join them once its name is known.

    recipe: the one that is meant where none is named.
    """
    path, named = find_recipe(_peek(argv, "--recipe") or recipe), _peek(argv, "--objective.name")
    given = make_recipe(read_recipe(path, named), where=str(path))
    objective_type: Any = ObjectiveSection
    objective: Any = ObjectiveSection()
    if named is not None or not any(word in ("-h", "--help") for word in argv):
        objective_type = _objective_section(str(given.objective.get("name", "rtd")))
        objective = build(objective_type, given.objective, where=f"{path}: objective")
    added = ("objective", objective_type, field(default_factory=objective_type))
    kind: Any = make_dataclass("Options", [added], bases=(options,), frozen=True)
    default = kind(**{name: getattr(given, name) for name in SECTIONS}, objective=objective)
    argv = expand(argv, kind, ALIASES)
    found = parse_arguments(kind, argv, verb=verb, description=description, default=default, first=FIRST)
    flags = dataclasses.asdict(found)
    chosen = {name: flags[name] for name in (*SECTIONS, "objective")}
    steps = _peek(argv, "--training.steps") is not None
    return Parsed(found, make_recipe(with_budget(chosen, found.budget, steps)), tuple(argv))


def _objective_section(name: str) -> type:
    """The options of one objective as a dataclass. Reading them imports torch, which a bare --help does not
    wait for.
    """
    from electra import objectives

    config = objectives.module_of(name).Config
    return make_dataclass(
        "ObjectiveSection", [("name", str, field(default=name))], bases=(config,), frozen=True
    )


def _peek(argv: Sequence[str], flag: str) -> str | None:
    """The last value given for a flag, before real parsing."""
    value = None
    for position, argument in enumerate(argv):
        if argument.startswith(f"{flag}="):
            value = argument.partition("=")[2]
        elif argument == flag and position + 1 < len(argv):
            value = argv[position + 1]
    return value
