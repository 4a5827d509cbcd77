"""Recognisers' n-best lists: scores and errors of every hypothesis, and the weights that make a second score
useful.

A hypothesis is chosen by  acoustic + weight * sentence score + bonus * words  (log-linear, as Shin et al.
2019 and Salazar et al. 2020 re-rank with masked language models). The two weights are tuned on one half of
the utterances and judged on the other, both ways. Shapes: U utterances, N hypotheses of the longest list;
shorter lists are padded and never chosen there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from electra.foundation.arrays import Bools, Floats, Ints
from electra.laboratory.analysis.measures.bootstrap import halves
from electra.laboratory.analysis.measures.word_errors import word_errors

# The grid, in units of the acoustic scores' spread within a list: a score's weight, none first, and a word's
# bonus.
WEIGHTS = (0.0, *(float(weight) for weight in np.geomspace(0.02, 5.0, 25)))
BONUSES = (0.0, *(float(sign * bonus) for bonus in np.geomspace(0.02, 1.0, 8) for sign in (1, -1)))


@dataclass(frozen=True)
class Lists:
    """What choosing needs to know of U lists."""

    errors: Ints  # [U, N]
    words: Ints  # [U, N] in the hypothesis
    reference_words: Ints  # [U]
    present: Bools  # [U, N]; False where a list is shorter

    def chosen_errors(self, totals: Floats) -> Floats:
        """The errors [U] of the hypothesis with the highest total; of equals the mean, not the first."""
        totals = np.where(self.present, totals, -np.inf)
        best = totals == totals.max(1, keepdims=True)
        return np.asarray((best * self.errors).sum(1) / best.sum(1))

    def oracle_errors(self) -> Floats:
        return np.asarray(np.where(self.present, self.errors, np.inf).min(1))

    def average_errors(self) -> Floats:
        """What a hypothesis drawn at random is expected to have: chance."""
        return np.asarray(np.where(self.present, self.errors, 0).sum(1) / self.present.sum(1))


def lists_of(utterances: Sequence[tuple[str, Sequence[str]]]) -> Lists:
    """From each utterance's reference and hypotheses, which white space divides into words."""
    references = [reference.split() for reference, _ in utterances]
    hypotheses = [[text.split() for text in texts] for _, texts in utterances]
    errors = [word_errors(reference, found) for reference, found in zip(references, hypotheses, strict=True)]
    return Lists(
        errors=pad(errors).astype(np.int64),
        words=pad([[len(words) for words in found] for found in hypotheses]).astype(np.int64),
        reference_words=np.array([len(reference) for reference in references], np.int64),
        present=pad([[1.0] * len(found) for found in hypotheses]) > 0,
    )


@dataclass(frozen=True)
class Weights:
    score: float  # of one unit of the sentence score
    word: float  # of one word


def own_mix(scores: dict[str, Floats], total: str = "score") -> dict[str, float]:
    """The weights by which the recogniser itself added its `scores` [n] up to its total: least squares."""
    names = [name for name in scores if name != total]
    found = np.linalg.lstsq(np.stack([scores[name] for name in names], 1), scores[total], rcond=None)[0]
    return dict(zip(names, map(float, found), strict=True))


def spread(values: Floats, present: Bools) -> float:
    """The standard deviation within lists, which is all that choosing within a list can see."""
    counts = present.sum(1, keepdims=True)
    kept = np.where(present, values, 0.0)
    centred = np.where(present, kept - kept.sum(1, keepdims=True) / counts, 0.0)
    freedom = int(counts.sum()) - len(counts)
    return float(np.sqrt((centred**2).sum() / freedom)) if freedom else 0.0


def tune(lists: Lists, acoustic: Floats, score: Floats | None, half: Bools) -> Weights:
    """The weights with the fewest word errors on the utterances of `half`; of equals the smallest."""
    tuned = Lists(lists.errors[half], lists.words[half], lists.reference_words[half], lists.present[half])
    unit = spread(acoustic[half], tuned.present)
    scale = spread(score[half], tuned.present) if score is not None else 0.0
    weights = [weight * unit / scale for weight in WEIGHTS] if scale > 0 else [0.0]
    bonuses = [bonus * unit for bonus in BONUSES]
    grid = [(weight, bonus) for weight in weights for bonus in bonuses]
    errors = [
        float(tuned.chosen_errors(_totals(acoustic, score, lists, Weights(*point))[half]).sum())
        for point in grid
    ]
    order = sorted(range(len(grid)), key=lambda i: (round(errors[i], 6), grid[i][0], abs(grid[i][1])))
    return Weights(*grid[order[0]])


def judge_both_ways(
    lists: Lists, acoustic: Floats, score: Floats | None
) -> tuple[Floats, tuple[Weights, Weights]]:
    """The errors [U] of each utterance's choice under weights tuned on the other half, and both weights."""
    first = halves(np.arange(len(lists.errors)))
    errors = np.zeros(len(first))
    found = []
    for half in (first, ~first):
        weights = tune(lists, acoustic, score, half)
        errors[~half] = lists.chosen_errors(_totals(acoustic, score, lists, weights))[~half]
        found.append(weights)
    return errors, (found[0], found[1])


def _totals(acoustic: Floats, score: Floats | None, lists: Lists, weights: Weights) -> Floats:
    total = acoustic + weights.word * lists.words
    return total if score is None or weights.score == 0 else total + weights.score * score


def pad(rows: Sequence[npt.ArrayLike]) -> Floats:
    """Rows of different lengths as [U, N], filled up with zeros."""
    arrays = [np.asarray(row, np.float64) for row in rows]
    out = np.zeros((len(arrays), max(map(len, arrays))))
    for padded, row in zip(out, arrays, strict=True):
        padded[: len(row)] = row
    return out
