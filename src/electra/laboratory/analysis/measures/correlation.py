"""Correlations of weighted items, and what is left of one when something else is left out of account. nan
where one is not defined.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from electra.foundation.arrays import Floats


def pearson(x: npt.ArrayLike, y: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> float:
    """With one of the two 0 or 1 this is the point-biserial correlation."""
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
    """Ranks where each item stands for as many as its weight; equal values share their mean rank."""
    values = np.asarray(x, np.float64)
    w = np.ones(len(values)) if weights is None else np.asarray(weights, np.float64)
    _, place = np.unique(values, return_inverse=True)
    sizes = np.bincount(place, w)
    return np.asarray((np.cumsum(sizes) - (sizes - 1) / 2)[place])


def spearman(x: npt.ArrayLike, y: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> float:
    return pearson(ranks(x, weights), ranks(y, weights), weights)


def partial(
    x: npt.ArrayLike, y: npt.ArrayLike, control: npt.ArrayLike, weights: npt.ArrayLike | None = None
) -> float:
    """The correlation of x and y when what is linear in `control` is taken out of both."""
    xy, xc, yc = pearson(x, y, weights), pearson(x, control, weights), pearson(y, control, weights)
    if not np.isfinite(xc + yc):  # a constant explains nothing
        return xy
    left = (1 - xc**2) * (1 - yc**2)
    return (xy - xc * yc) / float(np.sqrt(left)) if left > 1e-12 else float("nan")


def matthews(
    true: npt.ArrayLike, false: npt.ArrayLike, missed: npt.ArrayLike, rejected: npt.ArrayLike
) -> Floats:
    """Matthews correlation of (true, false) alarms, missed and rightly rejected; 0 where all calls agree."""
    t, f, m, r = (np.asarray(value, np.float64) for value in (true, false, missed, rejected))
    below = np.sqrt((t + f) * (t + m) * (r + f) * (r + m))
    return np.asarray(np.where(below > 0, (t * r - f * m) / np.where(below > 0, below, 1.0), 0.0))
