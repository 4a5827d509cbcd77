"""Confidence intervals by resampling groups: the bootstrap (Efron 1979), and half-samples.

Whole sentences are drawn with replacement, since the tokens of a sentence depend on each other. A measure
takes one weight for each item (how often the item's group was drawn; 1 everywhere for the original data) and
returns numbers by key. Weights instead of copies let a measure sort once and be evaluated a thousand times.
Intervals are 95 % percentile intervals.

A bootstrap sample repeats some of its items, and repeated words are similar by any measure of similarity.
For such measures, half of the sentences are drawn without replacement, many times, and the spread of the
resulting values around their mean estimates the spread for all sentences: it has the same sampling variance
(Shao and Wu 1989, "delete-half jackknife"), and the bias of having half the data cancels.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from electra.foundation import seeds
from electra.foundation.arrays import Bools, Floats, Ints
from electra.laboratory.analysis.contract import Estimate

Key = TypeVar("Key")

LEVEL = 0.95  # coverage of the intervals
PERCENTILES = (2.5, 97.5)  # percentiles at the ends of an interval of half-samples
MIN_GROUPS = 8  # with fewer, many statistics are undefined on a half


def draw_counts(num_groups: int, resamples: int, seed: int = 0) -> Ints:
    """Returns how often each group is drawn in each resample: [resamples, groups]."""
    counts = np.empty((resamples, num_groups), np.int64)
    for i, key in enumerate(seeds.keys(seed, "bootstrap", 0, np.arange(resamples))):
        groups_drawn = (seeds.uniforms(key, num_groups) * num_groups).astype(np.int64)
        counts[i] = np.bincount(groups_drawn, minlength=num_groups)
    return counts


def estimates(
    measure: Callable[[Floats], Mapping[Key, float]],
    groups: npt.ArrayLike,
    *,
    resamples: int = 500,
    seed: int = 0,
) -> dict[Key, Estimate]:
    """Returns the numbers of a measure with intervals, by key. Undefined numbers (NaN) become None.

    `measure` takes weights [N]; `groups` [N] are the indices of the items' sentences, from 0, drawn
    `resamples` times. There are no intervals with fewer than two sentences or resamples.
    """
    groups = np.asarray(groups, np.int64)
    values = measure(np.ones(len(groups)))
    num_groups = int(groups.max()) + 1 if len(groups) else 0
    if num_groups < 2 or resamples < 2:
        return {key: Estimate(_finite(value)) for key, value in values.items()}
    resampled: dict[Key, list[float]] = {key: [] for key in values}
    for counts in draw_counts(num_groups, resamples, seed):
        for key, value in measure(counts[groups].astype(np.float64)).items():
            resampled[key].append(value)
    return {key: interval(value, np.asarray(resampled[key])) for key, value in values.items()}


def interval(value: float, resampled: Floats) -> Estimate:
    """Returns `value` (None if not finite) with the percentile interval of the resampled values.

    There is none if fewer than two, or fewer than half, of the resampled values are defined.
    """
    defined_values = resampled[np.isfinite(resampled)]
    if not np.isfinite(value) or len(defined_values) < max(2, 0.5 * len(resampled)):
        return Estimate(_finite(value))
    low, high = np.quantile(defined_values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(value), float(low), float(high))


def half_samples(
    statistic: Callable[[Ints], npt.ArrayLike], groups: npt.ArrayLike, *, resamples: int = 100
) -> list[Estimate]:
    """Returns the values of a statistic with 95 % intervals from random halves of the groups.

    `statistic` takes the indices of items and returns one number or several; `groups` [N] are the groups of
    the items (at least one), of which half are drawn `resamples` times. There are no intervals with fewer
    than `MIN_GROUPS` groups or two resamples.
    """
    group_index = np.unique(np.asarray(groups), return_inverse=True)[1]
    num_groups = int(group_index.max()) + 1
    values = np.ravel(np.asarray(statistic(np.arange(len(group_index))), np.float64))
    if num_groups < MIN_GROUPS or resamples < 2:
        return [Estimate(float(value)) for value in values]
    half_values = []
    for key in seeds.keys(0, "half-samples", 0, np.arange(resamples)):
        in_sample = np.zeros(num_groups, bool)
        in_sample[seeds.uniforms(key, num_groups).argsort(kind="stable")[: num_groups // 2]] = True
        of_half = statistic(np.flatnonzero(in_sample[group_index]))
        half_values.append(np.ravel(np.asarray(of_half, np.float64)))
    deviations = np.stack(half_values) - np.mean(half_values, axis=0)
    low, high = np.percentile(deviations, PERCENTILES, axis=0)
    return [Estimate(float(v), float(v + a), float(v + b)) for v, a, b in zip(values, low, high, strict=True)]


def halves(groups: npt.ArrayLike, seed: int = 0) -> Bools:
    """Returns a mask [N] of the items in a random half of the groups: to fit on it and test on the rest."""
    groups = np.asarray(groups, np.int64)
    num_groups = int(groups.max()) + 1 if len(groups) else 0
    positions = seeds.permute(np.arange(num_groups), num_groups, seeds.key(seed, "halves"))
    in_half: Bools = np.asarray(positions < num_groups / 2)[groups]
    return in_half


def share(weights: Floats, values: npt.ArrayLike) -> float:
    """Returns the weighted mean of the values, such as events (0 or 1); NaN if all weights are 0."""
    total = weights.sum()
    return float((weights * np.asarray(values)).sum() / total) if total > 0 else float("nan")


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
