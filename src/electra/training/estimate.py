"""What a recipe costs on this machine, measured on random ids: a few updates, thrown away."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from electra.errors import Interrupted
from electra.model.sizes import EncoderConfig
from electra.signals import Stop, unwinding
from electra.training import budget, compilation
from electra.training.bench import peak_memory, random_store
from electra.training.distributed import World
from electra.training.needs import disk_bytes
from electra.training.recipe import Recipe, make_recipe
from electra.training.rehearsal import seconds_per_step
from electra.training.run import Run, build_run
from electra.training.shapes import shaped

SECONDS = 4.0  # of updates


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
    compiled: bool


def estimate(
    sections: Mapping[str, Any],
    vocab_size: int,
    generator: EncoderConfig | None = None,
    discriminator: EncoderConfig | None = None,
    *,
    say: Callable[[str], None],
    stop: Stop,
) -> Estimate:
    """Measure a recipe, given as its sections, in a process of its own: its peak of memory is told.

    generator, discriminator: the shapes of networks to start from.
    """
    recipe: Recipe = make_recipe(sections)
    training = replace(recipe.training, steps=1 << 30, log_every=1 << 30)
    fresh = replace(recipe.model, start="fresh")  # counts of random ids are worth nothing
    with unwinding("measuring"), tempfile.TemporaryDirectory() as folder:
        if stop():
            raise Interrupted("measuring", saved=False)
        recipe, store = replace(recipe, training=training, model=fresh), random_store(vocab_size)
        run = build_run(recipe, Path(folder), store, World(), shaped(generator, discriminator))
        run.total_steps = _steps(run)
        if compilation.worth_it(run):
            compilation.compile_layers(run)
        seconds = seconds_per_step(run, SECONDS)
        main = run.pair.main.encoder
        return Estimate(
            layers=main.config.num_layers,
            hidden_size=main.config.hidden_size,
            parameters={
                name: sum(p.numel() for p in network.parameters()) for name, network in run.pair.named.items()
            },
            layer_parameters=sum(p.numel() for p in main.parameters()) - main.token_table().numel(),
            seconds=seconds,
            tokens=run.tokens_per_step,
            flops=run.flops_per_step,
            memory=peak_memory(run.device),
            disk=disk_bytes(run),
            device=str(run.device),
            precision=run.precision,
            threads=torch.get_num_threads(),
            compiled=run.compiled,
        )


def _steps(run: Run) -> int:
    """Updates, for the decision whether to compile: that needs none where the budget is a time."""
    asked = run.recipe.training.budget
    if asked is None:
        return run.total_steps
    return budget.steps_for(
        asked,
        tokens_per_step=run.tokens_per_step,
        flops_per_step=run.flops_per_step,
        steps_in_seconds=lambda _: 1,
    )
