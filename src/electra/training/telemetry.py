"""Reports the progress of a run: to metrics.jsonl (the authoritative record), log.txt and the caller."""

import time
from pathlib import Path
from typing import Any

from electra.artifacts.ledger import Writer
from electra.artifacts.run_files import RunFolder
from electra.artifacts.session import log_line
from electra.foundation.progress import Progress, Say, no_progress, quiet, time_left

LINE_SECONDS = 5.0  # minimum time between two progress lines in log.txt
SUMMARY = (  # metrics of the line about a held-out evaluation
    *("generator_loss", "generator_accuracy", "mlm_loss", "discriminator_loss", "gain", "auc"),
    *("average_precision", "base_rate", "recall", "states_loss", "vectors_loss"),
)


class Telemetry:
    """The ledger (metrics.jsonl) and the messages of a run; calls have an effect only in the main process."""

    def __init__(self, folder: Path, *, is_main: bool) -> None:
        self.folder, self.is_main = RunFolder(folder), is_main
        self._say: Say = quiet
        self._progress: Progress = no_progress
        self._last_line = 0.0
        self._ledger: Writer | None = None

    def open(self, step: int, say: Say, progress: Progress) -> list[dict[str, Any]]:
        """Opens the ledger at `step`, and returns its rows so far ([] outside the main process).

        Rows after `step` move to metrics.cut.jsonl, because their updates will run again.
        """
        if not self.is_main:
            return []
        self._say, self._progress = say, progress
        self._ledger = Writer(self.folder.metrics, step)
        return self._ledger.rows

    def close(self) -> None:
        """Closes the ledger."""
        if self._ledger is not None:
            self._ledger.close()
        self._ledger = None

    def sync(self) -> int:
        """Flushes the ledger to disk, safe from a power cut. Returns its number of rows."""
        return self._ledger.sync() if self._ledger is not None else 0

    def record_row(self, row: dict[str, Any]) -> None:
        """Adds a row to the ledger."""
        if self._ledger is not None:
            self._ledger.add(row)

    def say(self, line: str) -> None:
        """Sends one line to the caller and to log.txt."""
        if self._ledger is not None:
            log_line(self.folder.log, line)
            self._say(line)

    def record_event(self, step: int, event: str, message: str, **more: Any) -> None:
        """Records an event with any `more` entries, and sends its message to the caller and to log.txt."""
        self.record_row({"kind": "event", "step": step, "event": event, "message": message, **more})
        self.say(message)

    def record_training(self, row: dict[str, Any], total: int) -> None:
        """Records a training row and reports the progress; log.txt gets a line every few seconds."""
        self.record_row(row)
        if self._ledger is None:
            return
        step, speed = row["step"], row["tokens_per_s"]
        losses = "  ".join(f"{name} {value:.4f}" for name, value in row["losses"].items())
        left = time_left((total - step) * row["tokens"] / max(1, step) / max(1.0, speed))
        line = (
            f"step {step}/{total}  {losses}  {speed:,.0f} tokens/s  {row['tokens'] / 1e6:.2f} M tokens "
            f" {row['flops']:.2e} FLOPs  {left}"
        )
        self._progress(line, step / max(1, total))
        if time.monotonic() - self._last_line > LINE_SECONDS or step == total:
            self._last_line = time.monotonic()
            log_line(self.folder.log, line)

    def record_evaluation(self, row: dict[str, Any]) -> None:
        """Records an evaluation row, and sends a summary to the caller and to log.txt."""
        self.record_row(row)
        metrics = {name: row["metrics"].get(name) for name in SUMMARY}
        known = {name.replace("_", " "): value for name, value in metrics.items() if value is not None}
        values = "  ".join(f"{name} {value:.4f}" for name, value in known.items())
        self.say(f"held-out at step {row['step']}: {values}")
