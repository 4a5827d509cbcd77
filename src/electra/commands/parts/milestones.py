"""A run made longer, from the end of its plateau, with a new fall of the learning rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from electra.artifacts.run import RunFolder
from electra.commands.framework.display import Display
from electra.commands.parts.processes import run_training
from electra.commands.parts.replay import store_of
from electra.commands.parts.train import Inputs
from electra.commands.results.run import Run
from electra.foundation.errors import ConfigError
from electra.training.budget import parse
from electra.training.recipe import Recipe

if TYPE_CHECKING:
    pass


def lengthen_run(run: str, budget: str, store: str | None, processes: int, display: Display) -> Run:
    from electra.training.growth import longer

    folder = RunFolder.open(Path(run))
    record = folder.record
    recipe = longer(folder, record, budget)
    identity, environment = record["identity"], record["environment"]
    inputs = Inputs(
        out=run,
        store=store_of(folder, store),
        init_discriminator=identity.get("initial_discriminator"),
        init_generator=identity.get("initial_generator"),
        processes=processes,
        recipe_name=str(environment.get("recipe", "")),
        extend=True,
    )
    return run_training(recipe, inputs, display)


def in_milestones(recipe: Recipe, inputs: Inputs, milestones: Sequence[str], display: Display) -> Run:
    """Train to each milestone in turn, the whole budget last: each leaves the networks of a finished run."""
    lengths = check_milestones(recipe, milestones)
    folder = RunFolder(inputs.folder)
    recorded = folder.record["training"].get("budget") if folder.exists() else None
    reached = lengths.index(recorded) if recorded in lengths else 0
    if not reached:
        first = replace(recipe.training, budget=lengths[0], steps=None)
        run_training(replace(recipe, training=first), inputs, display)
    for budget in lengths[max(1, reached) :]:
        lengthen_run(inputs.out, budget, inputs.store, inputs.processes, display)
    return Run(inputs.out)


def check_milestones(recipe: Recipe, milestones: Sequence[str]) -> list[str]:
    """The lengths to train to, the whole budget last; each longer than the one before it."""
    if recipe.training.schedule != "wsd":
        fix = "Use `training.schedule=wsd`"
        raise ConfigError("only a run with `training.schedule=wsd` has milestones", key="milestones", fix=fix)
    if recipe.training.budget is None:
        raise ConfigError(
            "milestones need a budget", key="milestones", fix="Give `budget`, such as 50Mtokens"
        )
    lengths = [*milestones, recipe.training.budget]
    for before, after in pairwise(lengths):
        (amount, unit), (more, same) = parse(before), parse(after)
        if unit != same or amount >= more:
            raise ConfigError(
                f"{before} does not come before {after}",
                key="milestones",
                fix="Give growing lengths below the budget, all in its unit: 10Mtokens 20Mtokens",
            )
    return lengths
