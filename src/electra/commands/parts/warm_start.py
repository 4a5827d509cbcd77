"""Starts a run from trained networks, with their shapes and tokenizer and a lower learning rate."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from electra.artifacts.networks import EXPORTED
from electra.artifacts.run import RunFolder
from electra.commands.framework.display import Display
from electra.commands.parts.stores import existing_tokenizer
from electra.data.settings import TokenizerConfig
from electra.foundation.config import RECIPES, find_recipe
from electra.foundation.errors import ConfigError
from electra.foundation.machine import launch_variable
from electra.foundation.options import Source, optional_name
from electra.training.recipe import Recipe, read_recipe

if TYPE_CHECKING:
    from electra.data.tokenizer import Tokenizer
    from electra.exchange.load import Loaded
    from electra.training.networks import WarmStart

RATE = "learning_rate"
_CUT = re.compile(r"(.*)\[(\d+(?:,\d+)*)\]", re.DOTALL)
SHARE_OF_RATE = 0.2  # factor on the recipe's learning rate for trained weights


def initial_models(
    recipe: Recipe, init: Source | None, discriminator: Source | None
) -> tuple[str | None, str | None]:
    """Returns the models that the discriminator and the generator start from (None: random weights).

    `init` names both. Raises ConfigError if both are passed or the recipe trains no discriminator, and
    ModelError if there is no such model.
    """
    trains_discriminator = _main_network(recipe) == EXPORTED[0]
    if discriminator is not None and init is not None:
        raise ConfigError("both it and `init_discriminator` were passed", key="init", fix="Pass one of them")
    if discriminator is not None and not trains_discriminator:
        problem = f"the objective {recipe.objective.get('name')} trains no discriminator"
        raise ConfigError(problem, key="init_discriminator", fix="Use `init`")
    name = optional_name(init)
    if name is None or not trains_discriminator:
        return optional_name(discriminator), name
    from electra.exchange.run_folder import holds_networks, network_kinds
    from electra.exchange.source import locate

    path = locate(name)
    has_both = holds_networks(path) and set(network_kinds(path)) >= set(EXPORTED)
    return name, name if has_both else None


def split_layers(name: str) -> tuple[str, list[int] | None]:
    """Splits a name such as tiny-en[0,2] into the model and the layers to use (None: all)."""
    match = _CUT.fullmatch(name)
    return (match[1], [int(number) for number in match[2].split(",")]) if match else (name, None)


def settle(
    recipe: Recipe,
    models: tuple[str | None, str | None],
    out: Path,
    display: Display,
    *,
    source: Source,
    given: Sequence[str],
    prepared: bool,
) -> Recipe:
    """Returns the recipe with what the models that a run starts from determine: tokenizer, shape, rate.

    `models` are those of the main network and the generator (None: random weights). `source` is the recipe's
    name or file, `given` the settings that the user passed; `prepared`: the text is in a store already.
    """
    from electra.data.cut_vocabulary import ids_in_original
    from electra.exchange.load import load
    from electra.model.precision import pick_device
    from electra.model.sizes import resolve_size
    from electra.training.networks import refuse_length

    pick_device(recipe.training.device, key="training.device")
    resolve_size(recipe.model.size, recipe.model.layers, recipe.model.hidden_size)
    main = split_layers(models[0])[0] if models[0] else None
    tokenizer = recipe.tokenizer.source or main or models[1]
    if tokenizer and not prepared:
        trained = {f"tokenizer.{field.name}" for field in fields(TokenizerConfig)}
        if unused := sorted(trained & set(given)):
            problem = f"has no effect: the text is encoded with the tokenizer of {split_layers(tokenizer)[0]}"
            fix = "Omit it; electra export MODEL --cut-to TEXT makes a model with a smaller vocabulary"
            raise ConfigError(problem, key=unused[0], fix=fix)
        recipe = replace(recipe, tokenizer=replace(recipe.tokenizer, source=tokenizer))
    readers = (str(recipe.objective.get("teacher") or ""), main, models[1])
    loaded = {name: load(name, "encoder") for name in filter(None, readers)}
    for name, own in () if prepared else ((name, each.tokenizer) for name, each in loaded.items()):
        used = existing_tokenizer(tokenizer) if tokenizer else own
        if used.digest != own.digest and ids_in_original(used, own) is None:
            problem = f"{tokenizer} has another tokenizer than {name}, which could not read the text"
            fix = "Use one tokenizer for all models: omit `tokenizer.source`, or choose other models"
            raise ConfigError(problem, key="tokenizer.source", fix=fix)
    refuse_length(recipe.training.length, *(each.config for each in loaded.values()))
    if (warm := warm_start(*models, recipe)) is None:
        return recipe
    recipe = with_shape(recipe, warm, given)
    path = find_recipe(str(source))
    in_own_recipe = path.parent != RECIPES and RATE in read_recipe(path).get("training", {})
    if in_own_recipe or f"training.{RATE}" in given:
        return recipe
    training, resumes = recipe.training, RunFolder.is_at(out)
    rate = training.learning_rate * SHARE_OF_RATE
    rate = float(RunFolder(out).record["training"].get(RATE, rate)) if resumes else rate
    generator_rate = training.generator_learning_rate
    if generator_rate is not None:
        generator_rate *= rate / training.learning_rate
    training = replace(training, learning_rate=rate, generator_learning_rate=generator_rate)
    recipe = replace(recipe, training=training)
    if not resumes and launch_variable("RANK", 0) == 0:
        display.say(
            f"learning rate {recipe.training.learning_rate:.3g}, {SHARE_OF_RATE:g} of the recipe's, because"
            " the networks start from trained weights (change it with --training.learning-rate)"
        )
    return recipe


def warm_start(
    main: str | None, auxiliary: str | None, recipe: Recipe, tokenizer: Tokenizer | None = None
) -> WarmStart | None:
    """Returns the shapes of the models to start from and a function that loads their weights.

    None if both networks start from random weights (None). They get the recipe's dropout rates. The run's
    `tokenizer` must be the models', or cut from theirs (None: not checked).
    """
    if main is None and auxiliary is None:
        return None
    from electra.exchange.pooling import MEAN
    from electra.exchange.warm_start import open_start
    from electra.training.networks import WarmStart

    source, layers = split_layers(main) if main else (None, None)
    start = open_start(source, auxiliary or None, tokenizer, layers)
    models: dict[str, Loaded | None] = dict(
        zip(EXPORTED, (start.discriminator, start.generator), strict=True)
    )
    dropout, attention = recipe.model.dropout, recipe.model.attention_dropout
    own = models[_main_network(recipe)]
    return WarmStart(
        names=dict(zip(EXPORTED, (main or "", auxiliary or ""), strict=True)),
        shapes={
            name: replace(loaded.config, dropout=dropout, attention_dropout=attention)
            for name, loaded in models.items()
            if loaded is not None
        },
        load=start.load_into,
        text_vector=MEAN if own is None else own.text_vector,
    )


def _main_network(recipe: Recipe) -> str:
    """Returns the name of the network that the recipe's objective trains."""
    from electra.objectives import module_of

    return str(module_of(str(recipe.objective.get("name", "rtd"))).Objective.main)


def with_shape(recipe: Recipe, warm: WarmStart, settings: Sequence[str]) -> Recipe:
    """Returns the recipe in the shape of the main network's start, which `settings` must not contradict."""
    from electra.model.sizes import resolve_size
    from electra.training.networks import with_shape_of

    if (shape := warm.shapes.get(_main_network(recipe))) is None:
        return recipe
    model = recipe.model
    size = resolve_size(model.size, model.layers, model.hidden_size)
    differs = {
        "model.layers": size.num_layers != shape.num_layers,
        "model.hidden_size": size.hidden_size != shape.hidden_size,
        "model.size": (size.num_layers, size.hidden_size) != (shape.num_layers, shape.hidden_size),
        "model.encoder": model.encoder != shape.architecture,
    }
    for name in settings:
        if differs.get(name):
            found = f"{shape.architecture}, {shape.num_layers} layers of {shape.hidden_size}"
            fix = "Omit it, or start from random weights"
            raise ConfigError(f"has no effect: the run starts from a model ({found})", key=name, fix=fix)
    return with_shape_of(recipe, shape)
