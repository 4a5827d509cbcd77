"""A ledger, carried into a tracker row by row: what it already has is never sent twice.

Beside the tracker's files, .electra/NAME/reached.json says how far each kind of row was sent, and of which
ledger. A run that was resumed from before that point repeats the same values, so they are left out as well.
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

from electra.artifacts.ledger import Follower, Ledger, Row, point_of
from electra.artifacts.private import without_paths
from electra.artifacts.run import RunFolder
from electra.artifacts.tuning import TuningFolder
from electra.exchange.trackers.interface import NAMES, Target, Tracker
from electra.foundation import durable
from electra.foundation.errors import ConfigError, RunFolderError
from electra.foundation.progress import Say, quiet
from electra.foundation.signals import Stop

BETWEEN = 2.0  # seconds between two looks at the ledger
KINDS = {"train": "train", "eval": "heldout"}  # rows, and how their values are called


def carry(
    run: Path, to: str, out: Path, project: str, name: str, *, follow: bool, stop: Stop, say: Say = quiet
) -> int:
    """Send what the tracker `to` lacks of a run's curves; the number of rows sent.

    follow: go on until the run ends, or until asked to stop.
    """
    if to not in NAMES:
        raise ConfigError(f"unknown tracker {to!r}", key="to", fix=f"Choose from {', '.join(NAMES)}")
    spec = importlib.util.find_spec(to)
    if spec is None or spec.origin is None:  # without an origin, it is a folder of that name that lies here
        raise ConfigError(
            f"{to} is not installed", key="to", fix=f'Install it: pip install "electra-encoder[{to}]"'
        )
    if TuningFolder.is_at(run):
        return _carry_seeds(TuningFolder(run), to, out, project, name, follow=follow, stop=stop)
    folder = RunFolder.open(run)
    record = folder.record
    follower = Follower(folder.metrics)
    rows = follower.look().rows
    first = next((row for row in rows if row.get("kind") in KINDS), None)
    while first is None and follow and not stop():
        time.sleep(BETWEEN)
        rows += follower.look().rows
        first = next((row for row in rows if row.get("kind") in KINDS), None)
    if first is None:
        say(f"{run}: nothing measured yet")
        return 0
    mark = out / ".electra" / name.replace("/", "-")
    with durable.lock(mark):
        reached = _Reached(mark / "reached.json", first, name)
        settings = dict(_flat(without_paths(RunFolder.settings(record))))
        began = (run / folder.RECORD).stat().st_mtime
        target = Target(name, out, project, settings, began, reached.id)
        told: list[Row] = []
        tracker: Tracker | None = None
        sent, ended = 0, False
        try:
            while True:
                told += [row for row in rows if row.get("kind") == "event"]
                new = [row for row in rows if _is_new(row, reached)]
                if new and tracker is None:
                    tracker = importlib.import_module(f"electra.exchange.trackers.{to}").open(target)
                    reached.id = tracker.id
                if tracker is not None:
                    sent += _send(new, tracker, reached)
                ended = _ended(told, reached, folder.total_steps)
                if not follow or ended or stop():
                    return sent
                time.sleep(BETWEEN)
                rows = follower.look().rows
        finally:
            if tracker is not None:
                tracker.close(ended)


def _carry_seeds(
    folder: TuningFolder, to: str, out: Path, project: str, name: str, *, follow: bool, stop: Stop
) -> int:
    """The curves of a fine-tuning, each seed a run of its own, which is sent when the seed has ended."""
    settings = dict(_flat(without_paths(folder.record["settings"])))
    sent, ended = 0, False
    while True:
        ended = folder.results.is_file()  # then no seed comes any more
        for number, seed in folder.seeds():
            rows, called = _rows_of(seed.record), f"{name}-seed-{number}"
            mark = out / ".electra" / called.replace("/", "-")
            with durable.lock(mark):
                reached = _Reached(mark / "reached.json", rows[0], called)
                if not (new := [row for row in rows if row["step"] > reached.steps.get(row["kind"], -1)]):
                    continue
                began = (folder.path / folder.RECORD).stat().st_mtime
                target = Target(called, out, project, {**settings, "seed": number}, began, reached.id)
                tracker = importlib.import_module(f"electra.exchange.trackers.{to}").open(target)
                reached.id = tracker.id
                try:
                    sent += _send(new, tracker, reached)
                finally:
                    tracker.close(finished=True)
        if not follow or ended or stop():
            return sent
        time.sleep(BETWEEN)


def _rows_of(results: Mapping[str, Any]) -> list[Row]:
    """A seed's results as rows of a ledger: losses, dev after each epoch that was scored, all splits at the
    end.
    """
    steps, seconds = results["steps"], results["seconds"]
    rows: list[Row] = [{"kind": "train", "step": step, "loss": loss} for step, loss in results["losses"]]
    each = steps / max((one["epoch"] for one in results["epochs"]), default=1)
    for one in results["epochs"]:
        scores = {metric: value for metric, value in one.items() if metric != "epoch"}
        rows.append({"kind": "dev", "step": min(steps - 1, round(one["epoch"] * each)), **scores})
    for split, scores in {"dev": results["eval"], **results["others"]}.items():
        rows.append({"kind": split, "step": steps, **scores})
    rows.sort(key=lambda row: row["step"])
    return [{**row, "seconds": seconds * row["step"] / max(1, steps)} for row in rows]


class _Reached:
    """How far each kind of row was sent."""

    def __init__(self, path: Path, first: Row, name: str) -> None:
        self.path = path
        self.ledger = hashlib.sha256(json.dumps(first, sort_keys=True).encode()).hexdigest()
        self.steps: dict[str, int] = {}
        self.id = ""
        if not path.exists():
            return
        known = durable.read_json(path, RunFolderError)
        if known.get("ledger") != self.ledger:
            fix = "Choose another `name` or `out`"
            raise RunFolderError(f"already holds another run named {name}", where=path.parents[2], fix=fix)
        self.steps, self.id = known["steps"], known["id"]

    def save(self) -> None:
        durable.commit_json(self.path, {"ledger": self.ledger, "steps": self.steps, "id": self.id})


def _is_new(row: Row, reached: _Reached) -> bool:
    kind = row.get("kind")
    return kind in KINDS and row["step"] > reached.steps.get(kind, -1)


def _send(rows: list[Row], tracker: Tracker, reached: _Reached) -> int:
    for row in rows:
        kind, point = row["kind"], point_of(row)
        measured = {**point.values, "tokens": point.tokens, "flops": point.flops}
        values = {
            f"{KINDS.get(kind, kind)}/{key.replace('.', '/')}": value for key, value in measured.items()
        }
        known = {name: value for name, value in values.items() if value is not None}
        tracker.log(point.step, point.seconds or 0.0, known)
        reached.steps[kind] = point.step
    if rows:
        tracker.flush()
        reached.save()
    return len(rows)


def _ended(told: list[Row], reached: _Reached, total: int | None) -> bool:
    rows = [*told, {"kind": "train", "step": max(reached.steps.values(), default=0)}]
    return Ledger(rows).status(total) != "in progress"


def _flat(table: Mapping[str, Any], before: str = "") -> Any:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value
