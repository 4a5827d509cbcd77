"""Detects loss spikes: updates whose loss is far above those of the updates before.

The comparison uses the median and the upper decile: a few spikes hardly change them, whereas losses that are
often high raise the decile, so that they do not count as spikes. The losses are summed over the processes and
saved in every checkpoint, so all processes, and resumed runs, decide alike.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

WINDOW, MIN_UPDATES = 64, 32  # maximum and minimum number of updates to compare with
DEVIATIONS = 6.0  # standard deviations above the median at which a loss is a spike
MIN_DEVIATION = 0.01  # lower bound on the standard deviation, relative to the median
DECILE = 1.2816  # standard deviations between the median and the upper decile of a normal distribution


@dataclass(frozen=True)
class Spike:
    """A loss far above the median of the losses before it."""

    loss: float
    median: float
    deviations: float
    """How many standard deviations the loss lies above the median."""

    def __str__(self) -> str:
        return (
            f"{self.loss:.4g}, {self.deviations:.0f} standard deviations above the median {self.median:.4g}"
        )


class RecentLosses:
    """The losses of the most recent updates.

    Skipped updates are included, so a loss that stays high becomes the new normal.
    """

    def __init__(self, losses: Iterable[float] = ()) -> None:
        self._losses = deque(losses, maxlen=WINDOW)

    def __iter__(self) -> Iterator[float]:
        return iter(self._losses)

    def clear(self) -> None:
        """Forgets all losses."""
        self._losses.clear()

    def add(self, loss: float) -> Spike | None:
        """Adds the loss of an update. Returns the spike if the loss is one, else None.

        It is never one if fewer than `MIN_UPDATES` losses precede it.
        """
        earlier_losses = list(self._losses)
        self._losses.append(loss)
        if len(earlier_losses) < MIN_UPDATES:
            return None
        median = statistics.median(earlier_losses)
        standard_deviation = (statistics.quantiles(earlier_losses, n=10)[-1] - median) / DECILE
        deviations = (loss - median) / max(standard_deviation, MIN_DEVIATION * abs(median), 1e-12)
        return Spike(loss, median, deviations) if deviations > DEVIATIONS else None
