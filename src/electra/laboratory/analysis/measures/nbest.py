"""N-best lists of speech recognisers: scores and errors of every hypothesis, and weights to combine scores.

A hypothesis is chosen by

    acoustic + weight * sentence score + bonus * words

(a log-linear combination, as in Shin et al. 2019 and Salazar et al. 2020 with masked language models). Weight
and bonus are tuned on one half of the utterances and tested on the other, in both directions. Shapes: U
utterances, N hypotheses in the longest list; shorter lists are padded, and padding is never chosen.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from electra.foundation.arrays import Bools, Floats, Ints
from electra.laboratory.analysis.measures.bootstrap import halves

# Grids. Bonuses are in units of the acoustic scores' spread within lists; weights apply to sentence scores
# rescaled to that spread.
WEIGHTS = (0.0, *(float(weight) for weight in np.geomspace(0.02, 5.0, 25)))
BONUSES = (0.0, *(float(sign * bonus) for bonus in np.geomspace(0.02, 1.0, 8) for sign in (1, -1)))


class Weights(NamedTuple):
    """The weight of the sentence score, and the bonus for each word of the hypothesis."""

    score: float
    word_bonus: float


@dataclass(frozen=True)
class NBestLists:
    """The numbers of errors and words in U lists."""

    errors: Ints  # [U, N] number of word errors of each hypothesis
    words: Ints  # [U, N] number of words of each hypothesis
    reference_words: Ints  # [U]
    present: Bools  # [U, N]; False where a list is shorter

    def chosen_errors(self, totals: Floats) -> Floats:
        """Returns the errors [U] of the hypotheses with the highest `totals` [U, N]; the mean over ties."""
        totals = np.where(self.present, totals, -np.inf)
        best = totals == totals.max(1, keepdims=True)
        return np.asarray((best * self.errors).sum(1) / best.sum(1))

    def oracle_errors(self) -> Floats:
        """Returns the errors [U] of the best hypothesis of each list."""
        return np.asarray(np.where(self.present, self.errors, np.inf).min(1))


def make_lists(utterances: Sequence[tuple[str, Sequence[str]]]) -> NBestLists:
    """Returns the error and word counts of utterances, given as (reference, hypotheses).

    Texts are split at white space. Needs at least one utterance, and at least one hypothesis for each.
    """
    references = [reference.split() for reference, _ in utterances]
    hypotheses = [[text.split() for text in texts] for _, texts in utterances]
    errors = [word_errors(reference, texts) for reference, texts in zip(references, hypotheses, strict=True)]
    return NBestLists(
        errors=pad(errors).astype(np.int64),
        words=pad([[len(words) for words in texts] for texts in hypotheses]).astype(np.int64),
        reference_words=np.array([len(reference) for reference in references], np.int64),
        present=pad([[1.0] * len(texts) for texts in hypotheses]) > 0,
    )


def word_errors(reference: Sequence[str], hypotheses: Sequence[Sequence[str]]) -> Ints:
    """Returns the edit distance in words (Levenshtein 1966) from the reference to each hypothesis: [N].

    All hypotheses are compared at once, with one row of the table for each reference word. Within a row,
    insertions run from left to right: cell[j] = min over k <= j of cell[k] + (j - k), which is a running
    minimum once j is subtracted.
    """
    lengths = np.array([len(hypothesis) for hypothesis in hypotheses], np.int64)
    index = {word: i for i, word in enumerate(dict.fromkeys(reference))}
    word_index = np.full((len(hypotheses), int(lengths.max(initial=0))), -1)
    for row, hypothesis in enumerate(hypotheses):
        word_index[row, : len(hypothesis)] = [index.get(word, -1) for word in hypothesis]
    columns = np.arange(word_index.shape[1] + 1)
    costs = np.tile(columns, (len(hypotheses), 1))
    for word in reference:
        best = costs + 1  # delete the reference's word
        best[:, 1:] = np.minimum(best[:, 1:], costs[:, :-1] + (word_index != index[word]))  # or substitute it
        costs = np.minimum.accumulate(best - columns, axis=1) + columns
    return costs[np.arange(len(hypotheses)), lengths].astype(np.int64)


def recogniser_weights(scores: dict[str, Floats], total: str = "score") -> dict[str, float]:
    """Returns, by least squares, the weight with which the recogniser combined each score into its `total`.

    `scores` holds values [hypotheses] by name, the total included.
    """
    names = [name for name in scores if name != total]
    weights = np.linalg.lstsq(np.stack([scores[name] for name in names], 1), scores[total], rcond=None)[0]
    return dict(zip(names, map(float, weights), strict=True))


def spread_within_lists(values: Floats, present: Bools) -> float:
    """Returns the pooled standard deviation within lists; 0 if no list has two hypotheses."""
    lists = np.ma.array(values, mask=~present)
    degrees_of_freedom = lists.count() - len(lists)
    squares = ((lists - lists.mean(1, keepdims=True)) ** 2).sum()
    return float(np.sqrt(squares / degrees_of_freedom)) if degrees_of_freedom else 0.0


def tune(lists: NBestLists, acoustic: Floats, score: Floats | None, half: Bools) -> Weights:
    """Returns the weights (without `score`, the bonus) with fewest errors on `half`; the smallest if tied."""
    present = lists.present[half]
    acoustic_spread = spread_within_lists(acoustic[half], present)
    score_spread = 0.0 if score is None else spread_within_lists(score[half], present)
    weights = [weight * acoustic_spread / score_spread for weight in WEIGHTS] if score_spread > 0 else [0.0]
    grid = [Weights(weight, bonus * acoustic_spread) for weight in weights for bonus in BONUSES]

    def rank(point: Weights) -> tuple[float, float, float]:
        errors = lists.chosen_errors(_totals(acoustic, score, lists, point))[half].sum()
        return round(float(errors), 6), point.score, abs(point.word_bonus)

    return min(grid, key=rank)


def cross_validated_errors(
    lists: NBestLists, acoustic: Floats, score: Floats | None
) -> tuple[Floats, tuple[Weights, ...]]:
    """Chooses hypotheses in each half of the utterances, with weights tuned on the other half.

    Returns their errors [U], and the weights tuned on the first and on the second half.
    """
    first_half = halves(np.arange(len(lists.errors)))
    both = first_half, ~first_half
    weights = tuple(tune(lists, acoustic, score, half) for half in both)
    errors = np.zeros(len(first_half))
    for half, tuned in zip(both, weights, strict=True):
        errors[~half] = lists.chosen_errors(_totals(acoustic, score, lists, tuned))[~half]
    return errors, weights


def _totals(acoustic: Floats, score: Floats | None, lists: NBestLists, weights: Weights) -> Floats:
    total = acoustic + weights.word_bonus * lists.words
    return total if score is None or weights.score == 0 else total + weights.score * score


def pad(rows: Sequence[Iterable[float]]) -> Floats:
    """Returns rows of different lengths as [U, N], padded with zeros. Needs at least one row."""
    return np.array(list(zip_longest(*rows, fillvalue=0.0)), np.float64).T
