"""Means over seeds with confidence intervals, and paired comparisons of arms with a baseline.

Arms with a seed in common read the same rows in the same order, so the test is paired: Student's t on the
differences. Several arms mean several tests, for which `holm` corrects (Holm 1979).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

ROUNDING = 1e-12  # of the scores: differences that vary less are equal


def summarise(values: Sequence[float]) -> dict[str, Any]:
    """Returns `n`, `mean` and, from two values on, `sd` and the 95 % t interval, `low` and `high`."""
    from scipy import stats

    n = len(values)
    summary: dict[str, Any] = {"n": n, **dict.fromkeys(("mean", "sd", "low", "high"))}
    if n:
        summary["mean"] = mean = math.fsum(values) / n
    if n > 1:
        sd = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
        half_width = float(stats.t.ppf(0.975, n - 1)) * sd / math.sqrt(n)
        summary |= {"sd": sd, "low": mean - half_width, "high": mean + half_width}
    return summary


def compare(values: Mapping[int, float], baseline: Mapping[int, float]) -> dict[str, Any]:
    """Returns the `difference` of two arms, each given as seed -> score, over the `n` seeds of both.

    It comes with `sd`, `low` and `high` as of `summarise`, and the two-sided p-value `p`: None with fewer
    than two pairs, or if all differences are equal.
    """
    from scipy import stats

    pairs = [(values[seed], baseline[seed]) for seed in sorted(values.keys() & baseline.keys())]
    of = summarise([value - other for value, other in pairs])
    n, difference, sd = of["n"], of.pop("mean"), of["sd"]
    if sd is not None and sd <= ROUNDING * max(abs(score) for pair in pairs for score in pair):
        of |= {"sd": (sd := 0.0), "low": difference, "high": difference}
    p = float(2 * stats.t.sf(abs(difference) / (sd / math.sqrt(n)), n - 1)) if sd else None
    return {"n": n, "difference": difference, **of, "p": p}


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Returns adjusted p-values in the same order (Holm 1979). None, for no test, stays None."""
    ranked = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, index) in enumerate(ranked):
        adjusted[index] = highest = max(highest, min(1.0, p * (len(ranked) - rank)))
    return adjusted
