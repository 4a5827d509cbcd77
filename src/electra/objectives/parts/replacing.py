"""Replaces masked tokens by samples of a generator: the corruption of ELECTRA and its successors."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from electra.data.corpus.batches import Batch
from electra.foundation import seeds
from electra.foundation.config import check_positive, share
from electra.model.pair import Generator
from electra.objectives.parts import masking, vocabulary
from electra.objectives.parts.interface import CorruptedBatch

POWER = 0.75  # of the frequencies that noise is drawn from: Mikolov et al. 2013, section 2.2


@dataclass(frozen=True)
class ReplacingOptions(masking.MaskingOptions):
    """Base class of the `Config` of an objective with a small generator."""

    temperature: float = 1.0
    """Softmax temperature of the generator's samples."""
    disallow_correct: bool = False
    """Never sample the original token; the other probabilities are renormalised."""

    def __post_init__(self) -> None:
        check_positive(self, ("temperature",), "objective.")


class Replaced(NamedTuple):
    """A batch whose masked tokens are replaced by a generator's samples."""

    mlm: Tensor  # the generator's loss, summed over the slots
    ids: Tensor  # [B, T] the text with the samples inserted
    sampled: Tensor  # [M] the sample at each slot
    top1_correct: Tensor  # [M] bool: the original token is the generator's most probable one

    def observed(self, corrupted: CorruptedBatch) -> dict[str, Tensor]:
        """Returns the entries of `Outcome.observed` that describe the samples."""
        is_correct = self.sampled == corrupted.targets
        return {"top1_correct": self.top1_correct, "sample_correct": is_correct, "sampled": self.sampled}


def replace(
    generator: Generator, corrupted: CorruptedBatch, options: ReplacingOptions, noise_M: Tensor | None = None
) -> Replaced:
    """Computes the generator's loss at the masked slots and inserts its samples there.

    No gradient passes through the samples. Noise tokens (-1: none) take the place of samples at their slots.
    """
    mlm, sampled, top1_correct = vocabulary.loss_and_sample(
        generator,
        corrupted.masked_states(generator),
        corrupted.targets,
        corrupted.uniforms,
        options.temperature,
        disallow_correct=options.disallow_correct,
    )
    if noise_M is not None:
        sampled = torch.where(noise_M < 0, sampled, noise_M)
    return Replaced(mlm, insert_samples(corrupted, sampled), sampled, top1_correct)


def insert_samples(corrupted: CorruptedBatch, sampled_M: Tensor) -> Tensor:
    """Returns the original text [B, T] with `sampled_M` at the masked positions."""
    flat = corrupted.input_ids.flatten().index_copy(0, corrupted.masked_positions, sampled_M)
    return flat.view_as(corrupted.input_ids)


class Noise:
    """Draws replacements for every slot, exactly, by the inverse CDF of unnormalised weights, one above 0."""

    def __init__(self, weights_V: npt.NDArray[Any]) -> None:
        cumulative = np.cumsum(weights_V, dtype=np.float64)  # exact for counts, which are whole numbers
        self.cumulative_V = torch.from_numpy(cumulative)
        self.before_V = torch.from_numpy(np.concatenate([[0.0], cumulative[:-1]]))
        self.last = int(np.flatnonzero(weights_V)[-1])

    def draw(self, uniforms_M: Tensor, excluded_M: Tensor | None = None) -> Tensor:
        """Draws one token per slot [M], by random numbers in [0, 1).

        The token `excluded_M` of each slot is not drawn; the others keep their proportions.
        """
        cumulative, before = self.cumulative_V.to(uniforms_M.device), self.before_V.to(uniforms_M.device)
        excluded_M = None if excluded_M is None else excluded_M.to(uniforms_M.device)
        points = uniforms_M * cumulative[-1]
        if excluded_M is not None:  # draw from the CDF without the excluded token's interval
            interval = cumulative[excluded_M] - before[excluded_M]
            points = uniforms_M * (cumulative[-1] - interval)
            points = torch.where(points >= before[excluded_M], points + interval, points)
        # rounding may step past the end
        return torch.searchsorted(cumulative, points, right=True).clamp_(max=self.last)


@dataclass(frozen=True)
class NoisyOptions(ReplacingOptions):
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

    config: NoisyOptions

    @cached_property
    def frequencies(self) -> Noise:
        """The noise distribution: token frequencies to the power 3/4, without special tokens."""
        assert self.statistics is not None
        weights = self.statistics.counts.astype(np.float64) ** POWER
        weights[list(self.specials.values())] = 0
        return Noise(weights)

    def draw_noise(self, batch: Batch, seed: int) -> Tensor:
        """Returns a noise token for every position of the flattened batch [B x T], or -1 for none."""
        B, T = batch.input_ids.shape
        if not self.config.noise_share:
            return torch.full((B * T,), -1)
        draws = seeds.uniforms(seeds.keys(seed, "noise", 0, batch.examples), 2 * T)
        choice_draws, uniforms = draws[:, :T].reshape(-1), draws[:, T:].reshape(-1)
        drawn = self.frequencies.draw(torch.from_numpy(uniforms))
        return torch.where(torch.from_numpy(choice_draws < self.config.noise_share), drawn, -1)
