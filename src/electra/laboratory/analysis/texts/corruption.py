"""Texts corrupted at known positions in several ways, to see which a discriminator notices.

Tokens are replaced by a generator's samples, as in training (Clark et al. 2020, section 3.1), or by random
tokens, if the models share a vocabulary. Words are swapped with their neighbours, or a form is made to
disagree; this works for any models, each with its own tokens. As in the paper, a token counts as replaced if
it differs from the original; a sample that equals the original counts as original.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

# Pairs of forms that disagree in number or person.
_PAIRS = (
    "is are",
    "was were",
    "has have",
    "does do",
    "this these",
    "that those",
    "isn't aren't",
    "wasn't weren't",
    "itself themselves",
)
AGREEMENT: Mapping[str, str] = {
    a: b for pair in _PAIRS for x, y in [pair.split()] for a, b in ((x, y), (y, x))
}


@dataclass(frozen=True)
class Corrupted:
    """Rows of ids with tokens replaced. All lists have one array [tokens] for each row."""

    rows: list[Ints]
    replaced: list[Bools]
    chosen: list[Bools]
    """Where a token was resampled, even if the sample equals the original."""
    advantage: list[Floats]
    """Log p(sample) - log p(original) by the generator that sampled; NaN elsewhere."""


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
    return _labelled(rows, new_rows, chosen_masks, advantage)


def by_frequency(
    rows: Sequence[Ints], frequency: Floats, *, fraction: float = FRACTION, seed: int = 0
) -> Corrupted:
    """Returns the rows with a random share of their tokens replaced by draws from the vocabulary.

    A token is drawn in proportion to its `frequency` [V].
    """
    chosen_masks = choose_positions(rows, fraction, seed)
    cumulative = np.cumsum(frequency)
    keys = seeds.keys(seed, "analysis/draw", 0, np.arange(len(rows)))
    new_rows = []
    for key, row, is_chosen in zip(keys, rows, chosen_masks, strict=True):
        drawn_ids = np.searchsorted(cumulative, seeds.uniforms(key, len(row)) * cumulative[-1], side="right")
        new_rows.append(np.where(is_chosen, drawn_ids, row))
    no_advantage = [np.full(len(row), np.nan) for row in rows]
    return _labelled(rows, new_rows, chosen_masks, no_advantage)


def swap_words(words: Sequence[str], key: int, fraction: float = FRACTION) -> tuple[list[str], Bools]:
    """Swaps random neighbours, at least one pair if possible, until about `fraction` of the words have moved.

    `key` seeds the choice. Returns the words and a mask of those that have moved.
    """
    new_words, is_wrong = list(words), np.zeros(len(words), bool)
    starts = [
        i
        for i in range(len(words) - 1)
        if words[i].isalnum() and words[i + 1].isalnum() and words[i].lower() != words[i + 1].lower()
    ]
    swaps_left = max(1, round(fraction * len(words) / 2))
    for index in np.argsort(seeds.uniforms(key, len(starts)), kind="stable"):
        position = starts[index]
        if swaps_left and not is_wrong[position : position + 2].any():
            new_words[position], new_words[position + 1] = words[position + 1], words[position]
            is_wrong[position : position + 2] = True
            swaps_left -= 1
    return new_words, is_wrong


def break_agreement(words: Sequence[str], key: int) -> tuple[list[str], Bools]:
    """Replaces a random one of the forms in `AGREEMENT` with its counterpart, if there is any.

    `key` seeds the choice. Returns the words and a mask of the one replaced.
    """
    positions = [i for i, word in enumerate(words) if word.lower() in AGREEMENT]
    new_words, is_wrong = list(words), np.zeros(len(words), bool)
    if positions:
        position = positions[int(seeds.uniforms(key, 1)[0] * len(positions))]
        counterpart = AGREEMENT[words[position].lower()]
        new_words[position] = counterpart.capitalize() if words[position][:1].isupper() else counterpart
        is_wrong[position] = True
    return new_words, is_wrong


def _labelled(
    rows: Sequence[Ints], new: list[Ints], chosen: list[Bools], advantage: list[Floats]
) -> Corrupted:
    return Corrupted(new, [a != b for a, b in zip(new, rows, strict=True)], chosen, advantage)
