"""The networks of a recipe: their shapes, and whether they fit the objective and the machine."""

from collections.abc import Mapping
from dataclasses import replace

import torch

from electra.artifacts.network_names import EXPORTED, NAMES
from electra.data.corpus.store import TokenStore
from electra.exchange.weights import digest
from electra.foundation.errors import ConfigError
from electra.foundation.machine import memory
from electra.model.networks import Network, Networks
from electra.model.pair import AnyNetwork
from electra.model.precision import device_kind
from electra.model.sizes import SIZES, EncoderConfig, discriminator_config, generator_config, resolve_size
from electra.objectives.parts.interface import Objective
from electra.training.recipe import ModelSection, Recipe, RowsSection


def network_table(
    model: ModelSection,
    store: TokenStore,
    objective: Objective,
    auxiliary_rate: float | None = None,
    shapes: Mapping[str, EncoderConfig] | None = None,
) -> Networks:
    """Returns the networks that a recipe trains, in the `shapes`, by name, of models to start from."""
    size, shapes = resolve_size(model.size, model.layers, model.hidden_size), shapes or {}
    name, auxiliary = NAMES[objective.main]
    main_config = shapes.get(name) or discriminator_config(
        size,
        model.encoder,
        vocab_size=store.vocab_size,
        dropout=model.dropout,
        attention_dropout=model.attention_dropout,
        pad_id=store.specials.pad,
    )
    rows = [Network(name, "main", main_config, objective.main, exported=True)]
    if objective.auxiliary:
        width = model.generator_width or size.generator_width
        scaled_config = generator_config(main_config, width, model.generator_depth)
        auxiliary_config = shapes.get(auxiliary) or scaled_config
        exported = auxiliary in EXPORTED
        rows.append(Network(auxiliary, "auxiliary", auxiliary_config, rate=auxiliary_rate, exported=exported))
    return Networks.in_order([*rows, *objective.extra_networks(main_config)])


def frozen_identity(frozen: Mapping[str, AnyNetwork]) -> dict[str, str]:
    """Returns the SHA-256 of each frozen network's weights, as NAME_sha256; a resumed run must match it."""
    states = {name: network.state_dict() for name, network in frozen.items()}
    return {
        f"{name}_sha256": digest({key: tensor.cpu() for key, tensor in state.items()}) for name, state in states.items()
    }


def refuse_length(length: int, *networks: EncoderConfig) -> None:
    """Raises ConfigError if rows of `length` tokens exceed the positions of a network."""
    if length > (positions := min((config.max_positions for config in networks), default=length)):
        fix = f"Use at most {positions}, or a model with more positions"
        problem = f"{length} exceeds the model's {positions} positions"
        raise ConfigError(problem, key="training.length", fix=fix)


def refuse_memory(section: RowsSection, networks: Networks, device: torch.device, processes: int = 1) -> None:
    """Raises ConfigError if this machine's memory is below a lower bound on what the run needs."""
    rows = section.batch_size // processes
    tokens = min(section.micro_batch or rows, rows) * section.length
    # fp32 weights, gradients and two moments; on a GPU, only the initial weights are in main memory
    on_host, main = not device_kind(device).own_memory, networks.main
    weights = ((16 if on_host and row.role != "frozen" else 4, row.config) for row in networks.rows)
    needs = {
        "model": sum(size * config.min_parameters for size, config in weights),
        "training.batch_size": 25 * rows * section.length,  # bytes per token: see `data.batches.Rows`
        "training.micro_batch": 2 * tokens * main.num_layers * main.hidden_size if on_host else 0,  # 16 bits
    }
    needed, available = sum(needs.values()), memory()
    if available is None or needed <= available:
        return
    problem = f"needs at least {needed / 2**30:,.1f} GiB; this machine has {available / 2**30:,.1f} GiB"
    key = next((key for key, size in needs.items() if size > available), "training.micro_batch")
    fixes = {
        "model": "Use a smaller `model.size`, `model.layers` or `model.hidden_size`",
        "training.micro_batch": "Set a smaller one; the result is the same",
    }
    raise ConfigError(problem, key=key, fix=fixes.get(key, "Use a smaller batch"))


def with_shape_of(recipe: Recipe, main: EncoderConfig) -> Recipe:
    """Returns the recipe with the shape and vocabulary size of `main`, the model that the run starts from."""
    model = recipe.model
    shape = (main.num_layers, main.hidden_size)
    names = [name for name, size in SIZES.items() if (size.num_layers, size.hidden_size) == shape]
    model = replace(
        model,
        size=names[0] if names else model.size,
        layers=None if names else main.num_layers,
        hidden_size=None if names else main.hidden_size,
        encoder=model.encoder if main.architecture == "transformers" else main.architecture,
        generator_width=model.generator_width or resolve_size(model.size).generator_width,
    )
    return replace(recipe, model=model, tokenizer=replace(recipe.tokenizer, vocab_size=main.vocab_size))


# Settings that `with_shape_of` fills in. A resumed run keeps them, whatever the command line says.
INHERITED = ("model.size", "model.layers", "model.hidden_size", "model.encoder", "tokenizer.vocab_size")


def in_phases(objective: Objective) -> bool:
    """Whether the objective trains in phases, at fractions of a run whose length must therefore be known."""
    return any(0 < share < 1 for share in objective.phases)


def refuse_settings(recipe: Recipe, objective: Objective) -> None:
    """Raises ConfigError if [model] or the schedule does not work with the objective."""
    width = recipe.model.generator_width or resolve_size(recipe.model.size).generator_width
    settings = {**vars(recipe.model), "generator_width": width}
    required, name = objective.required_settings, recipe.objective.get("name", "rtd")
    if mismatched := [key for key, value in required.items() if settings[key] != value]:
        key, fix = mismatched[0], " ".join(f"`model.{each}={value}`" for each, value in required.items())
        problem = f"{settings[key]!r} does not work with the objective {name}"
        raise ConfigError(problem, key=f"model.{key}", fix=f"It needs {fix}")
    if recipe.training.schedule == "wsd" and in_phases(objective):
        problem = f"'wsd' does not work with {name}, which trains in phases"
        raise ConfigError(problem, key="training.schedule", fix="Use `training.schedule=linear`")
