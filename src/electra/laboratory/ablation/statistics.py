"""Means over seeds with their intervals, and arms against a baseline, seed by seed.

Arms that have a seed in common read the same rows in the same order, so the test is the paired one: Student's
t on the differences. Several arms are several chances to be lucky: `holm` is Holm's (1979) correction over
them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

CONFIDENCE, POWER = 0.95, 0.8


@dataclass(frozen=True)
class Summary:
    """One score over seeds."""

    n: int
    mean: float | None = None
    sd: float | None = None
    low: float | None = None  # the ends of the 95 % interval of the mean
    high: float | None = None


@dataclass(frozen=True)
class Comparison:
    """An arm minus the baseline, over the seeds that both have."""

    n: int
    difference: float | None = None
    sd: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None


@dataclass(frozen=True)
class Reliability:
    """How far a score can be trusted: what another seed changes, and the least true difference found so."""

    sd: float | None  # between seeds, pooled over the arms
    sd_of_differences: float | None  # of an arm minus the baseline, pooled
    n: int  # seeds
    detectable: float | None  # found with a probability of 80 % by a two-sided paired test at 5 %


def summarise(values: Sequence[float]) -> Summary:
    n = len(values)
    if not n:
        return Summary(0)
    mean = math.fsum(values) / n
    if n < 2:
        return Summary(n, mean)
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    half = _t(1 - (1 - CONFIDENCE) / 2, n - 1) * sd / math.sqrt(n)
    return Summary(n, mean, sd, mean - half, mean + half)


def compare(values: Mapping[int, float], baseline: Mapping[int, float]) -> Comparison:
    """Both by seed. No p-value from fewer than two pairs, nor where every difference is the same."""
    from scipy import stats

    differences = [values[seed] - baseline[seed] for seed in sorted(values.keys() & baseline.keys())]
    found = summarise(differences)
    p = None
    if found.mean is not None and found.sd:
        p = float(2 * stats.t.sf(abs(found.mean) / (found.sd / math.sqrt(found.n)), found.n - 1))
    return Comparison(found.n, found.mean, found.sd, found.low, found.high, p)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjusted p-values: the smallest times their number, the next times one less, ..., never falling."""
    known = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, index) in enumerate(known):
        highest = max(highest, min(1.0, p * (len(known) - rank)))
        adjusted[index] = highest
    return adjusted


def reliability(arms: Sequence[Mapping[int, float]], compared: Sequence[Comparison]) -> Reliability:
    """From every arm's scores by seed, and the arms' comparisons with their baselines."""
    n = min((len(arm) for arm in arms if arm), default=0)
    sd = pooled([summarise(list(arm.values())) for arm in arms])
    sd_paired = pooled([Summary(one.n, sd=one.sd) for one in compared])
    return Reliability(sd, sd_paired, n, detectable(sd_paired, n))


def pooled(summaries: Sequence[Summary]) -> float | None:
    """One standard deviation out of several, weighted by their degrees of freedom."""
    known = [(one.n - 1, one.sd) for one in summaries if one.sd is not None]
    freedom = sum(weight for weight, _ in known)
    return math.sqrt(math.fsum(weight * sd * sd for weight, sd in known) / freedom) if freedom else None


def detectable(sd_of_differences: float | None, n: int) -> float | None:
    """The smallest true difference that a two-sided paired test of n pairs finds with probability POWER."""
    if sd_of_differences is None or n < 2:
        return None
    from scipy import optimize, stats

    critical = _t(1 - (1 - CONFIDENCE) / 2, n - 1)

    def missing(shift: float) -> float:
        return (
            float(stats.nct.sf(critical, n - 1, shift)) - POWER
        )  # that it is found with the wrong sign is as good as impossible

    return float(optimize.brentq(missing, 0.0, 10 * critical)) * sd_of_differences / math.sqrt(n)


def crossing(flops: Sequence[float], scores: Sequence[float], level: float) -> float | None:
    """The FLOPs at which a curve first reaches `level`, log-linearly between points; None: never."""
    for index, (x, y) in enumerate(zip(flops, scores, strict=True)):
        if y >= level:
            if index == 0:
                return x
            before, below = flops[index - 1], scores[index - 1]
            return float(before * (x / before) ** ((level - below) / (y - below)))
    return None


def _t(probability: float, freedom: int) -> float:
    from scipy import stats

    return float(stats.t.ppf(probability, freedom))
