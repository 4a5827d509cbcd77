"""Chooses the positions to mask and what they show (Clark et al. 2020, section 3.1).

As in BERT, a masked position shows [MASK], a random token or the original one. Departure from the published
code: positions are drawn without replacement, so the masked fraction is exact, and special tokens are never
masked. All of this happens on the host, and random numbers are drawn from keys of the examples, so nothing
depends on batch layout or device. Shapes: B rows, T positions, V vocabulary.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from typing_extensions import override

from electra.data.corpus.batches import Batch
from electra.foundation import seeds
from electra.foundation.arrays import Bools, Floats, Ints
from electra.foundation.config import option, share
from electra.objectives.parts.interface import CorruptedBatch, Objective

RARITY_EXPONENT = 0.5  # Lample & Conneau 2019 (XLM), section 3.3: weight 1 / sqrt(frequency)


@dataclass(frozen=True)
class MaskingOptions:
    """Base class of the `Config` of an objective that masks tokens."""

    mask_fraction: float = share(0.15)
    """Fraction of each row's non-special tokens to mask."""
    final_mask_fraction: float | None = share(None)
    """Mask fraction at the end of training, if it changes linearly (default: constant)."""
    mask_share: float = share(0.85)
    """Fraction of the masked positions that show [MASK]; the rest keep the original token."""
    masking: Literal["uniform", "frequency"] = option("uniform", evaluated="uniform")
    """How positions are chosen. uniform: at random; frequency: rare tokens more often."""


class MaskingObjective(Objective):
    """Base class of the objectives that mask tokens; their `Config` extends `MaskingOptions`."""

    token_losses: Collection[str] = ("rtd",)  # with a term per real token; the others: per masked slot

    @override
    def corrupt(self, batch: Batch, seed: int, progress: float) -> CorruptedBatch:
        options = self.config
        fraction, chosen = scheduled(options.mask_fraction, options.final_mask_fraction, progress), None
        if options.masking == "frequency":
            assert self.statistics is not None
            scores = seeds.uniforms(_keys(seed, "mask/frequency", batch), batch.input_ids.shape[1])
            chosen = choose_rare(batch.special, self.statistics.counts[batch.input_ids], scores, fraction)
        return mask_batch(
            self,
            batch,
            seed,
            fraction=fraction,
            mask_share=options.mask_share,
            random_share=getattr(options, "random_share", 0.0),
            counted={name: name not in self.token_losses for name in self.weights},
            chosen=chosen,
        )


def mask_batch(
    objective: Objective,
    batch: Batch,
    seed: int,
    *,
    fraction: float,
    mask_share: float = 0.0,
    random_share: float = 0.0,
    counted: dict[str, bool],
    chosen: Bools | None = None,
) -> CorruptedBatch:
    """Corrupts a batch for a masked language model with the vocabulary of `objective`, by the run's seed.

    A `fraction` of the non-special tokens is masked, or the positions `chosen` [B, T]. Of these, `mask_share`
    show [MASK], `random_share` a uniformly random non-special token, and the others the original token.
    `counted` says for each loss whether it has one term per masked slot (True) or per real token (False).
    """
    T = batch.input_ids.shape[1]
    uniforms = seeds.uniforms(_keys(seed, "mask", batch), 2 * T)
    if chosen is None:
        chosen = choose(batch.special, uniforms[:, :T], fraction)
    show_draws = uniforms[:, T:]
    masked_ids = np.where(chosen & (show_draws < mask_share), objective.specials["mask"], batch.input_ids)
    if random_share > 0:
        ordinary_ids = np.setdiff1d(np.arange(objective.vocab_size), list(objective.specials.values()))
        draws = seeds.uniforms(_keys(seed, "random-token", batch), T)
        random_ids = ordinary_ids[(draws * len(ordinary_ids)).astype(np.int64)]
        is_random = chosen & (show_draws >= mask_share) & (show_draws < mask_share + random_share)
        masked_ids = np.where(is_random, random_ids, masked_ids)
    positions = np.flatnonzero(chosen)
    sample_uniforms = seeds.uniforms(_keys(seed, "sample", batch), T)
    num_real = int((batch.document_ids >= 0).sum())
    return CorruptedBatch(
        input_ids=torch.from_numpy(batch.input_ids),
        masked_ids=torch.from_numpy(masked_ids),
        masked_positions=torch.from_numpy(positions),
        targets=torch.from_numpy(batch.input_ids.reshape(-1)[positions]),
        uniforms=torch.from_numpy(sample_uniforms.reshape(-1)[positions]),
        position_ids=torch.from_numpy(batch.position_ids) if batch.packed else None,
        document_ids=torch.from_numpy(batch.document_ids) if batch.packed else None,
        counts={name: len(positions) if at_masked else num_real for name, at_masked in counted.items()},
    )


def scheduled(start: float, final: float | None, progress: float) -> float:
    """Returns a rate that changes linearly from `start` to `final` (None: constant) over the training."""
    return start if final is None else start + (final - start) * min(max(progress, 0.0), 1.0)


def num_masked(special: Bools, fraction: float) -> Ints:
    """Returns the number of positions to mask in each row [B].

    It is round(fraction x candidates), where candidates are the non-special tokens, but at least 1 if there
    are any.
    """
    num_candidates: Ints = (~special).sum(axis=1)
    rounded: Ints = np.rint(num_candidates * fraction).astype(np.int64)
    return rounded.clip(1, None).clip(None, num_candidates)


def choose(special: Bools, scores: Floats, fraction: float) -> Bools:
    """Returns bool [B, T]: True at the `num_masked` non-special positions with the lowest scores per row."""
    order = np.argsort(np.where(special, np.inf, scores), axis=1, kind="stable")
    chosen = np.zeros_like(special)
    is_first = np.arange(special.shape[1]) < num_masked(special, fraction)[:, None]
    np.put_along_axis(chosen, order, is_first, axis=1)
    return chosen


def choose_rare(special: Bools, counts: npt.NDArray[Any], scores: Floats, fraction: float) -> Bools:
    """Draws positions without replacement, each with weight 1 / sqrt(frequency of its token).

    The paper's appendix reports masking rare tokens more often as a negative result; the weights are XLM's
    (Lample & Conneau 2019, section 3.3). The draw is the exponential race of Efraimidis and Spirakis (2006):
    the earliest arrivals are a weighted sample without replacement.
    """
    weights = (counts + 1.0) ** -RARITY_EXPONENT  # + 1: held-out text may contain unseen tokens
    return choose(special, -np.log1p(-scores) / weights, fraction)


def _keys(seed: int, stream: str, batch: Batch) -> seeds.UInt64:
    return seeds.keys(seed, stream, 0, batch.examples)
