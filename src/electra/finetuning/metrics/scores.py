"""Accuracy, F1 and correlations, as scikit-learn and scipy compute them.

A number that is not defined is None with the reason, never a crash and never a silent zero. One convention is
kept because GLUE's numbers rest on it: the Matthews correlation of constant predictions is 0.
(The original ELECTRA code has an F1 scorer that counts the gold labels from its predictions; it is dead code
there, and wrong.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Score:
    value: float | None
    reason: str = ""  # why there is no value


Array = npt.NDArray[Any]


def accuracy(predicted: Array, gold: Array) -> Score:
    """Of several labels: all of them right."""
    return Score(float(np.mean((predicted == gold).reshape(len(gold), -1).all(-1))))


def f1(predicted: Array, gold: Array) -> Score:
    """Of two labels, the F1 of the second ("equivalent", "duplicate", "yes")."""
    from sklearn.metrics import f1_score

    if not (predicted == 1).any() and not (gold == 1).any():
        return Score(None, "the positive label is neither in the data nor predicted")
    return Score(float(f1_score(gold, predicted, average="binary", pos_label=1, zero_division=0)))


def f1_macro(predicted: Array, gold: Array) -> Score:
    """The mean of the F1 of each label that is in the data or predicted."""
    from sklearn.metrics import f1_score

    value = float(
        f1_score(gold, predicted, average="macro", zero_division=np.nan)
    )  # of several labels, those that are nowhere have none
    return (
        Score(value)
        if math.isfinite(value)
        else Score(None, "no label is in the data, and none is predicted")
    )


def f1_micro(predicted: Array, gold: Array) -> Score:
    """Of several labels, the F1 over all decisions."""
    from sklearn.metrics import f1_score

    if not predicted.any() and not gold.any():
        return Score(None, "no label is in the data, and none is predicted")
    return Score(float(f1_score(gold, predicted, average="micro", zero_division=0)))


def f_score(right: int, said: int, there: int, beta: float, what: str) -> Score:
    """F-beta from counts: those right, predicted, in the data. beta 0 is precision, infinity recall."""
    if beta == 0.0:
        return Score(right / said) if said else Score(None, f"no {what} is predicted")
    if math.isinf(beta):
        return Score(right / there) if there else Score(None, f"no {what} is in the data")
    if not said and not there:
        return Score(None, f"no {what} is in the data, and none is predicted")
    return Score((1 + beta**2) * right / (said + beta**2 * there))


def matthews_correlation(predicted: Array, gold: Array) -> Score:
    from sklearn.metrics import matthews_corrcoef

    if len(np.unique(gold)) < 2:
        return Score(None, "only one label in the data")
    return Score(float(matthews_corrcoef(gold, predicted)))


def pearson(predicted: Array, gold: Array) -> Score:
    from scipy.stats import pearsonr

    return _correlation(lambda: float(pearsonr(predicted, gold).statistic), predicted, gold)


def spearmanr(predicted: Array, gold: Array) -> Score:
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
    """Mean absolute error, in the data's unit."""
    return Score(float(np.abs(predicted - gold).mean()))


METRICS: dict[str, Callable[[Array, Array], Score]] = {
    metric.__name__: metric
    for metric in (accuracy, f1, f1_macro, f1_micro, mae, matthews_correlation, pearson, spearmanr)
}


def summary(values: Sequence[float | None]) -> dict[str, float | None]:
    """Mean, sample standard deviation (None of one seed) and median; all None when a seed has no value."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return {"mean": None, "sd": None, "median": None}
    sd = float(np.std(known, ddof=1)) if len(known) > 1 else None
    return {"mean": float(np.mean(known)), "sd": sd, "median": float(np.median(known))}
