"""Measures how long each process computes per update, and names those that hold up the others.

All processes wait for the slowest one in every update, so their updates take equally long. What differs is
the time until a process has its own gradients, without the time in which it waits for others. The times
are sent along with numbers that are summed anyway, so they cost no extra message. With a GPU, they measure
how long the process takes to queue work for it: they reveal a slow processor or slow data, not a slow GPU.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from electra.training.distributed import World
from electra.training.telemetry import Telemetry

SLOW_RATIO = 1.5  # multiple of the median above which a process is slow
MIN_SLOW_ROWS = 3  # consecutive ledger rows in which a process must be slow to be reported
MIN_EXCESS_SECONDS = 0.01  # over the median; smaller differences are noise


class Stragglers:
    """This process's times since the last exchange, and how often each process was slow."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.seconds: list[float] = []  # time of each update
        self.slow_rows = [0] * world.size  # number of consecutive slow ledger rows of each rank

    def add(self, seconds: float) -> None:
        """Adds the time of an update, without the time spent waiting for other processes."""
        if self.world.size > 1:
            self.seconds.append(seconds)

    def take_seconds(self, due: bool) -> list[float]:
        """Returns a list to sum over the processes, with this one's mean time at the index of its rank.

        The mean is that since the last exchange. Returns [] if no ledger row is due, or with one process.
        """
        if self.world.size == 1 or not due:
            return []
        own_seconds = statistics.mean(self.seconds) if self.seconds else 0.0
        self.seconds.clear()
        return [own_seconds if rank == self.world.rank else 0.0 for rank in range(self.world.size)]

    def report(self, seconds: Sequence[float], step: int, telemetry: Telemetry) -> dict[str, Any]:
        """Returns the entry `rank_seconds` of the ledger row, if any, and reports each slow process once.

        Args:
            seconds: Mean time of each rank; all 0 before the first update has ended, empty for one process.
            step: Finished updates.
            telemetry: Receives the report.
        """
        if not any(seconds):
            return {}
        median = statistics.median_low(seconds)
        for rank, mean_seconds in enumerate(seconds):
            is_slow = mean_seconds > SLOW_RATIO * median and mean_seconds - median > MIN_EXCESS_SECONDS
            if self.slow_rows[rank] < MIN_SLOW_ROWS:  # otherwise it has already been reported
                self.slow_rows[rank] = self.slow_rows[rank] + 1 if is_slow else 0
                if self.slow_rows[rank] < MIN_SLOW_ROWS:
                    continue
                message = (
                    f"process {rank} is slow: {mean_seconds:.3g} s per update on its own, where the median is"
                    f" {median:.3g} s; all other processes wait for it"
                )
                telemetry.record_event(step, "straggler", message, rank=rank)
        return {
            "rank_seconds": {str(rank): round(mean_seconds, 6) for rank, mean_seconds in enumerate(seconds)}
        }
