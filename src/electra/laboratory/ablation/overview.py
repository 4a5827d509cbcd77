"""The progress of a study: what is running, the fraction done, and a line for each job that ends."""

from __future__ import annotations

import time
from collections.abc import Sequence

from electra.foundation.progress import Progress, Say, time_left
from electra.laboratory.ablation.runner import JobStatus

QUIET_SECONDS = 30.0  # between two progress lines
FINISHED = ("done", "failed")


class Overview:
    """Reports on the jobs of a study while they run.

    Args:
        jobs: The jobs. They are read, not changed.
        say: Receives a line for each job that ends and, unless `live`, a progress line every 30 seconds.
        progress: Receives what is running and the fraction done.
        live: Whether `progress` stays visible, so that progress lines are not needed.
    """

    def __init__(self, jobs: Sequence[JobStatus], say: Say, progress: Progress, *, live: bool) -> None:
        self.jobs, self.say, self.progress, self.live = jobs, say, progress, live
        self.began = self.last_line = time.monotonic()
        self.done_before = sum(status.step for status in jobs)

    def refresh(self) -> None:
        """Reports the current state of all jobs."""
        done, total = (sum(getattr(status, key) for status in self.jobs) for key in ("step", "steps"))
        running = "; ".join(
            f"{status.job}: {_stage(status)}" for status in self.jobs if status.state == "running"
        )
        self.progress(running, done / max(1, total))
        if not self.live and time.monotonic() - self.last_line > QUIET_SECONDS:
            self.last_line = time.monotonic()
            self.say(f"{running}{self._time_left(done, total)}")

    def report_end(self, ended: JobStatus) -> None:
        """Says how a job ended: done, failed with its problem, or stopped."""
        finished = sum(status.state in FINISHED for status in self.jobs)
        problem = f": {ended.problem}" if ended.problem else ""
        self.say(f"{ended.job} {ended.state}{problem}  ({finished} of {len(self.jobs)} runs)")

    def _time_left(self, done: int, total: int) -> str:
        """Returns the estimated time left, from all updates made since the start; "" before the first."""
        updates_made = done - self.done_before
        if not updates_made:
            return ""
        return f"; about {time_left((total - done) * (time.monotonic() - self.began) / updates_made)}"


def _stage(status: JobStatus) -> str:
    if status.step >= status.steps:
        return "scoring"
    rate = status.last_row.get("tokens_per_s")
    return f"step {status.step}/{status.steps}" + (f", {rate:,.0f} tokens/s" if rate else "")
