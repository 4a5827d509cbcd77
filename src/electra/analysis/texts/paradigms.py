"""Minimal pairs: files as BLiMP and the BabyLM supplement distribute them, and how often a score prefers the
good sentence.

A paradigm is a file. BLiMP's rows name their phenomenon (`linguistics_term`); files whose rows name none
count as one phenomenon, named after their folder. Pairs of equal sentences (BLiMP holds a few by mistake) say
nothing and are left out, and counted. A tie, two scores nearer than the exactness of the scores, counts half:
a scorer that knows nothing gets 0.5 either way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from electra.analysis.contract import Estimate, ProbeDataError
from electra.analysis.texts.reading import objects

TIE = 1e-5  # differences below this are ties
Z95 = 1.959963984540054  # of a two-sided 95 % interval
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Paradigm:
    name: str
    phenomenon: str
    benchmark: str  # its folder
    good: tuple[str, ...]
    bad: tuple[str, ...]
    equal: int  # pairs left out, their sentences being equal


@dataclass(frozen=True)
class Accuracy:
    """How a scorer did on some pairs."""

    wins: int
    ties: int
    pairs: int

    @property
    def value(self) -> float:
        return (self.wins + self.ties / 2) / self.pairs

    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of a share (1927)."""
        n, p = self.pairs, self.value
        centre = (p + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
        half = Z95 / (1 + Z95**2 / n) * math.sqrt(p * (1 - p) / n + Z95**2 / (4 * n * n))
        return max(0.0, centre - half), min(1.0, centre + half)


def read_paradigm(path: Path, limit: int | None = None) -> Paradigm:
    """The pairs of a file, or its first `limit` that are not of equal sentences."""
    good, bad, equal, phenomenon = [], [], 0, ""
    for where, row in objects(path):
        pair = [
            sentence
            for sentence in (row.get("sentence_good"), row.get("sentence_bad"))
            if isinstance(sentence, str) and sentence.strip()
        ]
        if len(pair) < 2:
            raise ProbeDataError(
                "no minimal pair",
                where=where,
                fix="Wanted: an object with texts as sentence_good and sentence_bad",
            )
        phenomenon = phenomenon or str(row.get("linguistics_term", ""))
        if pair[0] == pair[1]:
            equal += 1
            continue
        good.append(pair[0])
        bad.append(pair[1])
        if len(good) == limit:
            break
    if not good:
        raise ProbeDataError("no minimal pairs in it", where=path)
    return Paradigm(
        path.name.split(".")[0],
        phenomenon or path.parent.name,
        path.parent.name,
        tuple(good),
        tuple(bad),
        equal,
    )


def judge(good: Floats, bad: Floats) -> Accuracy:
    difference = good - bad
    return Accuracy(int((difference > TIE).sum()), int((np.abs(difference) <= TIE).sum()), len(difference))


def average(parts: Sequence[Accuracy]) -> Estimate:
    """The mean over paradigms, as BLiMP reports it. Its interval is that of pairs drawn anew within these
    paradigms (the recovery of variances from each one's interval, Zou and Donner 2008); other paradigms would
    differ by more.
    """
    values, intervals = [part.value for part in parts], [part.interval() for part in parts]
    mean = sum(values) / len(values)
    low = math.sqrt(sum((value - low) ** 2 for value, (low, _) in zip(values, intervals, strict=True))) / len(
        values
    )
    high = math.sqrt(
        sum((high - value) ** 2 for value, (_, high) in zip(values, intervals, strict=True))
    ) / len(values)
    return Estimate(mean, mean - low, mean + high)
