"""The ledger of a run, metrics.jsonl: the authoritative record of its measurements and events.

One JSON object per line, each with its `step` (finished updates) and its `kind`:

    train   tokens, flops, seconds, loss, losses.NAME, counts.NAME, learning_rate, ...
    eval    tokens, flops, seconds, and the held-out `metrics`
    event   `event` (started, resumed, stopped, collapse, finished, ...) and its `message`

A run may be in progress, killed, resumed or partly copied, so reading is tolerant: a line that is incomplete
or not an object with a `step` is left out. Unknown keys are kept. Missing or damaged content becomes a
sentence in `notes`, not an error.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TextIO, get_args

from electra.foundation import durable
from electra.foundation.config import flatten

Axis = Literal["step", "tokens", "flops", "seconds"]
Kind = Literal["train", "eval"]
Status = Literal["finished", "stopped", "in progress"]
Row = dict[str, Any]
COORDINATES = get_args(Axis)
_NUMBERS = (int, float, type(None))


class Point(NamedTuple):
    """One train or eval row: the position of the run and the values measured there."""

    step: int
    tokens: float | None
    flops: float | None
    seconds: float | None
    # The metrics of an eval row; loss, losses.NAME, counts.NAME, learning_rate, ... of a train row. None:
    # undefined (null in the file)
    values: Mapping[str, float | None]


class Event(NamedTuple):
    """An event of the run: started, resumed, stopped, collapse, finished, ..."""

    step: int
    name: str
    message: str


class LedgerCurve(NamedTuple):
    """Measured values against an axis, without rows that lack either."""

    x: list[float]
    y: list[float]


@dataclass(frozen=True)
class Ledger:
    """The rows of a ledger in order."""

    rows: Sequence[Row]
    notes: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads every readable row of the file, with notes on what is unreadable or missing."""
        try:
            content = durable.plain(path).read_bytes()
        except FileNotFoundError:
            return cls([], (f"{path.name} is missing.",))
        except OSError as error:
            return cls([], (f"{path.name} cannot be read ({error.strerror}).",))
        *lines, last_line = content.split(b"\n")  # a row that is being written has no newline yet
        rows = [_row(line) for line in lines if line.strip()]
        num_damaged = rows.count(None) + (b"\0" in last_line)  # zeros are left by a power cut
        notes = (f"Unreadable lines of {path.name}, left out: {num_damaged}.",) if num_damaged else ()
        return cls([row for row in (*rows, _row(last_line)) if row is not None], notes)

    def rows_of_kind(self, kind: str) -> list[Row]:
        """Returns the rows of one kind."""
        return [row for row in self.rows if row.get("kind") == kind]

    def last(self, *kinds: str) -> Row | None:
        """Returns the newest row of these kinds, or None."""
        return next((row for row in reversed(self.rows) if row.get("kind") in kinds), None)

    def until(self, step: int | None) -> "Ledger":
        """Returns the ledger as it was after `step` updates (None: unchanged)."""
        return self if step is None else Ledger([row for row in self.rows if row["step"] <= step], self.notes)

    @cached_property
    def train(self) -> tuple[Point, ...]:
        """The train rows."""
        return tuple(map(point_of, self.rows_of_kind("train")))

    @cached_property
    def evals(self) -> tuple[Point, ...]:
        """The held-out evaluations."""
        return tuple(map(point_of, self.rows_of_kind("eval")))

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The events of the run."""
        return tuple(
            Event(row["step"], str(row.get("event", "event")), str(row.get("message") or ""))
            for row in self.rows_of_kind("event")
        )

    def curve(self, kind: Kind, key: str, against: Axis = "step") -> LedgerCurve:
        """Returns the values of `key` along an axis: `ledger.curve("train", "losses.mlm", "tokens")`."""
        points = self.train if kind == "train" else self.evals
        pairs = [(getattr(point, against), point.values.get(key)) for point in points]
        defined = [(float(x), y) for x, y in pairs if x is not None and y is not None]
        return LedgerCurve([x for x, _ in defined], [y for _, y in defined])

    def status(self, total_steps: int | None) -> Status:
        """Returns the status: "finished" once all `total_steps` are done, otherwise that of the last event.

        If `total_steps` is None, events alone decide. A run that was killed is "in progress".
        """
        last_row = self.last("train", "eval")
        if last_row is not None and total_steps and last_row["step"] >= total_steps:
            return "finished"
        states: dict[str, Status] = {"finished": "finished", "stopped": "stopped"}
        states |= dict.fromkeys(("started", "resumed"), "in progress")
        known = [states[event.name] for event in self.events if event.name in states]
        return known[-1] if known else "in progress"


class Writer:
    """Appends whole lines to a ledger; `rows` are those that it had when the writer was opened."""

    def __init__(self, path: Path, step: int) -> None:
        """Opens the ledger at `path` to continue after `step` updates.

        Later rows, whose updates are about to be repeated, are moved to metrics.cut.jsonl in the same folder.
        Unreadable lines are removed. Raises DiskError if the ledger cannot be written.
        """
        rows = Ledger.read(path).rows
        self.rows = [row for row in rows if row["step"] <= step]
        if cut_rows := [row for row in rows if row["step"] > step]:
            cut_path = path.with_suffix(".cut.jsonl")
            with durable.explain_disk_errors(cut_path), durable.open_to_append(cut_path) as file:
                file.writelines(map(_line, cut_rows))
        durable.commit_file(path, "".join(map(_line, self.rows)).encode())
        self._path, self._count = path, len(self.rows)
        with durable.explain_disk_errors(path):
            self._file: TextIO = durable.open_to_append(path)

    def add(self, row: Mapping[str, Any]) -> None:
        """Appends a row. Raises DiskError if it cannot be written."""
        with durable.explain_disk_errors(self._path):
            self._file.write(_line(row))
            self._file.flush()
        self._count += 1

    def sync(self) -> int:
        """Flushes all rows to the disk, so that they survive a power cut, and returns their number.

        The number includes the rows that the ledger had when it was opened. Raises DiskError.
        """
        with durable.explain_disk_errors(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())
        return self._count

    def close(self) -> None:
        """Closes the file. Raises DiskError if buffered rows cannot be written."""
        with durable.explain_disk_errors(self._path):
            self._file.close()


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row) + "\n"


def _row(line: bytes) -> Row | None:
    """Parses a line; returns None if it is incomplete or not a ledger row."""
    try:
        row = json.loads(line)
        step = int(row["step"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    return {**row, "step": step} if isinstance(row, dict) and 0 <= step < 2**53 else None


def point_of(row: Row) -> Point:
    """Converts a train or eval row to a point: its numbers, None if not finite; nested ones are NAME.KEY."""
    values: Any = {key: value for key, value in row.items() if key not in ("kind", *COORDINATES)}
    if row["kind"] == "eval":
        values = row.get("metrics") if isinstance(row.get("metrics"), dict) else {}
    numbers = {key: finite_or_none(value) for key, value in flatten(values) if type(value) in _NUMBERS}
    tokens, flops, seconds = (finite_or_none(row.get(key)) for key in COORDINATES[1:])
    return Point(row["step"], tokens, flops, seconds, numbers)


def finite_or_none(value: object) -> float | None:
    """Returns a number between -1e300 and 1e300 unchanged, and None for all else, such as NaN."""
    is_finite = isinstance(value, int | float) and not isinstance(value, bool) and -1e300 < value < 1e300
    return value if is_finite else None  # type: ignore[return-value]
