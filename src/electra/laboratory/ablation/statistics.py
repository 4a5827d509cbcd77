"""Means over seeds with confidence intervals, and paired comparisons of arms with a baseline.

Arms with a seed in common read the same rows in the same order, so the test is paired: Student's t on the
differences. Several arms mean several tests, for which `holm` corrects (Holm 1979).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

ROUNDING = 1e-12  # of the scores: differences that vary less are equal


@dataclass(frozen=True)
class Summary:
    """The mean of one score over `n` seeds. A number is None if `n` is too small to define it."""

    n: int
    mean: float | None = None
    sd: float | None = None
    low: float | None = None  # the 95 % confidence interval of the mean
    high: float | None = None


@dataclass(frozen=True)
class Comparison:
    """An arm minus the baseline, over the `n` seeds of both; the p-value is two-sided."""

    n: int
    difference: float | None = None
    sd: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None


def summarise(values: Sequence[float]) -> Summary:
    """Returns the mean and, from two values on, the standard deviation and the 95 % t interval."""
    from scipy import stats

    n = len(values)
    if not n:
        return Summary(0)
    mean = math.fsum(values) / n
    if n < 2:
        return Summary(n, mean)
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    half_width = float(stats.t.ppf(0.975, n - 1)) * sd / math.sqrt(n)
    return Summary(n, mean, sd, mean - half_width, mean + half_width)


def compare(values: Mapping[int, float], baseline: Mapping[int, float]) -> Comparison:
    """Compares two arms, each given as seed -> score.

    The p-value is None with fewer than two pairs, or if all differences are equal.
    """
    from scipy import stats

    pairs = [(values[seed], baseline[seed]) for seed in sorted(values.keys() & baseline.keys())]
    of = summarise([value - other for value, other in pairs])
    if of.sd is not None and of.sd <= ROUNDING * max(abs(score) for pair in pairs for score in pair):
        of = replace(of, sd=0.0, low=of.mean, high=of.mean)
    p = None
    if of.mean is not None and of.sd:
        p = float(2 * stats.t.sf(abs(of.mean) / (of.sd / math.sqrt(of.n)), of.n - 1))
    return Comparison(of.n, of.mean, of.sd, of.low, of.high, p)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Returns adjusted p-values in the same order (Holm 1979). None, for no test, stays None."""
    ranked = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, index) in enumerate(ranked):
        adjusted[index] = highest = max(highest, min(1.0, p * (len(ranked) - rank)))
    return adjusted
