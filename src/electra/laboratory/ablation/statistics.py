"""Means over seeds with confidence intervals, and paired comparisons of arms with a baseline.

Arms with a seed in common read the same rows in the same order, so the test is paired: Student's t on the
differences. Several arms mean several tests, for which `holm` corrects (Holm 1979).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

CONFIDENCE, POWER = 0.95, 0.8
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


@dataclass(frozen=True)
class Reliability:
    """How precisely a score is measured: its spread between seeds, and the smallest detectable difference."""

    sd: float | None
    """Standard deviation between seeds, pooled over the arms."""
    sd_of_differences: float | None
    """Standard deviation of an arm minus its baseline, pooled over the arms."""
    n: int
    """Seeds of the arm that has fewest."""
    detectable: float | None
    """The true difference that a two-sided paired test at 5 % detects with a probability of 80 %."""


def summarise(values: Sequence[float]) -> Summary:
    """Returns the mean and, from two values on, the standard deviation and the 95 % t interval."""
    n = len(values)
    if not n:
        return Summary(0)
    mean = math.fsum(values) / n
    if n < 2:
        return Summary(n, mean)
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    half_width = _critical(n) * sd / math.sqrt(n)
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


def reliability(arms: Sequence[Mapping[int, float]], compared: Sequence[Comparison]) -> Reliability:
    """Returns the reliability of a score, from each arm's values by seed and the comparisons."""
    n = min((len(arm) for arm in arms if arm), default=0)
    sd_paired = pooled_sd(compared)
    sd = pooled_sd([summarise(list(arm.values())) for arm in arms])
    return Reliability(sd, sd_paired, n, detectable_difference(sd_paired, n))


def pooled_sd(measured: Sequence[Summary | Comparison]) -> float | None:
    """Returns the standard deviation pooled by degrees of freedom; None if there is none."""
    by_degrees = [(each.n - 1, each.sd) for each in measured if each.sd is not None]
    degrees = sum(weight for weight, _ in by_degrees)
    return math.sqrt(math.fsum(weight * sd * sd for weight, sd in by_degrees) / degrees) if degrees else None


def detectable_difference(sd_of_differences: float | None, n: int) -> float | None:
    """Returns the true difference that a two-sided paired test of n pairs (at least 2) detects with POWER."""
    if sd_of_differences is None or n < 2:
        return None
    from scipy import optimize, stats

    critical = _critical(n)

    def power_gap(shift: float) -> float:
        # Rejecting with the wrong sign is too improbable to matter.
        return float(stats.nct.sf(critical, n - 1, shift)) - POWER

    return float(optimize.brentq(power_gap, 0.0, 10 * critical)) * sd_of_differences / math.sqrt(n)


def first_crossing(flops: Sequence[float], scores: Sequence[float], level: float) -> float | None:
    """Returns the FLOPs at which a curve, linear in their logarithm, first reaches `level`, or None."""
    previous_flops, previous = 0.0, 0.0
    for index, (at, score) in enumerate(zip(flops, scores, strict=True)):
        if score >= level:
            share = (level - previous) / (score - previous) if index else 1.0
            return float(previous_flops * (at / previous_flops) ** share) if index else at
        previous_flops, previous = at, score
    return None


def _critical(n: int) -> float:
    """Returns the critical value of a two-sided t test of n values."""
    from scipy import stats

    return float(stats.t.ppf(1 - (1 - CONFIDENCE) / 2, n - 1))
