"""Ranking and threshold metrics with weights, fast enough to compute for each bootstrap sample.

They equal scikit-learn's `roc_auc_score`, `average_precision_score` and `precision_recall_fscore_support`
with `sample_weight` (tested). Undefined values (no positives, none called positive) are NaN.
"""

import numpy as np
import numpy.typing as npt

from electra.foundation.arrays import Floats


class Ranking:
    """Scores [N] (higher: more suspicious) and binary labels [N], sorted once.

    The `weights` [N] of its methods say how often each item counts.
    """

    def __init__(self, scores: npt.ArrayLike, positive: npt.ArrayLike) -> None:
        scores, self.positive = np.asarray(scores, np.float64), np.asarray(positive, bool)
        self._order = np.argsort(-scores, kind="stable")
        sorted_scores = scores[self._order]
        is_last = np.append(sorted_scores[1:] != sorted_scores[:-1], True)[: len(scores)]  # of equal ones
        self._ends = np.flatnonzero(is_last)
        self.scores, self._positive = scores, self.positive[self._order]
        self.thresholds = sorted_scores[self._ends]  # each distinct score, from the highest

    def counts(self, weights: Floats) -> tuple[Floats, Floats]:
        """Returns the total weight of true and of false positives at each of the `thresholds`."""
        sorted_weights = weights[self._order]
        true_weight = np.cumsum(sorted_weights * self._positive)[self._ends]
        return true_weight, np.cumsum(sorted_weights)[self._ends] - true_weight

    def auc(self, weights: Floats) -> float:
        """Returns the probability that a positive scores higher than a negative, ties counting half."""
        true, false = self.counts(weights)
        if not len(true) or true[-1] <= 0 or false[-1] <= 0:
            return float("nan")
        return float(np.trapezoid(np.append(0.0, true), np.append(0.0, false)) / (true[-1] * false[-1]))

    def average_precision(self, weights: Floats) -> float:
        """Returns average precision, with tied scores taken together."""
        true, false = self.counts(weights)
        if not len(true) or true[-1] <= 0:
            return float("nan")
        precision = true / np.maximum(true + false, 1e-300)
        return float((np.diff(true, prepend=0.0) * precision).sum() / true[-1])

    def best_threshold(self, beta: float = 0.5) -> float:
        """Returns the threshold with the highest F-beta (infinity without items): not for the same data."""
        true, false = self.counts(np.ones(len(self.positive)))
        if not len(true):
            return float("inf")
        f_scores = f_score(true, false, self.positive.sum() - true, beta)
        return float(self.thresholds[int(np.nanargmax(np.nan_to_num(f_scores, nan=-1.0)))])

    def matched_threshold(self) -> float:
        """Returns the threshold that calls as many items positive as are; infinity without positives."""
        num_positives = int(self.positive.sum())
        sorted_scores = self.scores[self._order]
        return float(sorted_scores[num_positives - 1]) if num_positives else float("inf")

    def at(self, threshold: float, weights: Floats, beta: float = 0.5) -> dict[str, float]:
        """Returns precision, recall and F-beta if scores from `threshold` up are called positive."""
        called_positive = self.scores >= threshold
        true = float((weights * (called_positive & self.positive)).sum())
        false = float((weights * (called_positive & ~self.positive)).sum())
        missed = float((weights * (~called_positive & self.positive)).sum())
        return {
            "precision": true / (true + false) if true + false else float("nan"),
            "recall": true / (true + missed) if true + missed else float("nan"),
            f"F{beta:g}": float(f_score(true, false, missed, beta)),
        }


def f_score(true: npt.ArrayLike, false: npt.ArrayLike, missed: npt.ArrayLike, beta: float) -> Floats:
    """Returns F-beta (van Rijsbergen 1979): beta below 1 favours precision. NaN if all counts are 0."""
    true, false, missed = (np.asarray(value, np.float64) for value in (true, false, missed))
    denominator = (1 + beta**2) * true + beta**2 * missed + false
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((1 + beta**2) * true / denominator)
