"""Replacements of which some come from the tokens' frequencies instead of the generator, which seldom writes
a rare word: from it alone a network learns that rare words are original.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from electra.data.batches import Batch
from electra.foundation import seeds
from electra.model.pair import Generator
from electra.objectives.parts import replacing
from electra.objectives.parts.interface import Corrupted, Objective

POWER = 0.75  # Mikolov et al. 2013, section 2.2


@dataclass(frozen=True)
class Noisy(Corrupted):
    """A masked batch with the tokens of noise at its slots [M]; -1: what the generator writes."""

    noise: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))


def frequencies(objective: Objective) -> replacing.Noise:
    """The distribution of the noise: that of the training text, flattened, without special tokens."""
    assert objective.statistics is not None
    weights = objective.statistics.counts.astype(np.float64) ** POWER
    weights[list(objective.specials.values())] = 0
    return replacing.Noise(weights)


def draw(objective: Any, batch: Batch, seed: int) -> Tensor:
    """At every position a token of noise, or -1 where the generator writes [B T]. `objective` has the option
    `noise_share`, and `frequencies`.
    """
    B, T = batch.input_ids.shape
    if not objective.config.noise_share:
        return torch.full((B * T,), -1)
    draws = seeds.uniforms(seeds.keys(seed, "noise", 0, batch.examples), 2 * T)
    chosen, uniforms = draws[:, :T].reshape(-1), draws[:, T:].reshape(-1)
    drawn = objective.frequencies.draw(torch.from_numpy(uniforms))
    return torch.where(torch.from_numpy(chosen < objective.config.noise_share), drawn, -1)


def replace(
    generator: Generator, corrupted: Corrupted, options: replacing.Options, noise: Tensor | None = None
) -> replacing.Replaced:
    """`replacing.replace`, with the noise of the batch (or the one given) in its samples."""
    replaced = replacing.replace(generator, corrupted, options)
    if noise is None:
        if not isinstance(corrupted, Noisy):
            return replaced
        noise = corrupted.noise
    sampled = torch.where(noise < 0, replaced.sampled, noise)
    return replaced._replace(sampled=sampled, ids=replacing.put(corrupted, sampled))
