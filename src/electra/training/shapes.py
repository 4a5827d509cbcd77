"""Which networks a recipe trains, and how large each is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from electra.data.store import TokenStore
from electra.errors import ConfigError
from electra.machine import memory
from electra.model.pair import NAMES, Main, Pair
from electra.model.sizes import SIZES, EncoderConfig, chosen_size, discriminator_config, generator_config
from electra.objectives.parts.interface import Objective, Shapes
from electra.training.recipe import Recipe


@dataclass(frozen=True)
class WarmStart:
    """Networks to begin from instead of fresh weights: their shapes, and how to fill a pair with them."""

    names: dict[str, str]
    generator: EncoderConfig | None
    discriminator: EncoderConfig | None
    load: Callable[[Pair], tuple[str, ...]]
    notes: tuple[str, ...] = ()


def shaped(generator: EncoderConfig | None, discriminator: EncoderConfig | None) -> WarmStart | None:
    """A start from networks of these shapes without their weights; None where there are none."""
    if generator is None and discriminator is None:
        return None
    return WarmStart({}, generator, discriminator, load=lambda pair: ())


def network_shapes(
    recipe: Recipe, store: TokenStore, objective: Objective, warm: WarmStart | None = None
) -> Shapes:
    """The main network has the recipe's size, or that of the model it starts from."""
    model, judges = recipe.model, objective.main == "discriminator"
    size = chosen_size(model.size, model.layers, model.hidden_size)
    full = (warm and (warm.discriminator if judges else warm.generator)) or discriminator_config(
        size,
        model.encoder,
        vocab_size=store.vocab_size,
        dropout=model.dropout,
        attention_dropout=model.attention_dropout,
        pad_id=store.specials.pad,
    )
    if model.mask_decoder and full.architecture != "deberta":
        fix = "Use `model.encoder=deberta`, or leave it out"
        raise ConfigError("only the encoder deberta has a mask decoder", key="model.mask_decoder", fix=fix)
    if model.mask_decoder and not judges:
        full = replace(full, mask_decoder=True)
    if not objective.auxiliary:
        return Shapes(full)
    narrow = generator_config(full, model.generator_width or size.generator_width, model.generator_depth)
    narrow = replace(narrow, mask_decoder=model.mask_decoder)
    return Shapes(full, (judges and warm and warm.generator) or narrow)


def refuse_length(length: int, shapes: Shapes) -> None:
    """Rows longer than the main network reads."""
    most = shapes.main.max_positions
    if length > most:
        raise ConfigError(
            f"{length} tokens are more than the model's positions",
            key="training.length",
            fix=f"Use at most {most}, or start from a model made longer by electra extend MODEL OUT --length",
        )


def refuse_memory(recipe: Recipe, shapes: Shapes, device: torch.device, processes: int = 1) -> None:
    """A run that this machine's memory cannot hold, by what it takes at the very least."""
    training = recipe.training
    rows = training.batch_size // processes
    tokens = min(training.micro_batch or rows, rows) * training.length
    # fp32 weights, gradients and two moments; a GPU's weights begin in main memory
    weights = (16 if device.type == "cpu" else 4) * sum(shape.least_parameters for shape in shapes if shape)
    batch = 25 * rows * training.length  # as `data.batches.Rows` holds it
    passed = 2 * tokens * shapes.main.num_layers * shapes.main.hidden_size  # a 16-bit output of each layer
    needed = weights + batch + (passed if device.type == "cpu" else 0)
    most = memory()
    if most is not None and needed > most:
        what = f"needs at least {needed / 2**30:,.1f} GiB of memory; this machine has {most / 2**30:,.1f} GiB"
        if weights > most:
            fix = "Use a smaller `model.size`, `model.layers` or `model.hidden_size`"
            raise ConfigError(f"this model {what}", key="model", fix=fix)
        if batch > most:
            raise ConfigError(f"this batch {what}", key="training.batch_size", fix="Use a smaller one")
        fix = "Set a smaller `training.micro_batch`; the result is the same"
        raise ConfigError(f"this batch {what}", key="training.micro_batch", fix=fix)


def as_built(recipe: Recipe, shapes: Shapes) -> Recipe:
    """The recipe of a run whose main network has the shape and the vocabulary of the model it starts from."""
    model, main = recipe.model, shapes.main
    own = (main.num_layers, main.hidden_size)
    named = [name for name, size in SIZES.items() if (size.num_layers, size.hidden_size) == own]
    model = replace(
        model,
        size=named[0] if named else model.size,
        layers=None if named else main.num_layers,
        hidden_size=None if named else main.hidden_size,
        encoder=main.architecture,
        generator_width=model.generator_width or chosen_size(model.size).generator_width,
    )
    return replace(recipe, model=model, tokenizer=replace(recipe.tokenizer, vocab_size=main.vocab_size))


# What `as_built` fills in: whatever the command said, a run that resumes keeps it.
TAKEN = ("model.size", "model.layers", "model.hidden_size", "model.encoder", "tokenizer.vocab_size")


def shapes_taken(shapes: Shapes, own: Shapes, main_is: Main) -> tuple[str, ...]:
    """Notes on the networks that have the shape of the model they start from, and not the recipe's."""

    def told(one: EncoderConfig) -> str:
        return f"{one.num_layers} layers of {one.hidden_size}"

    return tuple(
        f"the {kind} has the shape of the model it starts from, {told(a)}; the recipe says {told(b)}"
        for kind, a, b in zip(NAMES[main_is], shapes, own, strict=True)
        if a is not None and b is not None and (a.num_layers, a.hidden_size) != (b.num_layers, b.hidden_size)
    )


def refuse_settings(recipe: Recipe, objective: Objective) -> None:
    """Some objectives cannot do without certain settings of [model]."""
    settings = {
        **vars(recipe.model),
        "generator_width": recipe.model.generator_width or chosen_size(recipe.model.size).generator_width,
    }
    wrong = [name for name, needed in objective.needs.items() if settings[name] != needed]
    if wrong:
        what = f"{settings[wrong[0]]!r} does not go with the objective {recipe.objective.get('name', 'rtd')}"
        needed = " ".join(f"`model.{name}={value}`" for name, value in objective.needs.items())
        raise ConfigError(what, key=f"model.{wrong[0]}", fix=f"It needs {needed}")
    whole = 1 << 30
    if recipe.training.schedule == "wsd" and objective.phase(0, whole) != (0, whole):
        what = f"'wsd' does not go with an objective in phases, such as {recipe.objective.get('name')}"
        raise ConfigError(what, key="training.schedule", fix="Use `training.schedule=linear`")
