"""Which networks a recipe trains, and how large each is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch

from electra.artifacts.networks import EXPORTED, NAMES
from electra.data.store import TokenStore
from electra.exchange.weights import digest
from electra.foundation.errors import ConfigError, ModelError
from electra.foundation.machine import memory
from electra.model.heads import DiscriminatorHead, GeneratorHead
from electra.model.networks import Network, Networks
from electra.model.pair import AnyNetwork, Discriminator, EncoderAlone, Generator, Pair
from electra.model.precision import device_kind
from electra.model.sizes import SIZES, EncoderConfig, discriminator_config, generator_config, resolve_size
from electra.objectives.parts.interface import Objective
from electra.training.recipe import ModelSection, Recipe, RowsSection


@dataclass(frozen=True)
class WarmStart:
    """Networks to begin from instead of fresh weights, by name: where they are (empty: nowhere), their
    shapes, and how to fill a pair with them.
    """

    names: Mapping[str, str]
    shapes: Mapping[str, EncoderConfig]
    load: Callable[[Pair], tuple[str, ...]] = lambda pair: ()
    notes: tuple[str, ...] = ()


def network_table(
    model: ModelSection,
    store: TokenStore,
    objective: Objective,
    auxiliary_rate: float | None = None,
    taken: Mapping[str, EncoderConfig] | None = None,
) -> Networks:
    """The main network has the recipe's size, or the shape `taken` from the model it starts from."""
    size, taken = resolve_size(model.size, model.layers, model.hidden_size), taken or {}
    name, auxiliary = NAMES[objective.main]
    full = taken.get(name) or discriminator_config(
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
    if objective.main == "generator":
        full = replace(full, mask_decoder=model.mask_decoder or full.mask_decoder)
    rows = [Network(name, "main", full, objective.main, exported=True)]
    if objective.auxiliary:
        narrow = generator_config(full, model.generator_width or size.generator_width, model.generator_depth)
        small = taken.get(auxiliary) or replace(narrow, mask_decoder=model.mask_decoder)
        exported = auxiliary in EXPORTED
        rows.append(Network(auxiliary, "auxiliary", small, rate=auxiliary_rate, exported=exported))
    return Networks.of([*rows, *objective.others(full)])


def open_sources(networks: Networks, store: TokenStore) -> tuple[Networks, dict[str, AnyNetwork]]:
    """The networks that have a `source`, and the table with their shapes.

    They must have been trained with the store's tokenizer. A frozen encoder may also have a vocabulary from
    which that one's was cut: of its table only those entries are read.
    """
    if unsaid := [row.name for row in networks.frozen if not row.source]:
        raise ConfigError(f"no model is named for the {unsaid[0]}", key=f"objective.{unsaid[0]}")
    wanted = [row for row in networks.rows if row.source]
    if not wanted:
        return networks, {}
    from electra.exchange.load import load
    from electra.exchange.smaller import in_vocabulary

    shapes: dict[str, EncoderConfig] = {}
    opened: dict[str, AnyNetwork] = {}
    for row in wanted:
        loaded = load(row.source, row.head)
        alone = row.head == "encoder"
        if alone and loaded.tokenizer.digest != store.tokenizer_digest:
            loaded = in_vocabulary(loaded, store.tokenizer) or loaded
        if loaded.tokenizer.digest != store.tokenizer_digest:
            what = f"the {row.name} was trained with another tokenizer than the text was encoded with"
            fix = f"Prepare the text with its own: electra prepare ... --tokenizer {row.source}"
            raise ModelError(what, where=loaded.folder, fix=fix)
        if alone:
            opened[row.name] = EncoderAlone(loaded.encoder)
        elif isinstance(loaded.head, GeneratorHead):
            opened[row.name] = Generator(loaded.encoder, loaded.head)
        elif isinstance(loaded.head, DiscriminatorHead):
            opened[row.name] = Discriminator(loaded.encoder, loaded.head)
        shapes[row.name] = loaded.config
    rows = [replace(row, shape=shapes.get(row.name, row.shape)) for row in networks.rows]
    return Networks.of(rows), opened


def frozen_identity(frozen: Mapping[str, AnyNetwork]) -> dict[str, str]:
    """SHA-256 of the weights of each: a run goes on with those it began with."""
    states = {name: network.state_dict() for name, network in frozen.items()}
    return {
        f"{name}_sha256": digest({key: tensor.cpu() for key, tensor in state.items()})
        for name, state in states.items()
    }


def refuse_length(length: int, networks: Networks) -> None:
    """Rows longer than the main network, or a frozen one, reads."""
    most = min(row.config.max_positions for row in networks.rows if row.role != "auxiliary")
    if length > most:
        raise ConfigError(
            f"{length} tokens are more than the model's positions",
            key="training.length",
            fix=f"Use at most {most}, or start from a model made longer by electra extend MODEL OUT --length",
        )


def refuse_memory(asked: RowsSection, networks: Networks, device: torch.device, processes: int = 1) -> None:
    """A run that this machine's memory cannot hold, by what it takes at the very least."""
    rows = asked.batch_size // processes
    tokens = min(asked.micro_batch or rows, rows) * asked.length
    # fp32 weights, gradients and two moments; a GPU's weights begin in main memory
    on_host = not device_kind(device).own_memory
    weights = sum(
        (16 if on_host and row.role != "frozen" else 4) * row.config.min_parameters for row in networks.rows
    )
    batch = 25 * rows * asked.length  # as `data.batches.Rows` holds it
    passed = (
        2 * tokens * networks.main.num_layers * networks.main.hidden_size
    )  # a 16-bit output of each layer
    needed = weights + batch + (passed if on_host else 0)
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


def as_built(recipe: Recipe, main: EncoderConfig) -> Recipe:
    """The recipe of a run whose main network has the shape and the vocabulary of the model it starts from."""
    model = recipe.model
    own = (main.num_layers, main.hidden_size)
    named = [name for name, size in SIZES.items() if (size.num_layers, size.hidden_size) == own]
    model = replace(
        model,
        size=named[0] if named else model.size,
        layers=None if named else main.num_layers,
        hidden_size=None if named else main.hidden_size,
        encoder=main.architecture,
        generator_width=model.generator_width or resolve_size(model.size).generator_width,
    )
    return replace(recipe, model=model, tokenizer=replace(recipe.tokenizer, vocab_size=main.vocab_size))


# What `as_built` fills in: whatever the command said, a run that resumes keeps it.
TAKEN = ("model.size", "model.layers", "model.hidden_size", "model.encoder", "tokenizer.vocab_size")


def shapes_taken(networks: Networks, own: Networks) -> tuple[str, ...]:
    """Notes on the networks that have the shape of the model they start from, and not the recipe's."""

    def told(one: EncoderConfig) -> str:
        return f"{one.num_layers} layers of {one.hidden_size}"

    return tuple(
        f"the {row.name} has the shape of the model it starts from, {told(a)}; the recipe says {told(b)}"
        for row, other in zip(networks.rows, own.rows, strict=True)
        if (a := row.shape) and (b := other.shape)
        if (a.num_layers, a.hidden_size) != (b.num_layers, b.hidden_size)
    )


def refuse_settings(recipe: Recipe, objective: Objective) -> None:
    """Some objectives cannot do without certain settings of [model]."""
    settings = {
        **vars(recipe.model),
        "generator_width": recipe.model.generator_width or resolve_size(recipe.model.size).generator_width,
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
