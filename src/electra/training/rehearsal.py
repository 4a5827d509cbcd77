"""How long an update takes on this machine now: some are done and thrown away."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

from electra.training.distributed import World
from electra.training.loop import update
from electra.training.run import Run
from electra.training.telemetry import Telemetry

SECONDS = 2.0  # updates are measured for this long, in each phase of the training


class Measured(NamedTuple):
    """Mean seconds of an update, and of how many of its rows they were measured."""

    seconds: float
    rows: int


def measure(run: Run, seconds: float | None = None) -> Measured:
    """An update of each phase of the training, weighted by its share. The run is no longer fresh afterwards.

    Where a whole update takes longer than there is time, an eighth of its rows stands for it.
    """
    limit, whole = SECONDS if seconds is None else seconds, run.rows.batch_size
    total, first, average, fewest = 1 << 30, 0, 0.0, whole

    def part(rows: int) -> Run:
        asked, silent = replace(run.rows, batch_size=rows), Telemetry(run.folder, leads=False)
        return replace(run, rows=asked, world=World(), telemetry=silent, lengths=[(0, total)], step=first)

    while first < total:
        _, end = run.objective.phase(first, total)
        rows = max(1, whole // 8)
        small = part(rows)
        update(small)
        began = time.perf_counter()
        update(small)
        if (time.perf_counter() - began) * whole / rows < limit:
            rows, small = whole, part(whole)
            update(small)
        began, updates = time.perf_counter(), 0
        while not updates or time.perf_counter() - began < limit:
            update(small)
            updates += 1
        average += (time.perf_counter() - began) / updates * whole / rows * (end - first) / total
        first, fewest = end, min(fewest, rows)
    return Measured(average / run.world.size, fewest)


def seconds_per_step(run: Run) -> float:
    return measure(run).seconds
