"""Trains a run further, from the end of its constant learning rate, with a new decay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from electra.artifacts.run import RunFolder
from electra.commands.framework.display import Display
from electra.commands.parts.processes import run_training
from electra.commands.parts.replay import run_store_path
from electra.commands.parts.train import Inputs
from electra.commands.results.run import Run
from electra.foundation.errors import ConfigError
from electra.training.budget import parse
from electra.training.recipe import Recipe


def lengthen_run(run: str, budget: str, store: str | None, processes: int, display: Display) -> Run:
    """Trains the run in the folder `run` to a larger budget."""
    from electra.training.growth import extended_recipe

    folder = RunFolder.open(Path(run))
    record = folder.record
    recipe = extended_recipe(folder, record, budget)
    identity, environment = record["identity"], record["environment"]
    inputs = Inputs(
        out=run,
        store=run_store_path(folder, store),
        init_discriminator=identity.get("initial_discriminator"),
        init_generator=identity.get("initial_generator"),
        processes=processes,
        recipe_name=str(environment.get("recipe", "")),
        extend=True,
    )
    return run_training(recipe, inputs, display)


def train_in_milestones(recipe: Recipe, inputs: Inputs, milestones: Sequence[str], display: Display) -> Run:
    """Trains to each milestone in turn, and to the whole budget last. Each leaves finished networks."""
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
    """Returns the budgets to train to, the whole one last. Raises ConfigError if they do not grow."""
    if recipe.training.schedule != "wsd":
        fix = "Use `training.schedule=wsd`"
        raise ConfigError("only a run with `training.schedule=wsd` has milestones", key="milestones", fix=fix)
    if recipe.training.budget is None:
        fix = "Give `budget`, such as 50Mtokens"
        raise ConfigError("milestones need a budget", key="milestones", fix=fix)
    lengths = [*milestones, recipe.training.budget]
    for before, after in pairwise(lengths):
        (amount, unit), (more, same) = parse(before), parse(after)
        if unit != same or amount >= more:
            fix = "Give increasing amounts below the budget, in the same unit: 10Mtokens 20Mtokens"
            what = f"{before} is not less than {after}" if unit == same else f"other units: {before}, {after}"
            raise ConfigError(what, key="milestones", fix=fix)
    return lengths
