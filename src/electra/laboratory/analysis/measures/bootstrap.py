"""Confidence intervals by the bootstrap over groups (Efron 1979).

Whole sentences are drawn with replacement, since their tokens depend on each other. A measure takes one
weight for each item (how often the item's group was drawn; 1 everywhere for the original data) and returns
numbers by name. Weights instead of copies let a measure sort once and be evaluated a thousand times.
Intervals are 95 % percentile intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from electra.foundation import seeds
from electra.foundation.arrays import Bools, Floats, Ints
from electra.laboratory.analysis.contract import Estimate

Measure = Callable[[Floats], Mapping[str, float]]
"""Weights [N] -> numbers by name."""

LEVEL = 0.95  # coverage of the intervals


def draws(num_groups: int, resamples: int, seed: int = 0) -> Ints:
    """How often each group is drawn in each resample: [resamples, groups]."""
    counts = np.empty((resamples, num_groups), np.int64)
    for number, key in enumerate(seeds.keys(seed, "bootstrap", 0, np.arange(resamples))):
        drawn = (seeds.uniforms(key, num_groups) * num_groups).astype(np.int64)
        counts[number] = np.bincount(drawn, minlength=num_groups)
    return counts


def estimates(
    measure: Measure, groups: npt.ArrayLike, *, resamples: int = 500, seed: int = 0
) -> dict[str, Estimate]:
    """The measure's numbers with intervals. `groups` [N]: the number of each item's sentence, from 0."""
    groups = np.asarray(groups, np.int64)
    values = measure(np.ones(len(groups)))
    num_groups = int(groups.max()) + 1 if len(groups) else 0
    if num_groups < 2 or resamples < 2:
        return {name: Estimate(_number(value)) for name, value in values.items()}
    resampled: dict[str, list[float]] = {name: [] for name in values}
    for counts in draws(num_groups, resamples, seed):
        for name, value in measure(counts[groups].astype(np.float64)).items():
            resampled[name].append(value)
    return {name: interval(value, np.asarray(resampled[name])) for name, value in values.items()}


def interval(value: float, resampled: Floats) -> Estimate:
    """The percentile interval of the resampled values; None where fewer than half of them are defined."""
    defined = resampled[np.isfinite(resampled)]
    if not np.isfinite(value) or len(defined) < max(2, 0.5 * len(resampled)):
        return Estimate(_number(value))
    low, high = np.quantile(defined, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(value), float(low), float(high))


def halves(groups: npt.ArrayLike, seed: int = 0) -> Bools:
    """A mask [N] of the items of one random half of the groups: to fit on, and test on the others."""
    groups = np.asarray(groups, np.int64)
    num_groups = int(groups.max()) + 1 if len(groups) else 0
    places = seeds.permute(np.arange(num_groups), num_groups, seeds.key(seed, "halves"))
    chosen: Bools = np.asarray(places < num_groups / 2)[groups]
    return chosen


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
