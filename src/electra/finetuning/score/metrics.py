"""Accuracy, F1 and correlations, as scikit-learn and scipy compute them.

An undefined score is None with a reason; no exception is raised, and the score is never silently 0. One
convention, on which GLUE relies, differs: the Matthews correlation of constant predictions is 0. The arrays
have one row per example, of which there is at least one: classes or numbers [N], or 0 and 1 for each label
[N, labels].
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Score:
    """The value of a metric, or None with the reason why it is undefined."""

    value: float | None
    reason: str = ""


NO_LABEL = Score(None, "no label is in the data, and none is predicted")
Array = npt.NDArray[Any]


def accuracy(predicted: Array, gold: Array) -> Score:
    """Returns the proportion of correct predictions; in multi-label data, all labels must be correct."""
    return Score(float(np.mean((predicted == gold).reshape(len(gold), -1).all(-1))))


def f1(predicted: Array, gold: Array) -> Score:
    """Returns the F1 of class 1 of a binary task ("equivalent", "duplicate", "yes")."""
    from sklearn.metrics import f1_score

    if not (predicted == 1).any() and not (gold == 1).any():
        return Score(None, "the positive label is neither in the data nor predicted")
    return Score(float(f1_score(gold, predicted, average="binary", pos_label=1, zero_division=0)))


def f1_macro(predicted: Array, gold: Array) -> Score:
    """Returns the mean F1 of the labels that occur in the data or in the predictions."""
    from sklearn.metrics import f1_score

    # NaN excludes labels that occur in neither from the mean.
    value = float(f1_score(gold, predicted, average="macro", zero_division=np.nan))
    return Score(value) if math.isfinite(value) else NO_LABEL


def f1_micro(predicted: Array, gold: Array) -> Score:
    """Returns the F1 over all decisions (example, label) of multi-label predictions."""
    from sklearn.metrics import f1_score

    if not predicted.any() and not gold.any():
        return NO_LABEL
    return Score(float(f1_score(gold, predicted, average="micro", zero_division=0)))


def f_score(correct: int, num_predicted: int, num_gold: int, beta: float, noun: str) -> Score:
    """Returns F-beta from counts of `noun`; beta 0 is precision, infinity is recall."""
    if beta == 0.0:
        return Score(correct / num_predicted) if num_predicted else Score(None, f"no {noun} is predicted")
    if math.isinf(beta):
        return Score(correct / num_gold) if num_gold else Score(None, f"no {noun} is in the data")
    if not num_predicted and not num_gold:
        return Score(None, f"no {noun} is in the data, and none is predicted")
    return Score((1 + beta**2) * correct / (num_predicted + beta**2 * num_gold))


def matthews_correlation(predicted: Array, gold: Array) -> Score:
    """Returns the Matthews correlation: 0 for constant predictions, undefined for constant data."""
    from sklearn.metrics import matthews_corrcoef

    if len(np.unique(gold)) < 2:
        return Score(None, "only one label in the data")
    return Score(float(matthews_corrcoef(gold, predicted)))


def pearson(predicted: Array, gold: Array) -> Score:
    """Returns the Pearson correlation."""
    from scipy.stats import pearsonr

    return _correlation(lambda: float(pearsonr(predicted, gold).statistic), predicted, gold)


def spearmanr(predicted: Array, gold: Array) -> Score:
    """Returns the Spearman rank correlation."""
    from scipy.stats import spearmanr as correlate

    return _correlation(lambda: float(correlate(predicted, gold).statistic), predicted, gold)


def _correlation(compute: Callable[[], float], predicted: Array, gold: Array) -> Score:
    if len(gold) < 2:
        return Score(None, "fewer than two examples")
    for name, values in (("gold numbers", gold), ("predictions", predicted)):
        if np.ptp(values) <= 1e-9 * max(1.0, float(np.abs(values).max())):
            return Score(None, f"all {name} are equal")
    value = compute()
    return Score(value) if math.isfinite(value) else Score(None, "not finite")


def mae(predicted: Array, gold: Array) -> Score:
    """Returns the mean absolute error, in the data's unit."""
    return Score(float(np.abs(predicted - gold).mean()))


METRICS: dict[str, Callable[[Array, Array], Score]] = {
    metric.__name__: metric
    for metric in (accuracy, f1, f1_macro, f1_micro, mae, matthews_correlation, pearson, spearmanr)
}


def summary(values: Sequence[float | None]) -> dict[str, float | None]:
    """Returns mean, sample standard deviation (None for one value) and median; None if any value is None."""
    defined_values = [value for value in values if value is not None]
    if not defined_values or len(defined_values) < len(values):
        return {"mean": None, "sd": None, "median": None}
    sd = float(np.std(defined_values, ddof=1)) if len(defined_values) > 1 else None
    return {"mean": float(np.mean(defined_values)), "sd": sd, "median": float(np.median(defined_values))}
