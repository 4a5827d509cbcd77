"""Measures what a recipe costs on this machine, with a few updates on random ids."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from electra.model.precision import device_kind
from electra.model.sizes import EncoderConfig
from electra.training.bench import random_store
from electra.training.disk_space import disk_bytes
from electra.training.distributed import World
from electra.training.networks import WarmStart
from electra.training.recipe import Recipe
from electra.training.rehearsal import measure
from electra.training.run import build_run
from electra.training.threads import set_threads

SECONDS = 0.7  # spent on timing updates, in each phase of the training


@dataclass(frozen=True)
class Estimate:
    """The measured cost of a recipe."""

    layers: int
    hidden_size: int
    parameters: Mapping[str, int]
    """Number of parameters of each network."""
    encoder_parameters: int
    """Number of parameters of the main network's encoder, without its token table."""
    seconds_per_update: float
    """Without evaluations and checkpoints."""
    tokens_per_update: int
    flops_per_update: float
    """As budgets count them."""
    memory: int
    """Peak memory in bytes, of the process or the GPU."""
    disk: int
    """Peak size of the run folder in bytes, without its store."""
    device: str
    precision: str
    threads: int
    rows: int
    """Rows of the timed updates: fewer than the batch if a whole update takes long."""

    def timing(self, batch_size: int) -> str:
        """Returns the time of an update and how it was measured, for messages."""
        threads = f", {self.threads} thread{'s' * (self.threads != 1)}" if self.device == "cpu" else ""
        basis = f" (from {self.rows} of {batch_size} rows)" if self.rows < batch_size else ""
        machine = f"{self.device}, {self.precision}{threads}"
        return f"{self.seconds_per_update:.2g} s per update{basis}; {machine}, not compiled"


def estimate(
    recipe: Recipe,
    vocab_size: int,
    shapes: Mapping[str, EncoderConfig] | None = None,
) -> Estimate:
    """Measures what a recipe costs, without compiling the layers.

    The peak memory is that of this process so far. So call this function in a process of its own, and measure
    small recipes before large ones.

    Args:
        recipe: The recipe.
        vocab_size: Size of the vocabulary.
        shapes: Shapes of the models to start from, by network name (default: the recipe's).

    Raises:
        ConfigError: if settings do not fit the machine or the objective.
        RunFailed: if a gradient is not finite.
    """
    training = replace(recipe.training, steps=1 << 30, log_every=1 << 30)
    # Random initialisation: co-occurrences of random ids would carry no information.
    model = replace(recipe.model, start="fresh")
    with tempfile.TemporaryDirectory() as folder:
        recipe, store = replace(recipe, training=training, model=model), random_store(vocab_size)
        run = build_run(recipe, Path(folder), store, World(), WarmStart({}, shapes) if shapes else None)
        measured = measure(run, SECONDS)
        encoder = run.pair.main.encoder
        return Estimate(
            layers=encoder.config.num_layers,
            hidden_size=encoder.config.hidden_size,
            parameters={
                name: sum(p.numel() for p in network.parameters()) for name, network in run.pair.named.items()
            },
            encoder_parameters=sum(p.numel() for p in encoder.parameters()) - encoder.token_table().numel(),
            seconds_per_update=measured.seconds,
            tokens_per_update=run.tokens_per_step,
            flops_per_update=run.flops_per_step,
            memory=device_kind(run.device).peak_memory(),
            disk=disk_bytes(run),
            device=str(run.device),
            precision=run.precision,
            threads=torch.get_num_threads(),
            rows=measured.rows,
        )


def estimator(
    shapes: Mapping[str, EncoderConfig] | None = None,
) -> Callable[[Recipe, int], Estimate]:
    """Returns `estimate` for these `shapes`, as a function of its other arguments.

    Also sets this process's number of threads.
    """
    set_threads(None, None, "")  # a recipe's own number takes precedence
    return lambda recipe, vocab_size: estimate(recipe, vocab_size, shapes)
