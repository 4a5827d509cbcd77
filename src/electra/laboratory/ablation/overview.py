"""The progress of a study: a table that updates in place on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from electra.foundation.progress import Progress, Say, no_progress
from electra.laboratory.ablation.runner import JobStatus

QUIET_SECONDS = 30.0  # between two plain progress lines
FINISHED = ("done", "failed", "stopped")


class Overview:
    """Shows the jobs of a study while they run. A context manager.

    Args:
        title: Heading of the table.
        jobs: The jobs to show. They are read, not changed.
        say: Receives a line for each job that ends and, without a terminal, on the progress every 30 seconds.
        console: Where the table is drawn, if it is a terminal.
        progress: Receives a description and the share done, if there is no terminal.
    """

    def __init__(
        self,
        title: str,
        jobs: Sequence[JobStatus],
        say: Say,
        console: Console,
        progress: Progress = no_progress,
    ) -> None:
        self.title, self.jobs, self.say, self.console, self.progress = title, jobs, say, console, progress
        self.began = self.last_line = time.monotonic()
        self.done_before = sum(status.step for status in jobs)
        self.live = (
            Live(console=self.console, refresh_per_second=4, transient=True)
            if self.console.is_terminal
            else None
        )

    def __enter__(self) -> Overview:
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self.live is not None:
            self.live.stop()

    def refresh(self) -> None:
        """Show the current state of all jobs."""
        running = "; ".join(
            f"{status.job}: {_stage(status)}" for status in self.jobs if status.state == "running"
        )
        if self.live is not None:
            self.live.update(self.table())
            return
        done, total = self._updates()
        self.progress(f"{running}{self._time_left()}", done / max(1, total))
        if time.monotonic() - self.last_line > QUIET_SECONDS:
            self.last_line = time.monotonic()
            self.say(f"{running}{self._time_left()}")

    def report_end(self, ended: JobStatus) -> None:
        """Say how a job ended: done, failed with its problem, or stopped."""
        finished = sum(status.state in FINISHED for status in self.jobs)
        problem = f": {ended.problem}" if ended.problem else ""
        self.say(f"{ended.job} {ended.state}{problem}  ({finished} of {len(self.jobs)} runs)")

    def table(self) -> Group:
        """One row for each arm and budget, one cell for each seed, and a progress bar."""
        seeds = sorted({status.job.seed for status in self.jobs})
        table = Table("arm", *(f"seed {seed}" for seed in seeds), box=None, pad_edge=False)
        for arm, share in dict.fromkeys((status.job.arm, status.job.share) for status in self.jobs):
            cells = {
                status.job.seed: _cell(status)
                for status in self.jobs
                if (status.job.arm, status.job.share) == (arm, share)
            }
            table.add_row(
                arm if share == 1 else f"{arm} at {share:g}", *(cells.get(seed, "") for seed in seeds)
            )
        done, total = self._updates()
        return Group(
            Text(self.title, style="bold"),
            table,
            ProgressBar(total=total, completed=done, width=40),
            Text(self._time_left().strip("; ")),
        )

    def _updates(self) -> tuple[int, int]:
        """Updates done, and updates in all."""
        return sum(status.step for status in self.jobs), sum(status.steps for status in self.jobs)

    def _time_left(self) -> str:
        """Estimate the time left from the updates done since the start, whatever the arm."""
        done, total = self._updates()
        gained = done - self.done_before
        if not gained:
            return ""
        minutes, seconds = divmod(int((total - done) * (time.monotonic() - self.began) / gained), 60)
        hours, minutes = divmod(minutes, 60)
        return f"; about {hours}h{minutes:02d}m left" if hours else f"; about {minutes}m{seconds:02d}s left"


def _stage(status: JobStatus) -> str:
    if status.step >= status.steps:
        return "scoring"
    rate = status.row.get("tokens_per_s")
    return f"step {status.step}/{status.steps}" + (f", {rate:,.0f} tokens/s" if rate else "")


def _cell(status: JobStatus) -> Text:
    style = {"done": "green", "failed": "red", "running": "bold", "stopped": "yellow"}.get(
        status.state, "dim"
    )
    share = f"{100 * status.step / status.steps:.0f} %"
    shown = {
        "running": "scoring" if status.step >= status.steps else share,
        "waiting": share if status.step else "waiting",
    }
    return Text(shown.get(status.state, status.state), style=style)
