"""Reports the progress of a run: to metrics.jsonl (the authoritative record), log.txt and the caller."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from electra.artifacts.ledger import Writer
from electra.artifacts.run import RunFolder
from electra.artifacts.session import log_line
from electra.exchange.trackers import Tracker
from electra.foundation.errors import reason_of
from electra.foundation.options import TrackerName
from electra.foundation.progress import Progress, Say, no_progress, quiet, time_left

LINE_SECONDS = 5.0  # minimum time between two progress lines in log.txt


class Telemetry:
    """The ledger (metrics.jsonl) and the messages of a run; calls have an effect only in the main process."""

    def __init__(self, folder: Path, *, is_main: bool) -> None:
        self.folder, self.is_main = folder, is_main
        self._say: Say = quiet
        self.progress: Progress = no_progress
        self._last_line = 0.0
        self._ledger: Writer | None = None
        self._tracker: Tracker | None = None

    def open(
        self,
        step: int,
        say: Say = quiet,
        progress: Progress = no_progress,
        track: TrackerName | None = None,
    ) -> list[dict[str, Any]]:
        """Opens the ledger at `step`, and returns its rows so far ([] outside the main process).

        Rows after `step` move to metrics.cut.jsonl, because their updates will run again.
        """
        if not self.is_main:
            return []
        self._say, self.progress = say, progress
        run = RunFolder(self.folder)
        sent = run.ledger().rows if track is not None else []  # before those that are repeated leave it
        self._ledger = Writer(run.metrics, step)
        if track is not None:
            with self._tracking():
                self._tracker = Tracker(track, run, sent)
        return self._ledger.rows

    def close(self) -> None:
        """Closes the tracker and the ledger."""
        with self._tracking():
            if self._tracker is not None:
                self._tracker.close()
        self._tracker = None
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
        with self._tracking():
            if self._tracker is not None:
                self._tracker.log(row)

    @contextlib.contextmanager
    def _tracking(self) -> Iterator[None]:
        """Turns an error of a tracker's library into a warning: training goes on without it."""
        try:
            yield
        except Exception as error:
            self._tracker = None
            self.say(f"warning: the tracker gets nothing more ({reason_of(error)})")

    def say(self, line: str) -> None:
        """Sends one line to the caller and to log.txt."""
        if self._ledger is not None:
            log_line(RunFolder(self.folder).log, line)
            self._say(line)

    def record_event(self, step: int, event: str, message: str, **more: Any) -> None:
        """Records an event, and sends its message to the caller and to log.txt.

        `more` are further entries of the row.
        """
        self.record_row({"kind": "event", "step": step, "event": event, "message": message, **more})
        self.say(message)

    def record_training(self, row: dict[str, Any], total: int) -> None:
        """Records a training row and reports the progress; log.txt gets a line every few seconds."""
        self.record_row(row)
        if self._ledger is None:
            return
        step = row["step"]
        losses = "  ".join(f"{name} {value:.4f}" for name, value in row["losses"].items())
        seconds_left = (total - step) * row["tokens"] / max(1, step) / max(1.0, row["tokens_per_s"])
        line = (
            f"step {step}/{total}  {losses}  {row['tokens_per_s']:,.0f} tokens/s "
            f" {row['tokens'] / 1e6:.2f} M tokens  {row['flops']:.2e} FLOPs  {time_left(seconds_left)}"
        )
        self.progress(line, step / max(1, total))
        if time.monotonic() - self._last_line > LINE_SECONDS or step == total:
            self._last_line = time.monotonic()
            log_line(RunFolder(self.folder).log, line)

    def record_evaluation(self, row: dict[str, Any]) -> None:
        """Records an evaluation row, and sends a summary to the caller and to log.txt."""
        self.record_row(row)
        generator = ("generator_loss", "generator_accuracy", "mlm_loss")
        discriminator = ("discriminator_loss", "gain", "auc", "average_precision", "base_rate", "recall")
        distances = ("states_loss", "vectors_loss", "relations_loss")
        metrics = row["metrics"]
        values = "  ".join(
            f"{name.replace('_', ' ')} {metrics[name]:.4f}"
            for name in (*generator, *discriminator, *distances)
            if metrics.get(name) is not None
        )
        self.say(f"held-out at step {row['step']}: {values}")
