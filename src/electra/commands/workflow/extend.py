"""Run -> the same Run, longer: from the end of its plateau, with a new fall of the learning rate.

And Model -> the same Model for longer texts, or of more layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from electra.artifacts.run import RunFolder
from electra.commands.workflow.artifact import Source, given_name, given_path, name_of
from electra.commands.workflow.display import Display, Told, display_for
from electra.commands.workflow.pretrain import carry_out
from electra.commands.workflow.replay import store_of
from electra.commands.workflow.run import Run
from electra.commands.workflow.train import Inputs
from electra.foundation.config import convert
from electra.foundation.errors import ConfigError
from electra.training.budget import parse
from electra.training.recipe import Recipe

if TYPE_CHECKING:
    from electra.commands.workflow.model import Model


def extend(
    run: Source, budget: str, *, store: Source | None = None, processes: int = 1, progress: Told = None
) -> Run:
    """Make a run of the schedule `wsd` longer; it ends with the bits of one that had this budget from the
    start.

    budget: of the whole run, what it has included: "50Mtokens".
    store: the store that the run was trained on (None: where it lay, or RUN/store).

    The networks and the page of the shorter run move to RUN/milestones/step-N. Raises ConfigError for a run
    of another schedule or a budget that is no longer than the run, and as `pretrain` does.
    """
    budget, processes = convert(str, budget, "budget"), convert(int, processes, "processes")
    with display_for(progress) as display:
        return carry_on(str(given_path(run, "run")), budget, name_of(store, "store"), processes, display)


def lengthen(model: Source, out: Source, *, length: int, progress: Told = None) -> Model:
    """Write a model with positions for more tokens: the same weights, rotary positions with a larger base, a
    position table repeated. It has not learned to use them: pre-train or fine-tune it on longer texts.

    model: a run, a pair (both networks are written), a model folder or a hub name; not a fine-tuned one.
    out: the folder to write; new, or holding exported models and nothing else.
    length: tokens that it shall read, with the special ones; more than it reads, at most 131,072.

    Raises ConfigError, ModelError.
    """
    from electra.commands.workflow.model import load
    from electra.exchange.longer import lengthen as write_longer

    length = convert(int, length, "length")
    with display_for(progress) as display:
        for line in write_longer(given_name(model, "model"), given_path(out, "out"), length):
            display.say(line)
    return load(out)


def deepen(model: Source, out: Source, *, layers: int, progress: Told = None) -> Model:
    """Write a model of more layers: its own, repeated in order (Gong et al. 2019). Pre-train it further
    before you use it: its function has changed.

    model: a run, a pair (each network gets as many times its layers), a model folder or a hub name; not a
        fine-tuned one.
    out: the folder to write; new, or holding exported models and nothing else.
    layers: that it shall have; a multiple of those it has.

    Raises ConfigError, ModelError.
    """
    from electra.commands.workflow.model import load
    from electra.exchange.deeper import deepen as write_deeper

    layers = convert(int, layers, "layers")
    with display_for(progress) as display:
        for line in write_deeper(given_name(model, "model"), given_path(out, "out"), layers):
            display.say(line)
    return load(out)


def carry_on(run: str, budget: str, store: str | None, processes: int, display: Display) -> Run:
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
    return carry_out(recipe, inputs, display)


def in_milestones(recipe: Recipe, inputs: Inputs, milestones: Sequence[str], display: Display) -> Run:
    """Train to each milestone in turn, the whole budget last: each leaves the networks of a finished run."""
    lengths = check_milestones(recipe, milestones)
    folder = RunFolder(inputs.folder)
    recorded = folder.record["training"].get("budget") if folder.exists() else None
    reached = lengths.index(recorded) if recorded in lengths else 0
    if not reached:
        first = replace(recipe.training, budget=lengths[0], steps=None)
        carry_out(replace(recipe, training=first), inputs, display)
    for budget in lengths[max(1, reached) :]:
        carry_on(inputs.out, budget, inputs.store, inputs.processes, display)
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
