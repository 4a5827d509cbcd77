"""How often a score prefers the good sentence of a minimal pair, and the mean over paradigms.

A tie (scores closer than their precision) counts as half a win, so that an uninformative scorer gets 0.5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from electra.foundation.arrays import Floats
from electra.laboratory.analysis.contract import Estimate

TIE = 1e-5  # differences up to this are ties
Z95 = 1.959963984540054  # normal quantile of a two-sided 95 % interval


@dataclass(frozen=True)
class Accuracy:
    """How often a scorer preferred the good sentence, over at least one pair."""

    wins: int
    ties: int
    pairs: int

    @property
    def value(self) -> float:
        """The share of pairs won, ties counting half."""
        return (self.wins + self.ties / 2) / self.pairs

    def interval(self) -> tuple[float, float]:
        """Returns the 95 % interval of the share (Wilson 1927)."""
        n, p = self.pairs, self.value
        centre = (p + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
        half_width = Z95 / (1 + Z95**2 / n) * math.sqrt(p * (1 - p) / n + Z95**2 / (4 * n * n))
        return max(0.0, centre - half_width), min(1.0, centre + half_width)


def compare_scores(good: Floats, bad: Floats) -> Accuracy:
    """Compares the scores [N] of the good sentences with those of the bad ones."""
    difference = good - bad
    return Accuracy(int((difference > TIE).sum()), int((np.abs(difference) <= TIE).sum()), len(difference))


def mean_over_paradigms(parts: Sequence[Accuracy]) -> Estimate:
    """Returns the mean over paradigms (`parts`, at least one), as BLiMP reports it.

    The interval is for new pairs from the same paradigms; other paradigms would differ by more. Its variance
    is recovered from each paradigm's interval (Zou and Donner 2008).
    """
    mean = sum(part.value for part in parts) / len(parts)
    below, above = (
        math.sqrt(sum((part.value - part.interval()[end]) ** 2 for part in parts)) / len(parts)
        for end in (0, 1)
    )
    return Estimate(mean, mean - below, mean + above)
