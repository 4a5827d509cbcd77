"""What a run tells while it trains: metrics.jsonl (the record of truth), log.txt, and its caller."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from electra.artifacts.ledger import Writer
from electra.artifacts.run import RunFolder
from electra.artifacts.session import log_line
from electra.foundation.progress import Progress, Say, no_progress, quiet

QUIET_SECONDS = 5.0  # between two lines of log.txt on the progress


class Telemetry:
    """One writer a run, on the leading process; elsewhere every call does nothing."""

    def __init__(self, folder: Path, *, leads: bool) -> None:
        self.folder, self.leads = folder, leads
        self.tell: Say = quiet
        self.progress: Progress = no_progress
        self._last_line = 0.0
        self._ledger: Writer | None = None

    def open(self, step: int, say: Say = quiet, progress: Progress = no_progress) -> list[dict[str, Any]]:
        """Start or continue the record at `step`: later rows, of updates that are about to be done again,
        move to metrics.cut.jsonl. Lines and progress are told to `say` and `progress` from now on.
        """
        if not self.leads:
            return []
        self.tell, self.progress = say, progress
        self._ledger = Writer(RunFolder(self.folder).metrics, step)
        return self._ledger.rows

    def close(self) -> None:
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None

    def sync(self) -> int:
        """Make the record survive a power cut; the number of its rows."""
        return self._ledger.sync() if self._ledger is not None else 0

    def row(self, row: dict[str, Any]) -> None:
        if self._ledger is not None:
            self._ledger.add(row)

    def say(self, line: str) -> None:
        """One line for the caller and for log.txt."""
        if self._ledger is not None:
            log_line(RunFolder(self.folder).log, line)
            self.tell(line)

    def event(self, step: int, event: str, message: str, **more: Any) -> None:
        self.row({"kind": "event", "step": step, "event": event, "message": message, **more})
        self.say(message)

    def training(self, row: dict[str, Any], total: int) -> None:
        """Record a training row and tell the progress, of `total` steps; log.txt gets a line now and then."""
        self.row(row)
        if self._ledger is None:
            return
        step = row["step"]
        losses = "  ".join(f"{name} {value:.4f}" for name, value in row["losses"].items())
        seconds = (total - step) * row["tokens"] / max(1, step) / max(1.0, row["tokens_per_s"])
        line = (
            f"step {step}/{total}  {losses}  {row['tokens_per_s']:,.0f} tokens/s "
            f" {row['tokens'] / 1e6:.2f} M tokens  {row['flops']:.2e} FLOPs  {_duration(seconds)} left"
        )
        self.progress(line, step / max(1, total))
        if self._ledger is not None and (time.monotonic() - self._last_line > QUIET_SECONDS or step == total):
            self._last_line = time.monotonic()
            log_line(RunFolder(self.folder).log, line)

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
