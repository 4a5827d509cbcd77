"""Correlations of weighted items, plain and partial; NaN where one is not defined."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from electra.foundation.arrays import Floats


def pearson(x: npt.ArrayLike, y: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> float:
    """Pearson correlation; point-biserial where one variable is binary. `weights` None: all 1."""
    a, b = np.asarray(x, np.float64), np.asarray(y, np.float64)
    w = np.ones(len(a)) if weights is None else np.asarray(weights, np.float64)
    total = w.sum()
    if total <= 0:
        return float("nan")
    a, b = a - (w @ a) / total, b - (w @ b) / total
    variances = float(w @ a**2) / total, float(w @ b**2) / total
    return (
        float(w @ (a * b)) / total / float(np.sqrt(variances[0] * variances[1]))
        if min(variances) > 1e-18
        else float("nan")
    )


def ranks(x: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> Floats:
    """Ranks [N] where an item counts as often as its weight; equal values share their mean rank."""
    values = np.asarray(x, np.float64)
    w = np.ones(len(values)) if weights is None else np.asarray(weights, np.float64)
    _, place = np.unique(values, return_inverse=True)
    sizes = np.bincount(place, w)
    return np.asarray((np.cumsum(sizes) - (sizes - 1) / 2)[place])


def spearman(x: npt.ArrayLike, y: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> float:
    """Spearman rank correlation. `weights` None: all 1."""
    return pearson(ranks(x, weights), ranks(y, weights), weights)


def partial(
    x: npt.ArrayLike, y: npt.ArrayLike, control: npt.ArrayLike, weights: npt.ArrayLike | None = None
) -> float:
    """The correlation of x and y after removing what is linear in `control` from both."""
    xy, xc, yc = pearson(x, y, weights), pearson(x, control, weights), pearson(y, control, weights)
    if not np.isfinite(xc + yc):  # a constant control explains nothing
        return xy
    left = (1 - xc**2) * (1 - yc**2)
    return (xy - xc * yc) / float(np.sqrt(left)) if left > 1e-12 else float("nan")


def matthews(
    true_positives: npt.ArrayLike,
    false_positives: npt.ArrayLike,
    false_negatives: npt.ArrayLike,
    true_negatives: npt.ArrayLike,
) -> Floats:
    """Matthews correlation from counts of each outcome; 0 where all calls agree."""
    t, f, m, r = (
        np.asarray(value, np.float64)
        for value in (true_positives, false_positives, false_negatives, true_negatives)
    )
    denominator = np.sqrt((t + f) * (t + m) * (r + f) * (r + m))
    return np.asarray(
        np.where(denominator > 0, (t * r - f * m) / np.where(denominator > 0, denominator, 1.0), 0.0)
    )
