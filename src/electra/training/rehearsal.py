"""Times updates on this machine, for estimates; the run that is timed is not kept."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

from electra.training.distributed import World
from electra.training.loop import update
from electra.training.run import Run
from electra.training.telemetry import Telemetry

SECONDS = 2.0  # spent on timing updates, in each phase of the training


class UpdateTime(NamedTuple):
    """The measured time of an update."""

    seconds: float  # mean over the phases of the training, weighted by their steps
    rows: int  # batch size of the timed updates: the whole batch, or an eighth of it


def measure(run: Run, seconds: float | None = None) -> UpdateTime:
    """Times updates in each phase, and returns the mean, in which phases count by their share of the steps.

    This changes the run's weights. Each phase is timed for about `seconds` (default: `SECONDS`). If a whole
    update takes longer than that, an eighth of the batch is timed and scaled up. Only this process runs; its
    time is divided by the number of processes.

    Raises:
        RunFailed: if a gradient is not finite.
    """
    limit, batch_size = SECONDS if seconds is None else seconds, run.rows.batch_size
    total_steps = 1 << 30  # not the run's steps: only the phases' shares of them matter
    phase_start, mean_seconds, min_rows = 0, 0.0, batch_size

    def with_batch_size(rows: int) -> Run:
        row_settings, telemetry = replace(run.rows, batch_size=rows), Telemetry(run.folder, is_main=False)
        return replace(
            run,
            rows=row_settings,
            world=World(),
            telemetry=telemetry,
            step_estimates=[(0, total_steps)],
            step=phase_start,
        )

    while phase_start < total_steps:
        _, phase_end = run.objective.phase(phase_start, total_steps)
        rows = max(1, batch_size // 8)
        timed_run = with_batch_size(rows)
        update(timed_run)
        start = time.perf_counter()
        update(timed_run)
        if (time.perf_counter() - start) * batch_size / rows < limit:
            rows, timed_run = batch_size, with_batch_size(batch_size)
            update(timed_run)
        start, updates = time.perf_counter(), 0
        while not updates or time.perf_counter() - start < limit:
            update(timed_run)
            updates += 1
        mean_seconds += (
            (time.perf_counter() - start)
            / updates
            * batch_size
            / rows
            * (phase_end - phase_start)
            / total_steps
        )
        phase_start, min_rows = phase_end, min(min_rows, rows)
    return UpdateTime(mean_seconds / run.world.size, min_rows)


def seconds_per_step(run: Run) -> float:
    """Returns the measured seconds per update."""
    return measure(run).seconds
