"""The ledger of a run, metrics.jsonl: the record of truth of what it measured and what happened to it.

One JSON object a line, each with its `step` (finished updates) and its `kind`:

    train   tokens, flops, seconds, loss, losses.NAME, counts.NAME, learning_rate, ...
    eval    tokens, flops, seconds, and the held-out `metrics`
    event   `event` (started, resumed, stopped, collapse, finished, ...) and its `message`

A run may be in progress, killed, resumed or half copied, so it is read with patience: a line that is torn or
no object is left out, a row replaces what an abandoned stretch of the run (one that a resume went back over)
wrote at the same step or later, unknown keys are kept, and what is missing or damaged becomes a sentence in
`notes` instead of an error.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, TextIO, get_args

from electra.foundation import durable

Axis = Literal["step", "tokens", "flops", "seconds"]
Kind = Literal["train", "eval"]
Status = Literal["finished", "stopped", "in progress"]
Row = dict[str, Any]
COORDINATES = get_args(Axis)
_TAIL = 1 << 14  # bytes of the file that hold its last rows
_MEMORY = 512  # bytes by which a follower knows the file again


@dataclass(frozen=True)
class Point:
    """One train or eval row: where the run was, and what was measured there."""

    step: int
    tokens: float | None
    flops: float | None
    seconds: float | None
    values: Mapping[str, float | None]
    """Train: loss, losses.NAME, counts.NAME, learning_rate, ...; eval: the metrics. None where the run wrote
    null (undefined)."""


@dataclass(frozen=True)
class Event:
    """One thing that happened: started, resumed, stopped, collapse, finished, ..."""

    step: int
    name: str
    message: str


class Curve(NamedTuple):
    """Measured values against an axis, rows without either left out."""

    x: list[float]
    y: list[float]


@dataclass(frozen=True)
class Ledger:
    """The rows of a ledger in their order, those of abandoned stretches left out."""

    rows: Sequence[Row]
    notes: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path) -> Ledger:
        """Whatever the file holds; of a missing file nothing but a note."""
        rows, notes = read_rows(path)
        return cls(_without_abandoned(rows), notes)

    def of(self, kind: str) -> list[Row]:
        """The rows of one kind."""
        return [row for row in self.rows if row.get("kind") == kind]

    def last(self, *kinds: str) -> Row | None:
        """The newest row of these kinds."""
        return next((row for row in reversed(self.rows) if row.get("kind") in kinds), None)

    def until(self, step: int | None) -> Ledger:
        """The ledger as it stood after `step` updates (None: as it is)."""
        return self if step is None else Ledger([row for row in self.rows if row["step"] <= step], self.notes)

    @cached_property
    def train(self) -> tuple[Point, ...]:
        return tuple(point_of(row) for row in self.of("train"))

    @cached_property
    def evals(self) -> tuple[Point, ...]:
        return tuple(point_of(row) for row in self.of("eval"))

    @cached_property
    def events(self) -> tuple[Event, ...]:
        return tuple(
            Event(row["step"], str(row.get("event", "event")), str(row.get("message") or ""))
            for row in self.of("event")
        )

    def curve(self, kind: Kind, key: str, against: Axis = "step") -> Curve:
        """`ledger.curve("eval", "auc", "tokens")`, `ledger.curve("train", "losses.mlm")`."""
        points = self.train if kind == "train" else self.evals
        pairs = [(getattr(point, against), point.values.get(key)) for point in points]
        kept = [(float(x), y) for x, y in pairs if x is not None and y is not None]
        return Curve([x for x, _ in kept], [y for _, y in kept])

    def status(self, total_steps: int | None) -> Status:
        """How the run ended: by its own word, or as all `total_steps` are done; else it may be going on."""
        last = self.last("train", "eval")
        if last is not None and total_steps and last["step"] >= total_steps:
            return "finished"
        for event in reversed(self.events):
            if event.name in ("finished", "stopped"):
                return "finished" if event.name == "finished" else "stopped"
            if event.name in ("started", "resumed"):
                break
        return "in progress"


class Writer:
    """Appends to a ledger, one whole line at a time."""

    def __init__(self, path: Path, step: int) -> None:
        """Continue the ledger at `path` after `step` updates; `rows` are what it holds.

        Later rows, of updates that are about to be done again, move to metrics.cut.jsonl beside it.
        """
        rows, _ = read_rows(path)
        self.rows = [row for row in rows if row["step"] <= step]
        if cut := [row for row in rows if row["step"] > step]:
            with durable.open_to_append(path.with_suffix(".cut.jsonl")) as file:
                file.writelines(map(_line, cut))
        durable.commit_file(path, "".join(map(_line, self.rows)).encode())
        self._path, self._count = path, len(self.rows)
        self._file: TextIO = durable.open_to_append(path)

    def add(self, row: Mapping[str, Any]) -> None:
        with durable.explain_disk_errors(self._path):
            self._file.write(_line(row))
            self._file.flush()
        self._count += 1

    def sync(self) -> int:
        """Make all rows so far survive a power cut; how many there are."""
        with durable.explain_disk_errors(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())
        return self._count

    def close(self) -> None:
        with durable.explain_disk_errors(self._path):  # it writes what a full disk did not take
            self._file.close()


class Grown(NamedTuple):
    """What a ledger gained since it was last looked at."""

    rows: list[Row]
    anew: bool
    """Whether `rows` replace all rows before: a resume went back, or the file is another."""


class Follower:
    """Reads a ledger that somebody else writes: each look reads only the lines that are new."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._at = 0  # bytes read so far; always the end of a line
        self._end = b""  # the last of them: other bytes there mean another file
        self._furthest: dict[Any, int] = {}  # kind -> step

    def look(self) -> Grown:
        """The rows that were added. A line that is still being written is left for later."""
        rows, anew = self._read(), False
        if rows is None or self._went_back(rows):
            self._at, self._end, self._furthest, anew = 0, b"", {}, True
            rows = _without_abandoned(self._read() or [])
            self._went_back(rows)
        return Grown(rows, anew)

    def _read(self) -> list[Row] | None:
        """The rows of the new lines; None where what was read before is no longer there."""
        try:
            with open(self.path, "rb") as file:
                file.seek(self._at - len(self._end))
                content = file.read()
        except FileNotFoundError:
            return [] if self._at == 0 else None
        except OSError:
            return []
        if content[: len(self._end)] != self._end:
            return None
        lines = content[len(self._end) : content.rfind(b"\n") + 1]
        self._at += len(lines)
        self._end = (self._end + lines)[-_MEMORY:]
        return [row for row in map(_row, lines.splitlines()) if row is not None]

    def _went_back(self, rows: Sequence[Row]) -> bool:
        back = False
        for row in rows:
            kind, step = row.get("kind"), row["step"]
            if kind in ("train", "eval"):
                others = max(self._furthest.values(), default=-1)
                back |= step < others or step == self._furthest.get(kind, -1)
                self._furthest[kind] = step
        return back


def read_rows(path: Path) -> tuple[list[Row], tuple[str, ...]]:
    """Every row that can be read, those of abandoned stretches included; and notes on what cannot."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return [], (f"{path.name} is missing.",)
    except OSError as error:
        return [], (f"{path.name} cannot be read ({error.strerror}).",)
    *lines, torn = content.split(b"\n")  # only the last line has no newline after it: a row being written
    rows = [_row(line) for line in lines if line.strip()]
    damaged = rows.count(None)
    rows.append(_row(torn))
    damaged += b"\0" in torn  # no row that is being written, but what a power cut leaves
    notes = (f"Unreadable lines of {path.name}, left out: {damaged}.",) if damaged else ()
    return [row for row in rows if row is not None], notes


def newest_row(path: Path, kind: str) -> Row | None:
    """The last row of a kind, of a run that may be going on; without reading a long file to find it."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL))
            tail = file.read()
    except OSError:
        return None
    rows = map(_row, reversed(tail.split(b"\n")))
    return next((row for row in rows if row is not None and row.get("kind") == kind), None)


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row) + "\n"


def _row(line: bytes) -> Row | None:
    """None where the line is torn, or no row of ours."""
    try:
        row = json.loads(line)
        step = int(row["step"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    if not isinstance(row, dict) or not 0 <= step < 2**53:
        return None
    return {**row, "step": step}


def _without_abandoned(rows: Sequence[Row]) -> list[Row]:
    kept: list[Row] = []
    measured: dict[Any, list[int]] = {"train": [], "eval": []}  # where the rows of a kind stand in `kept`
    gone: set[int] = set()
    for row in rows:
        kind, step = row.get("kind"), row["step"]
        if isinstance(kind, str) and kind in measured:
            for other, places in measured.items():
                while places and (
                    kept[places[-1]]["step"] > step or (other == kind and kept[places[-1]]["step"] == step)
                ):
                    gone.add(places.pop())
            measured[kind].append(len(kept))
        kept.append(row)
    return [row for place, row in enumerate(kept) if place not in gone]


def point_of(row: Row) -> Point:
    """A train or eval row as a point."""
    values = (
        row.get("metrics")
        if row["kind"] == "eval"
        else {key: value for key, value in row.items() if key not in ("kind", *COORDINATES)}
    )
    tokens, flops, seconds = (number(row.get(key)) for key in COORDINATES[1:])
    flat = dict(_flatten(values)) if isinstance(values, dict) else {}
    return Point(row["step"], tokens, flops, seconds, flat)


def _flatten(values: dict[str, Any]) -> Iterator[tuple[str, float | None]]:
    """The numbers of a row, those one level down under a dotted name."""
    for key, value in values.items():
        inner = (
            {f"{key}.{name}": one for name, one in value.items()} if isinstance(value, dict) else {key: value}
        )
        for name, one in inner.items():
            if one is None or (isinstance(one, int | float) and not isinstance(one, bool)):
                yield name, number(one)


def number(value: object) -> float | None:
    """A finite number, or None: JSON written by Python may hold NaN and Infinity."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and -1e300 < value < 1e300
    return value if known else None  # type: ignore[return-value]
