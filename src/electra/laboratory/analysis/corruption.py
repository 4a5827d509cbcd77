"""Rows of token ids corrupted at known positions.

Tokens are replaced by a generator's samples, as in training (Clark et al. 2020, section 3.1), or by random
tokens. As in the paper, a token counts as replaced if it differs from the original; a sample that equals the
original counts as original.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from electra.foundation import seeds
from electra.foundation.arrays import Bools, Floats, Ints
from electra.laboratory.analysis.scoring import token_rows
from electra.objectives.parts.masking import choose

if TYPE_CHECKING:
    from electra.exchange.load import Loaded

# The paper's shares: tokens that are resampled, and those of them that the generator reads as [MASK].
FRACTION, MASK_SHARE = 0.15, 0.85


@dataclass(frozen=True)
class Corrupted:
    """Rows of ids with tokens replaced. All lists have one array [tokens] for each row."""

    rows: list[Ints]
    replaced: list[Bools]
    advantage: list[Floats]
    """Log p(sample) - log p(original) by the generator that sampled; NaN elsewhere."""

    @property
    def row_of_token(self) -> Ints:
        """The index of each token's row, over the tokens of all rows."""
        return np.repeat(np.arange(len(self.rows)), [len(row) for row in self.rows])


def choose_positions(rows: Sequence[Ints], fraction: float, seed: int) -> list[Bools]:
    """Returns masks of a share of each row's positions (at least one), chosen as in training."""
    keys = seeds.keys(seed, "analysis/mask", 0, np.arange(len(rows)))
    return [
        choose(np.zeros((1, len(row)), bool), seeds.uniforms(key, len(row))[None], fraction)[0]
        for key, row in zip(keys, rows, strict=True)
    ]


def by_generator(
    generator: Loaded, rows: Sequence[Ints], *, fraction: float = FRACTION, seed: int = 0
) -> Corrupted:
    """Returns the rows with a random share of their tokens replaced by the generator's samples."""
    chosen_masks = choose_positions(rows, fraction, seed)
    keys = seeds.keys(seed, "analysis/hide", 0, np.arange(len(rows)))
    mask = generator.tokenizer.specials.mask
    shown_rows = [
        np.where(is_chosen & (seeds.uniforms(key, len(row)) < MASK_SHARE), mask, row)
        for key, row, is_chosen in zip(keys, rows, chosen_masks, strict=True)
    ]
    predictions = token_rows.predict(generator, rows, shown_rows, chosen_masks, seed=seed)
    new_rows, advantage = [row.copy() for row in rows], [np.full(len(row), np.nan) for row in rows]
    for row, gain, is_chosen, predicted in zip(new_rows, advantage, chosen_masks, predictions, strict=True):
        row[is_chosen] = predicted.sampled
        gain[is_chosen] = predicted.log_sampled - predicted.log_truth
    return Corrupted(new_rows, [a != b for a, b in zip(new_rows, rows, strict=True)], advantage)


def by_frequency(
    rows: Sequence[Ints], frequency: Floats, *, fraction: float = FRACTION, seed: int = 0
) -> Corrupted:
    """Returns the rows with a random share of their tokens replaced by draws from the vocabulary.

    A token is drawn in proportion to its `frequency` [V].
    """
    cumulative = np.cumsum(frequency)
    keys = seeds.keys(seed, "analysis/draw", 0, np.arange(len(rows)))
    new_rows = []
    for key, row, is_chosen in zip(keys, rows, choose_positions(rows, fraction, seed), strict=True):
        drawn_ids = np.searchsorted(cumulative, seeds.uniforms(key, len(row)) * cumulative[-1], side="right")
        new_rows.append(np.where(is_chosen, drawn_ids, row))
    replaced = [a != b for a, b in zip(new_rows, rows, strict=True)]
    return Corrupted(new_rows, replaced, [np.full(len(row), np.nan) for row in rows])
