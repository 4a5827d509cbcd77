"""Sends the rows of a ledger to a tracker, each row once.

The file .electra/NAME/reached.json in the tracker's folder identifies the ledger and records, for each kind
of row, the last step that was sent. A run that resumes from an earlier step repeats the same values, which
are not sent again.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from electra.artifacts.finetuning import FinetuningFolder
from electra.artifacts.ledger import Follower, Ledger, Row, point_of
from electra.artifacts.private import without_paths
from electra.artifacts.run import RunFolder
from electra.exchange.trackers.interface import VIEW_COMMANDS, Target, Tracker
from electra.foundation import durable
from electra.foundation.config import flatten
from electra.foundation.errors import ConfigError, RunFolderError
from electra.foundation.machine import not_installed
from electra.foundation.progress import Say, quiet
from electra.foundation.signals import Stop

POLL_SECONDS = 2.0  # seconds between two reads of the ledger
KINDS = {"train": "train", "eval": "heldout"}  # kind of row -> prefix of its values' names


def send_curves(
    run: Path, to: str, out: Path, project: str, name: str, *, follow: bool, stop: Stop, say: Say = quiet
) -> int:
    """Sends the rows of a run's curves that the tracker lacks. Returns the number of rows sent.

    Args:
        run: a run or a fine-tuning.
        to: the tracker's name.
        out: the folder of the tracker's files.
        project: the tracker's project.
        name: the run's name in the tracker.
        follow: continue until the run ends or a stop is requested.
        stop: returns whether a stop is requested.
        say: prints a line.

    Raises:
        ConfigError: the tracker is unknown or not installed.
        RunFolderError: the folder is not a run, `out` already has another run of this name, or another
            process is sending this one.
    """
    if to not in VIEW_COMMANDS:
        raise ConfigError(f"unknown tracker {to!r}", key="to", fix=f"Choose from {', '.join(VIEW_COMMANDS)}")
    spec = importlib.util.find_spec(to)
    if spec is None or spec.origin is None:  # without an origin, it is a local folder of that name
        raise not_installed(to, to, key="to")
    if FinetuningFolder.is_at(run):
        return _send_seeds(FinetuningFolder(run), to, out, project, name, follow=follow, stop=stop)
    folder = RunFolder.open(run)
    record = folder.record
    follower = Follower(folder.metrics)
    rows = follower.read_new().rows
    first_row = next((row for row in rows if row.get("kind") in KINDS), None)
    while first_row is None and follow and not stop():
        time.sleep(POLL_SECONDS)
        rows += follower.read_new().rows
        first_row = next((row for row in rows if row.get("kind") in KINDS), None)
    if first_row is None:
        say(f"{run}: no measurements yet")
        return 0
    state_folder = out / ".electra" / name.replace("/", "-")
    with durable.lock(state_folder):
        progress = _Progress(state_folder / "reached.json", first_row, name)
        settings = dict(flatten(without_paths(RunFolder.settings(record))))
        started = (run / folder.RECORD).stat().st_mtime
        target = Target(name, out, project, settings, started, progress.id)
        events: list[Row] = []
        tracker: Tracker | None = None
        sent, ended = 0, False
        try:
            while True:
                events += [row for row in rows if row.get("kind") == "event"]
                new_rows = [row for row in rows if _is_new(row, progress)]
                if new_rows and tracker is None:
                    tracker = importlib.import_module(f"electra.exchange.trackers.{to}").open(target)
                    progress.id = tracker.id
                if tracker is not None:
                    sent += _send(new_rows, tracker, progress)
                ended = _ended(events, progress, folder.total_steps)
                if not follow or ended or stop():
                    return sent
                time.sleep(POLL_SECONDS)
                rows = follower.read_new().rows
        finally:
            if tracker is not None:
                tracker.close(ended)


def _send_seeds(
    folder: FinetuningFolder, to: str, out: Path, project: str, name: str, *, follow: bool, stop: Stop
) -> int:
    """Sends a fine-tuning's curves, each finished seed as its own run. Returns the number of rows sent."""
    settings = dict(flatten(without_paths(folder.record["settings"])))
    sent, ended = 0, False
    while True:
        ended = folder.results.is_file()  # all seeds are finished
        for number, seed_folder in folder.seeds():
            rows, run_name = _rows_of(seed_folder.record), f"{name}-seed-{number}"
            state_folder = out / ".electra" / run_name.replace("/", "-")
            with durable.lock(state_folder):
                progress = _Progress(state_folder / "reached.json", rows[0], run_name)
                if not (
                    new_rows := [row for row in rows if row["step"] > progress.steps.get(row["kind"], -1)]
                ):
                    continue
                started = (folder.path / folder.RECORD).stat().st_mtime
                target = Target(run_name, out, project, {**settings, "seed": number}, started, progress.id)
                tracker = importlib.import_module(f"electra.exchange.trackers.{to}").open(target)
                progress.id = tracker.id
                try:
                    sent += _send(new_rows, tracker, progress)
                finally:
                    tracker.close(finished=True)
        if not follow or ended or stop():
            return sent
        time.sleep(POLL_SECONDS)


def _rows_of(results: Mapping[str, Any]) -> list[Row]:
    """Converts a seed's results to rows of a ledger: losses, dev scores per epoch, final scores per split."""
    steps, seconds = results["steps"], results["seconds"]
    rows: list[Row] = [{"kind": "train", "step": step, "loss": loss} for step, loss in results["losses"]]
    steps_per_epoch = steps / max((epoch["epoch"] for epoch in results["epochs"]), default=1)
    for epoch in results["epochs"]:
        scores = {metric: value for metric, value in epoch.items() if metric != "epoch"}
        rows.append(
            {"kind": "dev", "step": min(steps - 1, round(epoch["epoch"] * steps_per_epoch)), **scores}
        )
    for split, scores in {"dev": results["eval"], **results["others"]}.items():
        rows.append({"kind": split, "step": steps, **scores})
    rows.sort(key=lambda row: row["step"])
    return [{**row, "seconds": seconds * row["step"] / max(1, steps)} for row in rows]


class _Progress:
    """The last step of each kind of row that was sent, as recorded in a file."""

    def __init__(self, path: Path, first: Row, name: str) -> None:
        self.path = path
        self.ledger = hashlib.sha256(json.dumps(first, sort_keys=True).encode()).hexdigest()
        self.steps: dict[str, int] = {}
        self.id = ""
        if not path.exists():
            return
        record = durable.read_json(path, RunFolderError)
        if record.get("ledger") != self.ledger:
            fix = "Choose another `name` or `out`"
            raise RunFolderError(f"already contains another run named {name}", where=path.parents[2], fix=fix)
        self.steps, self.id = record["steps"], record["id"]

    def save(self) -> None:
        durable.commit_json(self.path, {"ledger": self.ledger, "steps": self.steps, "id": self.id})


def _is_new(row: Row, reached: _Progress) -> bool:
    kind = row.get("kind")
    return kind in KINDS and row["step"] > reached.steps.get(kind, -1)


def _send(rows: list[Row], tracker: Tracker, reached: _Progress) -> int:
    for row in rows:
        kind, point = row["kind"], point_of(row)
        measured = {**point.values, "tokens": point.tokens, "flops": point.flops}
        values = {
            f"{KINDS.get(kind, kind)}/{key.replace('.', '/')}": value for key, value in measured.items()
        }
        defined = {name: value for name, value in values.items() if value is not None}
        tracker.log(point.step, point.seconds or 0.0, defined)
        reached.steps[kind] = point.step
    if rows:
        tracker.flush()
        reached.save()
    return len(rows)


def _ended(events: list[Row], reached: _Progress, total: int | None) -> bool:
    rows = [*events, {"kind": "train", "step": max(reached.steps.values(), default=0)}]
    return Ledger(rows).status(total) != "in progress"
