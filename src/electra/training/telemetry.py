"""What a run says while it trains: metrics.jsonl (the record of truth), log.txt, and a live display or plain
lines.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from electra.artifacts.ledger import Writer
from electra.artifacts.run import RunFolder

QUIET_SECONDS = 5.0  # between two plain lines when the output is not a terminal


class Telemetry:
    """One writer a run, on the leading process; elsewhere every call does nothing."""

    def __init__(
        self, folder: Path, *, leads: bool, total_steps: int, console: Console | None = None
    ) -> None:
        self.folder, self.leads, self.total_steps = folder, leads, total_steps
        self.console = console or Console(stderr=False, highlight=False, soft_wrap=True)
        self._last_line = 0.0
        self._ledger: Writer | None = None
        self._log: TextIO | None = None
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def open(self, step: int) -> list[dict[str, Any]]:
        """Start or continue the record at `step`: later rows, of updates that are about to be done again,
        move to metrics.cut.jsonl.
        """
        if not self.leads:
            return []
        folder = RunFolder(self.folder)
        self._ledger = Writer(folder.metrics, step)
        self._log = open(folder.log, "a", encoding="utf-8")  # noqa: SIM115
        if self.console.is_terminal:
            bar = (BarColumn(bar_width=30), TextColumn("{task.percentage:>3.0f} %"), TimeRemainingColumn())
            self._progress = Progress(
                TextColumn("{task.description}"), *bar, console=self.console, transient=True
            )
            self._progress.start()
            self._task = self._progress.add_task("starting", total=self.total_steps, completed=step)
        return self._ledger.rows

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
        for file in (self._ledger, self._log):
            if file is not None:
                file.close()

    def row(self, row: dict[str, Any]) -> None:
        if self._ledger is not None:
            self._ledger.add(row)

    def say(self, line: str) -> None:
        """One line for the reader and for log.txt."""
        if not self.leads:
            return
        if self._log is not None:
            self._log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}\n")
            self._log.flush()
        self.console.print(line, markup=False)

    def event(self, step: int, event: str, message: str) -> None:
        self.row({"kind": "event", "step": step, "event": event, "message": message})
        self.say(message)

    def training(self, row: dict[str, Any]) -> None:
        """Record a training row; show it on the display, or now and then as a line."""
        self.row(row)
        losses = "  ".join(f"{name} {value:.4f}" for name, value in row["losses"].items())
        line = (
            f"{losses}  {row['tokens_per_s']:,.0f} tokens/s  {row['tokens'] / 1e6:.2f} M tokens "
            f" {row['flops']:.2e} FLOPs"
        )
        if self._progress is not None and self._task is not None:
            self._progress.update(
                self._task,
                completed=row["step"],
                description=f"step {row['step']}/{self.total_steps}  {line}",
            )
        elif time.monotonic() - self._last_line > QUIET_SECONDS or row["step"] == self.total_steps:
            self._last_line = time.monotonic()
            remaining = (
                (self.total_steps - row["step"])
                * row["tokens"]
                / max(1, row["step"])
                / max(1.0, row["tokens_per_s"])
            )
            self.say(f"step {row['step']}/{self.total_steps}  {line}  {_duration(remaining)} left")

    def evaluation(self, row: dict[str, Any]) -> None:
        self.row(row)
        generator, discriminator = (
            ("generator_loss", "generator_accuracy", "mlm_loss"),
            ("discriminator_loss", "gain", "auc"),
        )
        shown = (*generator, *discriminator, "average_precision", "base_rate", "recall")
        metrics = row["metrics"]
        values = "  ".join(
            f"{name.replace('_', ' ')} {metrics[name]:.4f}" for name in shown if metrics.get(name) is not None
        )
        self.say(f"held-out at step {row['step']}: {values}")


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{seconds:02d}s"
