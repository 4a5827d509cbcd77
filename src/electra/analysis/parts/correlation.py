"""Correlations that leave something out of account."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def pearson(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """With one of the two 0 or 1 this is the point-biserial correlation. nan where one is constant."""
    a, b = (np.asarray(values, np.float64) for values in (x, y))
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 1e-12 else float("nan")


def ranks(x: npt.ArrayLike) -> Array:
    """1 for the smallest; equal values share the mean of their ranks."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(x), np.float64)


def spearman(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    return pearson(ranks(x), ranks(y))


def partial(x: npt.ArrayLike, y: npt.ArrayLike, *controls: npt.ArrayLike) -> float:
    """The correlation of what a linear fit to the controls leaves of x and of y. Of ranks: the partial Spearman correlation."""
    design = np.stack([np.ones(len(np.asarray(x))), *(np.asarray(c, np.float64) for c in controls)], 1)

    def rest(values: npt.ArrayLike) -> Array:
        target = np.asarray(values, np.float64)
        left = target - design @ np.linalg.lstsq(design, target, rcond=None)[0]
        return np.asarray(np.where(np.abs(left) > 1e-9 * max(1.0, float(np.abs(target).max())), left, 0.0))

    return pearson(rest(x), rest(y))
