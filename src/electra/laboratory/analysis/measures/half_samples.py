"""Intervals from half-samples, for measures that repeated units would mislead.

A bootstrap sample holds a third of its units twice or more, and equal words are alike to any measure of
likeness. So here half of the sentences is drawn without repetition, again and again; the spread of those
values around their mean is taken as the whole's: it has the whole's sampling variance (Shao and Wu 1989,
"delete-half jackknife"), and a bias that comes of having half the data cancels.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from electra.foundation.arrays import Ints
from electra.foundation.seeds import keys, uniforms
from electra.laboratory.analysis.contract import Estimate

ENDS = (2.5, 97.5)
LEAST = 8  # groups: of half of fewer, many a statistic is not defined


def half_samples(
    statistic: Callable[[Ints], npt.ArrayLike], groups: npt.ArrayLike, *, resamples: int = 100, seed: int = 0
) -> list[Estimate]:
    """A statistic of item numbers, or several, with intervals from halves of the items' `groups` [N]."""
    numbers = np.unique(np.asarray(groups), return_inverse=True)[1]
    count = int(numbers.max()) + 1
    whole = np.ravel(np.asarray(statistic(np.arange(len(numbers))), np.float64))
    if count < LEAST or resamples < 2:
        return [Estimate(float(value)) for value in whole]
    found = []
    for key in keys(seed, "half-samples", 0, np.arange(resamples)):
        drawn = np.zeros(count, bool)
        drawn[uniforms(key, count).argsort(kind="stable")[: count // 2]] = True
        found.append(np.ravel(np.asarray(statistic(np.flatnonzero(drawn[numbers])), np.float64)))
    spread = np.stack(found) - np.mean(found, axis=0)
    low, high = np.percentile(spread, ENDS, axis=0)
    return [Estimate(float(v), float(v + a), float(v + b)) for v, a, b in zip(whole, low, high, strict=True)]
