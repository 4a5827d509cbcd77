"""Intervals from half-samples, for measures that repeated items would mislead.

A bootstrap sample repeats some of its items, and repeated words are similar by any measure of similarity. So
half of the sentences are drawn without replacement, many times, and the spread of the resulting values around
their mean estimates the spread for all sentences: it has the same sampling variance (Shao and Wu 1989,
"delete-half jackknife"), and the bias of having half the data cancels.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from electra.foundation.arrays import Ints
from electra.foundation.seeds import keys, uniforms
from electra.laboratory.analysis.contract import Estimate

PERCENTILES = (2.5, 97.5)  # percentiles at the ends of the interval
MIN_GROUPS = 8  # with fewer, many statistics are undefined on a half


def half_samples(
    statistic: Callable[[Ints], npt.ArrayLike], groups: npt.ArrayLike, *, resamples: int = 100
) -> list[Estimate]:
    """Returns the values of a statistic with 95 % intervals from random halves of the groups.

    Args:
        statistic: Takes the indices of items and returns one number or several.
        groups: The group of each item [N], such as its sentence; at least one item.
        resamples: How many halves to draw.

    Returns:
        One estimate for each number; without intervals if there are fewer than `MIN_GROUPS` groups or fewer
        than two resamples.
    """
    group_index = np.unique(np.asarray(groups), return_inverse=True)[1]
    num_groups = int(group_index.max()) + 1
    values = np.ravel(np.asarray(statistic(np.arange(len(group_index))), np.float64))
    if num_groups < MIN_GROUPS or resamples < 2:
        return [Estimate(float(value)) for value in values]
    half_values = []
    for key in keys(0, "half-samples", 0, np.arange(resamples)):
        in_sample = np.zeros(num_groups, bool)
        in_sample[uniforms(key, num_groups).argsort(kind="stable")[: num_groups // 2]] = True
        half_values.append(
            np.ravel(np.asarray(statistic(np.flatnonzero(in_sample[group_index])), np.float64))
        )
    deviations = np.stack(half_values) - np.mean(half_values, axis=0)
    low, high = np.percentile(deviations, PERCENTILES, axis=0)
    return [Estimate(float(v), float(v + a), float(v + b)) for v, a, b in zip(values, low, high, strict=True)]
