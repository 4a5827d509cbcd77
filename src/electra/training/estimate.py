"""What a recipe costs on this machine, measured on random ids: a few updates, thrown away."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from electra.model.precision import device_kind
from electra.model.sizes import EncoderConfig
from electra.training.bench import random_store
from electra.training.distributed import World
from electra.training.needs import disk_bytes
from electra.training.networks import WarmStart
from electra.training.recipe import Recipe
from electra.training.rehearsal import measure
from electra.training.run import build_run
from electra.training.threads import set_threads

SECONDS = 0.7  # of updates, in each phase of a training


@dataclass(frozen=True)
class Estimate:
    layers: int
    hidden_size: int
    parameters: Mapping[str, int]
    """Of each network."""
    layer_parameters: int
    """Of the main network, its token table left out."""
    seconds: float
    """Of an update, evaluations and checkpoints aside."""
    tokens: int
    """An update reads so many."""
    flops: float
    """Of an update, as budgets count them."""
    memory: int
    """Bytes at the peak: of the process, or of the GPU."""
    disk: int
    """Bytes of a run folder at the worst moment, without its store."""
    device: str
    precision: str
    threads: int
    rows: int
    """Of an update, that were measured: fewer than it has where one takes long."""

    def measured(self, batch_size: int) -> str:
        """How the time of an update was measured."""
        threads = f", {self.threads} thread{'s' * (self.threads != 1)}" if self.device == "cpu" else ""
        part = f", by {self.rows} of its {batch_size} rows" if self.rows < batch_size else ""
        return f"{self.seconds:.2g} s an update{part}; {self.device}, {self.precision}{threads}, not compiled"


def estimate(
    recipe: Recipe,
    vocab_size: int,
    shapes: Mapping[str, EncoderConfig] | None = None,
) -> Estimate:
    """Measure a recipe without compiling anything. The peak of memory is that of this
    process, so it is one of its own, which measures small recipes before large ones.

    shapes: those of the networks to start from, by name.
    """
    training = replace(recipe.training, steps=1 << 30, log_every=1 << 30)
    fresh = replace(recipe.model, start="fresh")  # counts of random ids are worth nothing
    with tempfile.TemporaryDirectory() as folder:
        recipe, store = replace(recipe, training=training, model=fresh), random_store(vocab_size)
        run = build_run(recipe, Path(folder), store, World(), WarmStart({}, shapes) if shapes else None)
        measured = measure(run, SECONDS)
        main = run.pair.main.encoder
        return Estimate(
            layers=main.config.num_layers,
            hidden_size=main.config.hidden_size,
            parameters={
                name: sum(p.numel() for p in network.parameters()) for name, network in run.pair.named.items()
            },
            layer_parameters=sum(p.numel() for p in main.parameters()) - main.token_table().numel(),
            seconds=measured.seconds,
            tokens=run.tokens_per_step,
            flops=run.flops_per_step,
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
    """What a process that measures several recipes does with each and its vocabulary's size."""
    set_threads(None, None, "")  # once: a recipe of its own number takes that
    return lambda recipe, vocab_size: estimate(recipe, vocab_size, shapes)
