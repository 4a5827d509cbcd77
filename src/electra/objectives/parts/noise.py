"""Replacements drawn partly from the token frequencies instead of the generator.

A generator seldom produces a rare word, so from its samples alone a network learns that rare words are
original.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from electra.data.batches import Batch
from electra.foundation import seeds
from electra.foundation.errors import ConfigError
from electra.model.pair import Generator
from electra.objectives.parts import replacing
from electra.objectives.parts.interface import Corrupted, Objective

POWER = 0.75  # Mikolov et al. 2013, section 2.2


@dataclass(frozen=True)
class NoisyBatch(Corrupted):
    """A masked batch with a noise token for some slots [M]; -1 where the generator's sample is used."""

    noise: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))


def check_statistics(objective: Objective) -> None:
    """Raises ConfigError if `noise_share` is set and the objective has no token frequencies to draw from."""
    if objective.config.noise_share and objective.statistics is None:
        raise ConfigError("needs the token frequencies of the training text", key="objective.noise_share")


def frequencies(objective: Objective) -> replacing.Noise:
    """Returns the noise distribution: token frequencies to the power 3/4, without special tokens."""
    assert objective.statistics is not None
    weights = objective.statistics.counts.astype(np.float64) ** POWER
    weights[list(objective.specials.values())] = 0
    return replacing.Noise(weights)


def draw(objective: Any, batch: Batch, seed: int) -> Tensor:
    """Returns a noise token for every position of the flattened batch [B x T], or -1 for none.

    Args:
        objective: An objective with the option `noise_share` and the property `frequencies`.
        batch: The rows.
        seed: The run's seed.
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
    """Like `replacing.replace`, but noise tokens take the place of samples at their slots.

    Args:
        generator: The generator; it learns at all slots, including those of the noise.
        corrupted: The batch.
        options: The objective's options.
        noise: Noise tokens [M], -1 for none (default: those of the batch).
    """
    replaced = replacing.replace(generator, corrupted, options)
    if noise is None:
        if not isinstance(corrupted, NoisyBatch):
            return replaced
        noise = corrupted.noise
    sampled = torch.where(noise < 0, replaced.sampled, noise)
    return replaced._replace(sampled=sampled, ids=replacing.put(corrupted, sampled))
