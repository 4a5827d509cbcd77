"""Loss spikes: an update whose loss lies far above those of the updates before it.

Median and upper decile, which a few spikes do not move, and which know losses that are high every now and
then. The losses to compare with are in every checkpoint, and summed over the processes, so a resumed run and
every process decide alike.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

WINDOW, FEWEST = 64, 32  # updates to compare with: at most, at least
DEVIATIONS = 6.0  # above the median
LEAST = 0.01  # of the median: a smaller deviation is taken for one of this size
NORMAL = 1.2816  # a normal distribution's upper decile lies so many standard deviations above its median


@dataclass(frozen=True)
class Spike:
    loss: float
    median: float
    deviations: float
    """How many standard deviations the loss lies above the median."""

    def __str__(self) -> str:
        return (
            f"{self.loss:.4g}, {self.deviations:.0f} deviations above {self.median:.4g}, the median before it"
        )


class RecentLosses:
    """The losses of the newest updates, skipped ones included: a level that stays becomes the new normal."""

    def __init__(self, losses: Iterable[float] = ()) -> None:
        self._losses = deque(losses, maxlen=WINDOW)

    def __iter__(self) -> Iterator[float]:
        return iter(self._losses)

    def clear(self) -> None:
        self._losses.clear()

    def add(self, loss: float) -> Spike | None:
        """Remember the loss of an update; tells when it is a spike."""
        before = list(self._losses)
        self._losses.append(loss)
        if len(before) < FEWEST:
            return None
        median = statistics.median(before)
        spread = (statistics.quantiles(before, n=10)[-1] - median) / NORMAL
        deviations = (loss - median) / max(spread, LEAST * abs(median), 1e-12)
        return Spike(loss, median, deviations) if deviations > DEVIATIONS else None
