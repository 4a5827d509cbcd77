"""Measures the time of an update on this machine; the measured updates are discarded."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

from electra.training.distributed import World
from electra.training.loop import update
from electra.training.run import Run
from electra.training.telemetry import Telemetry

SECONDS = 2.0  # updates are measured for this long, in each phase of the training


class UpdateTime(NamedTuple):
    """The measured time of an update."""

    seconds: float  # mean over the phases of the training
    rows: int  # rows of the measured updates: the batch, or an eighth of it


def measure(run: Run, seconds: float | None = None) -> UpdateTime:
    """Measures an update of each phase of the training, weighted by the phase's share of the steps.

    The run's weights are changed afterwards. If a whole update takes longer than `seconds` (default:
    `SECONDS`), an eighth of its rows is measured and scaled up.
    """
    limit, whole = SECONDS if seconds is None else seconds, run.rows.batch_size
    total, first, average, fewest = 1 << 30, 0, 0.0, whole

    def part(rows: int) -> Run:
        section, silent = replace(run.rows, batch_size=rows), Telemetry(run.folder, is_main=False)
        return replace(run, rows=section, world=World(), telemetry=silent, lengths=[(0, total)], step=first)

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
    return UpdateTime(average / run.world.size, fewest)


def seconds_per_step(run: Run) -> float:
    """Returns the measured seconds per update."""
    return measure(run).seconds
