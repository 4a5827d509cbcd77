"""What a study shows while it runs: a table that stays in place on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from electra.foundation.progress import Say
from electra.laboratory.ablation.runner import Standing

QUIET_SECONDS = 30.0  # between two plain lines about what is under way
FINISHED = ("done", "failed", "stopped")


class Overview:
    """Use as a context manager around a study."""

    def __init__(
        self,
        title: str,
        jobs: Sequence[Standing],
        say: Say,
        console: Console,
        progress: Callable[[str, float], None] = lambda what, share: None,
    ) -> None:
        self.title, self.jobs, self.say, self.console, self.progress = title, jobs, say, console, progress
        self.began = self.last_line = time.monotonic()
        self.done_before = sum(progress.step for progress in jobs)
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

    def look(self) -> None:
        """Show where things stand."""
        running = "; ".join(f"{one.job}: {_stage(one)}" for one in self.jobs if one.state == "running")
        if self.live is not None:
            self.live.update(self.table())
            return
        done, total = sum(one.step for one in self.jobs), sum(one.steps for one in self.jobs)
        self.progress(f"{running}{self._rest()}", done / max(1, total))
        if time.monotonic() - self.last_line > QUIET_SECONDS:
            self.last_line = time.monotonic()
            self.say(f"{running}{self._rest()}")

    def ended(self, progress: Standing) -> None:
        finished = sum(one.state in FINISHED for one in self.jobs)
        problem = f": {progress.problem}" if progress.problem else ""
        self.say(f"{progress.job} {progress.state}{problem}  ({finished} of {len(self.jobs)} runs)")

    def table(self) -> Group:
        """One row an arm (and budget), one cell a seed."""
        seeds = sorted({one.job.seed for one in self.jobs})
        table = Table("arm", *(f"seed {seed}" for seed in seeds), box=None, pad_edge=False)
        for arm, share in dict.fromkeys((one.job.arm, one.job.share) for one in self.jobs):
            cells = {
                one.job.seed: _cell(one) for one in self.jobs if (one.job.arm, one.job.share) == (arm, share)
            }
            table.add_row(
                arm if share == 1 else f"{arm} at {share:g}", *(cells.get(seed, "") for seed in seeds)
            )
        done, total = sum(one.step for one in self.jobs), sum(one.steps for one in self.jobs)
        return Group(
            Text(self.title, style="bold"),
            table,
            ProgressBar(total=total, completed=done, width=40),
            Text(self._rest().strip("; ")),
        )

    def _rest(self) -> str:
        """An estimate of the time left, from the updates of all arms alike."""
        done, total = sum(one.step for one in self.jobs), sum(one.steps for one in self.jobs)
        gained = done - self.done_before
        if not gained:
            return ""
        minutes, seconds = divmod(int((total - done) * (time.monotonic() - self.began) / gained), 60)
        hours, minutes = divmod(minutes, 60)
        return f"; about {hours}h{minutes:02d}m left" if hours else f"; about {minutes}m{seconds:02d}s left"


def _stage(progress: Standing) -> str:
    if progress.step >= progress.steps:
        return "scoring"
    rate = progress.row.get("tokens_per_s")
    return f"step {progress.step}/{progress.steps}" + (f", {rate:,.0f} tokens/s" if rate else "")


def _cell(progress: Standing) -> Text:
    style = {"done": "green", "failed": "red", "running": "bold", "stopped": "yellow"}.get(
        progress.state, "dim"
    )
    share = f"{100 * progress.step / progress.steps:.0f} %"
    shown = {
        "running": "scoring" if progress.step >= progress.steps else share,
        "waiting": share if progress.step else "waiting",
    }
    return Text(shown.get(progress.state, progress.state), style=style)
