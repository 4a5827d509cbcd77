"""Texts made wrong in known places, in several ways, to see which of them a discriminator notices.

Of tokens (the same vocabulary for maker and judge): by a generator, as in training (Clark et al. 2020,
section 3.1), or by random tokens. Of words (judged by any model, each with its own tokens): two neighbours
swapped, or an agreeing form made to disagree. The rule is the paper's: a token is "replaced" when it differs
from what stood there; one that a generator happens to guess is original.
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

FRACTION, MASK_SHARE = (
    0.15,
    0.85,
)  # the paper's: tokens that are drawn anew, and of those how many are hidden from the generator

# One form and the one that disagrees in number or person; both ways.
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
    """Rows of ids with tokens replaced. All lists have one entry a row."""

    rows: list[Ints]
    replaced: list[Bools]
    chosen: list[Bools]  # where a token was drawn anew, whether or not it came out the same
    advantage: list[Floats]  # log p(sample) - log p(truth) by the generator that drew; NaN elsewhere
    log_truth: list[Floats]  # log p(truth) by it; NaN elsewhere


def choose_places(rows: Sequence[Ints], fraction: float, seed: int) -> list[Bools]:
    """A share of each row's positions, at least one, by the training's own rule."""
    keys = seeds.keys(seed, "analysis/mask", 0, np.arange(len(rows)))
    return [
        choose(np.zeros((1, len(row)), bool), seeds.uniforms(key, len(row))[None], fraction)[0]
        for key, row in zip(keys, rows, strict=True)
    ]


def by_generator(
    generator: Loaded, rows: Sequence[Ints], *, fraction: float = FRACTION, seed: int = 0
) -> Corrupted:
    """Replace tokens by the generator's samples."""
    chosen = choose_places(rows, fraction, seed)
    keys = seeds.keys(seed, "analysis/hide", 0, np.arange(len(rows)))
    mask = generator.tokenizer.specials.mask
    shown = [
        np.where(places & (seeds.uniforms(key, len(row)) < MASK_SHARE), mask, row)
        for key, row, places in zip(keys, rows, chosen, strict=True)
    ]
    new, advantage, log_truth = [], [], []
    for row, places, found in zip(
        rows, chosen, token_rows.predict(generator, rows, shown, chosen, seed=seed), strict=True
    ):
        changed, gain, truth = row.copy(), np.full(len(row), np.nan), np.full(len(row), np.nan)
        changed[places], gain[places], truth[places] = (
            found.sampled,
            found.log_sampled - found.log_truth,
            found.log_truth,
        )
        new.append(changed)
        advantage.append(gain)
        log_truth.append(truth)
    return _labelled(rows, new, chosen, advantage, log_truth)


def by_frequency(
    rows: Sequence[Ints], frequency: Floats, *, fraction: float = FRACTION, seed: int = 0
) -> Corrupted:
    """Replace tokens by draws in proportion to `frequency` [V], such as ones over the ordinary tokens."""
    chosen = choose_places(rows, fraction, seed)
    cumulative = np.cumsum(frequency)
    keys = seeds.keys(seed, "analysis/draw", 0, np.arange(len(rows)))
    new = []
    for key, row, places in zip(keys, rows, chosen, strict=True):
        drawn = np.searchsorted(cumulative, seeds.uniforms(key, len(row)) * cumulative[-1], side="right")
        new.append(np.where(places, drawn, row))
    nothing = [np.full(len(row), np.nan) for row in rows]
    return _labelled(rows, new, chosen, nothing, nothing)


def swap_words(words: Sequence[str], key: int, fraction: float = FRACTION) -> tuple[list[str], Bools]:
    """Swap neighbours, so that about `fraction` of the words, both of each pair, stand in a wrong place."""
    swapped, wrong = list(words), np.zeros(len(words), bool)
    pairs = [
        i
        for i in range(len(words) - 1)
        if words[i].isalnum() and words[i + 1].isalnum() and words[i].lower() != words[i + 1].lower()
    ]
    wanted = max(1, round(fraction * len(words) / 2))
    for index in np.argsort(seeds.uniforms(key, len(pairs)), kind="stable"):
        place = pairs[index]
        if wanted and not wrong[place : place + 2].any():
            swapped[place], swapped[place + 1] = words[place + 1], words[place]
            wrong[place : place + 2] = True
            wanted -= 1
    return swapped, wrong


def break_agreement(words: Sequence[str], key: int) -> tuple[list[str], Bools]:
    """Turn one form of the sentence (is, was, has, does, this, ...) into its counterpart, if there is one."""
    places = [i for i, word in enumerate(words) if word.lower() in AGREEMENT]
    broken, wrong = list(words), np.zeros(len(words), bool)
    if places:
        place = places[int(seeds.uniforms(key, 1)[0] * len(places))]
        other = AGREEMENT[words[place].lower()]
        broken[place] = other.capitalize() if words[place][:1].isupper() else other
        wrong[place] = True
    return broken, wrong


def _labelled(
    rows: Sequence[Ints],
    new: list[Ints],
    chosen: list[Bools],
    advantage: list[Floats],
    log_truth: list[Floats],
) -> Corrupted:
    return Corrupted(new, [a != b for a, b in zip(new, rows, strict=True)], chosen, advantage, log_truth)
