"""Measures how long each process computes per update, and names those that hold up the others.

All processes wait for the slowest one in every update, so their updates take equally long. What differs is
the time until a process has its own gradients, without the time in which it waits for others. The times
travel with numbers that are summed anyway, so that they cost no message of their own. On a GPU they are those
of the process, which queues work for the GPU: they show a slow processor or slow data, not a slow GPU.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from electra.training.distributed import World
from electra.training.telemetry import Telemetry

SLOW = 1.5  # times the median
ROWS = 3  # of the ledger, one after the other, in which a process must be slow
FEWEST_SECONDS = 0.01  # above the median: shorter differences are noise


class Stragglers:
    """The times of this process since they were last exchanged."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.seconds: list[float] = []  # of each update
        self.slow_rows = [0] * world.size  # in a row, of each rank

    def add(self, seconds: float) -> None:
        """Adds the time of an update, without waiting."""
        if self.world.size > 1:
            self.seconds.append(seconds)

    def own_seconds(self, due: bool) -> list[float]:
        """Returns what to sum over the processes: this one's mean time in its own place; [] if not due."""
        if self.world.size == 1 or not due:
            return []
        own = statistics.mean(self.seconds) if self.seconds else 0.0
        self.seconds.clear()
        return [own if rank == self.world.rank else 0.0 for rank in range(self.world.size)]

    def measured(self, seconds: Sequence[float], step: int, telemetry: Telemetry) -> dict[str, Any]:
        """Returns the entry of the ledger, and reports each process once that is slow.

        Args:
            seconds: Of each rank, summed; all 0 before the first update has ended.
            step: Finished updates.
            telemetry: Receives the report.
        """
        if not any(seconds):
            return {}
        median = statistics.median_low(seconds)
        for rank, own in enumerate(seconds):
            is_slow = own > SLOW * median and own - median > FEWEST_SECONDS
            if self.slow_rows[rank] < ROWS:  # else it is reported already
                self.slow_rows[rank] = self.slow_rows[rank] + 1 if is_slow else 0
                if self.slow_rows[rank] < ROWS:
                    continue
                message = (
                    f"process {rank} is slow: {own:.3g} s per update on its own, the median process"
                    f" {median:.3g} s; all others wait for it"
                )
                telemetry.event(step, "straggler", message, rank=rank)
        return {"rank_seconds": {str(rank): round(own, 6) for rank, own in enumerate(seconds)}}
