"""Replacements drawn partly from the token frequencies instead of the generator."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from electra.data.batches import Batch
from electra.foundation import seeds
from electra.foundation.config import share
from electra.foundation.errors import ConfigError
from electra.model.pair import Generator
from electra.objectives.parts import masking, replacing
from electra.objectives.parts.interface import CorruptedBatch

POWER = 0.75  # Mikolov et al. 2013, section 2.2


@dataclass(frozen=True)
class Options(replacing.Options):
    """Base class of the `Config` of an objective with noise."""

    noise_share: float = share(0.0, evaluated=0.0)
    """Fraction of replacements drawn from the token frequencies to the power 3/4 instead of the generator. A
    generator seldom produces a rare word, so from it alone the network learns that rare words are original.
    """


@dataclass(frozen=True)
class NoisyBatch(CorruptedBatch):
    """A masked batch with a noise token for some slots [M]; -1 where the generator's sample is used."""

    noise: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))


class NoisyObjective(masking.MaskingObjective):
    """Base class of the objectives with noise."""

    config: Options

    def __init__(self, config: Options, **context: Any) -> None:
        super().__init__(config, **context)
        if config.noise_share and self.statistics is None:
            raise ConfigError("needs the token frequencies of the training text", key="objective.noise_share")

    @cached_property
    def frequencies(self) -> replacing.Noise:
        """The noise distribution: token frequencies to the power 3/4, without special tokens."""
        assert self.statistics is not None
        weights = self.statistics.counts.astype(np.float64) ** POWER
        weights[list(self.specials.values())] = 0
        return replacing.Noise(weights)

    def draw_noise(self, batch: Batch, seed: int) -> Tensor:
        """Returns a noise token for every position of the flattened batch [B x T], or -1 for none."""
        B, T = batch.input_ids.shape
        if not self.config.noise_share:
            return torch.full((B * T,), -1)
        draws = seeds.uniforms(seeds.keys(seed, "noise", 0, batch.examples), 2 * T)
        choice_draws, uniforms = draws[:, :T].reshape(-1), draws[:, T:].reshape(-1)
        drawn = self.frequencies.draw(torch.from_numpy(uniforms))
        return torch.where(torch.from_numpy(choice_draws < self.config.noise_share), drawn, -1)


def replace(
    generator: Generator, corrupted: CorruptedBatch, options: replacing.Options, noise: Tensor | None = None
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
    return replaced._replace(sampled=sampled, ids=replacing.insert_samples(corrupted, sampled))
