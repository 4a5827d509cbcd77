"""Choosing the positions to mask, and what stands there instead (paper section 3.1; BERT's split between
mask, random and kept).

Departure from the published code: positions are drawn without replacement, so exactly the asked share is
masked, and never a special token. Everything here is numpy on the host, drawn from keys of the examples:
nothing depends on batch layout or device. Shapes: B rows, T positions, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from electra.data.batches import Batch
from electra.foundation import seeds
from electra.foundation.arrays import Bools, Floats, Ints
from electra.foundation.config import option, share
from electra.objectives.parts.interface import Corrupted, Objective

RARITY_EXPONENT = 0.5  # Lample & Conneau 2019 (XLM), section 3.3: weight 1 / sqrt(frequency)
# SpanBERT: lengths from Geometric(0.2), renormalised over 1 ... 10: mean 3.8
LONGEST_SPAN, SPAN_STOP = (
    10,
    0.2,
)
_LENGTHS = SPAN_STOP * (1 - SPAN_STOP) ** np.arange(LONGEST_SPAN)
SPAN_LENGTHS = np.cumsum(_LENGTHS / _LENGTHS.sum())


@dataclass(frozen=True)
class Options:
    """What the `Config` of an objective that masks begins with."""

    mask_fraction: float = share(0.15)
    """Share of each row's ordinary tokens that is masked."""
    final_mask_fraction: float | None = share(None)
    """Where the mask rate ends when it moves linearly over the training (default: constant)."""
    mask_share: float = share(0.85)
    """Of the masked positions, the share that shows [MASK]; the rest shows the token as it is."""
    masking: Literal["uniform", "frequency", "whole_word", "span"] = option("uniform", evaluated="uniform")
    """uniform; frequency: rare tokens more often; whole_word: all pieces of a word or none; span: runs of 1
    to 10 tokens.
    """


def mask_for(
    objective: Objective,
    batch: Batch,
    seed: int,
    progress: float,
    *,
    counted: dict[str, bool],
    random_share: float = 0.0,
) -> Corrupted:
    """Corrupt a batch as the objective's `Options` say. `counted` as in `mask_batch`."""
    options = objective.config
    fraction = scheduled(options.mask_fraction, options.final_mask_fraction, progress)
    return mask_batch(
        batch,
        seed,
        fraction=fraction,
        mask_share=options.mask_share,
        random_share=random_share,
        mask_id=objective.specials["mask"],
        vocab_size=objective.vocab_size,
        special_ids=list(objective.specials.values()),
        counted=counted,
        chosen=None
        if options.masking == "uniform"
        else choose_by(options.masking, objective, batch, seed, fraction),
    )


def mask_batch(
    batch: Batch,
    seed: int,
    *,
    fraction: float,
    mask_share: float,
    random_share: float,
    mask_id: int,
    vocab_size: int,
    special_ids: list[int],
    counted: dict[str, bool],
    chosen: Bools | None = None,
) -> Corrupted:
    """Corrupt a batch for a masked language model.

    Of the chosen positions, `mask_share` show [MASK], `random_share` a uniformly random ordinary token, the
    rest what they are. `counted` names the losses: True for one term a masked slot, False for one term a real
    token. `chosen` [B, T]: the positions, when another scheme than the uniform one has chosen them.
    """
    T = batch.input_ids.shape[1]
    uniforms = seeds.uniforms(_keys(seed, "mask", batch), 2 * T)
    if chosen is None:
        chosen = choose(batch.special, uniforms[:, :T], fraction)
    kind = uniforms[:, T:]
    masked_ids = np.where(chosen & (kind < mask_share), mask_id, batch.input_ids)
    if random_share > 0:
        ordinary = np.setdiff1d(np.arange(vocab_size), special_ids)
        draws = seeds.uniforms(_keys(seed, "random-token", batch), T)
        random_ids = ordinary[(draws * len(ordinary)).astype(np.int64)]
        masked_ids = np.where(
            chosen & (kind >= mask_share) & (kind < mask_share + random_share), random_ids, masked_ids
        )
    positions = np.flatnonzero(chosen)
    sample_uniforms = seeds.uniforms(_keys(seed, "sample", batch), T)
    num_real = int((batch.piece_ids >= 0).sum())
    return Corrupted(
        input_ids=torch.from_numpy(batch.input_ids),
        masked_ids=torch.from_numpy(masked_ids),
        masked_positions=torch.from_numpy(positions),
        targets=torch.from_numpy(batch.input_ids.reshape(-1)[positions]),
        uniforms=torch.from_numpy(sample_uniforms.reshape(-1)[positions]),
        position_ids=torch.from_numpy(batch.position_ids) if batch.packed else None,
        piece_ids=torch.from_numpy(batch.piece_ids) if batch.packed else None,
        counts={name: len(positions) if at_masked else num_real for name, at_masked in counted.items()},
    )


def scheduled(start: float, final: float | None, progress: float) -> float:
    """A rate that moves linearly from `start` to `final` (None: stays)."""
    return start if final is None else start + (final - start) * min(max(progress, 0.0), 1.0)


def budget(special: Bools, fraction: float) -> Ints:
    """Masked positions per row [B]: round(fraction x candidates), at least one if there is a candidate."""
    num_candidates: Ints = (~special).sum(axis=1)
    wanted: Ints = np.rint(num_candidates * fraction).astype(np.int64)
    return wanted.clip(1, None).clip(None, num_candidates)


def choose(special: Bools, scores: Floats, fraction: float) -> Bools:
    """Mark each row's budget of ordinary positions, those with the lowest scores. Shapes [B, T]."""
    order = np.argsort(np.where(special, np.inf, scores), axis=1, kind="stable")
    chosen = np.zeros_like(special)
    np.put_along_axis(chosen, order, np.arange(special.shape[1]) < budget(special, fraction)[:, None], axis=1)
    return chosen


def choose_by(scheme: str, objective: Objective, batch: Batch, seed: int, fraction: float) -> Bools:
    """The positions that a scheme other than the uniform one masks [B, T]."""
    uniforms = seeds.uniforms(_keys(seed, f"mask/{scheme}", batch), 2 * batch.input_ids.shape[1])
    scores, lengths = np.split(uniforms, 2, axis=1)
    if scheme == "span":
        return choose_spans(batch.special, scores, lengths, fraction)
    assert objective.statistics is not None
    if scheme == "whole_word":
        return choose_words(batch.special, objective.statistics.continues[batch.input_ids], scores, fraction)
    return choose_rare(batch.special, objective.statistics.counts[batch.input_ids], scores, fraction)


def choose_rare(special: Bools, counts: npt.NDArray[Any], scores: Floats, fraction: float) -> Bools:
    """Draw positions one after another without replacement, each with weight 1 / sqrt(how often its token
    occurs).

    Masking rarer tokens more often is among the negative results in the paper's appendix; the weights are
    XLM's. The draw is the exponential race of Efraimidis and Spirakis (2006): the first arrivals are such a
    sample, of exactly the budget's size.
    """
    weights = (counts + 1.0) ** -RARITY_EXPONENT  # held-out text may hold tokens that the training text lacks
    return choose(special, -np.log1p(-scores) / weights, fraction)


def choose_words(special: Bools, continues: Bools, scores: Floats, fraction: float) -> Bools:
    """All tokens of a word or none (BERT's whole-word masking): words in random order, each if the budget
    still has room for it.

    What no word fits into stays unused. A row whose every word is longer than its budget masks the first
    drawn.
    """
    after_special = np.pad(special[:, :-1], ((0, 0), (1, 0)), constant_values=True)
    begins = ~special & (~continues | after_special)
    word = np.where(special, -1, np.cumsum(begins, axis=1) - 1)
    chosen = np.zeros_like(special)
    for row, room in enumerate(budget(special, fraction)):
        starts = np.flatnonzero(begins[row])
        sizes = np.bincount(word[row][~special[row]], minlength=len(starts))
        drawn = np.argsort(scores[row, starts], kind="stable")
        none_fits = len(sizes) > 0 and sizes.min() > room
        chosen[row] = np.isin(word[row], drawn[:1] if none_fits else _fill(drawn, sizes, int(room)))
    return chosen


def choose_spans(special: Bools, scores: Floats, lengths: Floats, fraction: float) -> Bools:
    """Runs of tokens whose lengths follow a geometric distribution of 1 to 10 (SpanBERT, Joshi et al. 2020,
    section 3.1).

    Starts come in random order; a span ends early at a special token, at a masked one, or where the budget
    ends, which so is met exactly. Departure: spans of tokens, where SpanBERT takes whole words, so that every
    tokenizer will do.
    """
    sizes = np.searchsorted(SPAN_LENGTHS, lengths, side="right").clip(max=LONGEST_SPAN - 1) + 1
    chosen = np.zeros_like(special)
    for row, room in enumerate(budget(special, fraction)):
        free, left = ~special[row], int(room)
        for start in np.argsort(scores[row], kind="stable"):
            if not free[start]:
                continue
            taken = free[start : start + min(int(sizes[row, start]), left)]
            length = len(taken) if taken.all() else int(taken.argmin())
            chosen[row, start : start + length], free[start : start + length] = True, False
            left -= length
            if left == 0:
                break
    return chosen


def _fill(drawn: Ints, sizes: Ints, room: int) -> list[int]:
    taken: list[int] = []
    for item in drawn:
        if sizes[item] <= room:
            taken.append(int(item))
            room -= int(sizes[item])
        if room == 0:
            break
    return taken


def _keys(seed: int, stream: str, batch: Batch) -> seeds.UInt64:
    return seeds.keys(seed, stream, 0, batch.examples)
