"""What a run folder says, as typed values: the one reader of metrics.jsonl for reports, benchmarks and
comparisons.

A run may be in progress, killed, resumed or half copied, so this reads with patience: a torn last line is
ignored, a row replaces what an abandoned stretch of the run (one that a resume went back over) wrote at the
same step or later, unknown keys are kept, and a file that is missing or damaged becomes a sentence in `notes`
instead of an error. Only a folder that is not a run at all is refused.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal, NamedTuple

from electra.errors import RunFolderError

Axis = Literal["step", "tokens", "flops", "seconds"]
Kind = Literal["train", "eval"]
Status = Literal["finished", "stopped", "in progress"]

RUN_FILE, METRICS_FILE, AUDIT_FILE, EXAMPLES_FILE = "run.toml", "metrics.jsonl", "audit.json", "examples.json"
_COORDINATES = ("step", "tokens", "flops", "seconds")


@dataclass(frozen=True)
class Point:
    """One train or eval row: where the run was, and what was measured there."""

    step: int
    tokens: float | None
    flops: float | None
    seconds: float | None
    values: Mapping[str, float | None]
    """Train: loss, losses.NAME, counts.NAME, learning_rate, ...; eval: the metrics. None where the run wrote
    null (undefined).
    """


@dataclass(frozen=True)
class Event:
    """One thing that happened: started, resumed, checkpoint, stopped, collapse, finished, ..."""

    step: int
    name: str
    message: str


@dataclass(frozen=True)
class ExampleRow:
    """One token of a worked example. None where the run has no such net."""

    original: str
    masked: str | None
    generated: str | None
    label: str | None
    p_replaced: float | None


@dataclass(frozen=True)
class Example:
    text: str
    rows: tuple[ExampleRow, ...]


class Curve(NamedTuple):
    """Measured values against an axis, rows without either left out."""

    x: list[float]
    y: list[float]


@dataclass(frozen=True)
class RunRecord:
    """Everything a run folder says about itself."""

    path: Path
    recipe: Mapping[str, Any]
    """run.toml without its [identity] and [environment] tables."""
    identity: Mapping[str, Any]
    environment: Mapping[str, Any]
    train: tuple[Point, ...]
    evals: tuple[Point, ...]
    events: tuple[Event, ...]
    audit: Mapping[str, Any]
    examples: tuple[Example, ...]
    notes: tuple[str, ...]
    """What is missing or damaged, one sentence each."""

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def last(self) -> Point | None:
        """The furthest row, of either kind."""
        ends = [points[-1] for points in (self.train, self.evals) if points]
        return max(ends, key=lambda point: point.step, default=None)

    @property
    def final(self) -> Point | None:
        """The last held-out evaluation."""
        return self.evals[-1] if self.evals else None

    @property
    def total_steps(self) -> int | None:
        """The steps the run is to take, which run.toml fixes when it starts."""
        training = self.recipe.get("training")
        steps = training.get("steps") if isinstance(training, Mapping) else None
        return steps if isinstance(steps, int) else None

    @property
    def status(self) -> Status:
        """How the run ended: by its own word, or because all its steps are done; otherwise it is in progress
        (or was killed).
        """
        if self.last and self.total_steps and self.last.step >= self.total_steps:
            return "finished"
        for event in reversed(self.events):
            if event.name in ("finished", "stopped"):
                return "finished" if event.name == "finished" else "stopped"
            if event.name in ("started", "resumed"):
                break
        return "in progress"

    @property
    def objective(self) -> str | None:
        return self.setting("objective.name")

    @property
    def loss_names(self) -> list[str]:
        """The names of the objective's losses, in the order the run writes them."""
        names = (
            key.removeprefix("losses.")
            for point in self.train
            for key in point.values
            if key.startswith("losses.")
        )
        return list(dict.fromkeys(names))

    @property
    def tokens_per_s(self) -> float | None:
        """The median of the training rows' throughput."""
        speeds = self.curve("train", "tokens_per_s").y
        return median(speeds) if speeds else None

    def setting(self, *dotted: str) -> str | None:
        """The first of these recipe keys that run.toml has, as text: `setting("model.size")`."""
        for name in dotted:
            value: Any = {**self.recipe, "identity": self.identity, "environment": self.environment}
            for part in name.split("."):
                value = value.get(part) if isinstance(value, Mapping) else None
            if isinstance(value, str | int | float) and value != "":
                return str(value)
        return None

    def curve(self, kind: Kind, key: str, against: Axis = "step") -> Curve:
        """`record.curve("eval", "auc", "tokens")`, `record.curve("train", "losses.mlm")`."""
        points = self.train if kind == "train" else self.evals
        pairs = [(getattr(point, against), point.values.get(key)) for point in points]
        kept = [(float(x), y) for x, y in pairs if x is not None and y is not None]
        return Curve([x for x, _ in kept], [y for _, y in kept])


def read_run(path: Path) -> RunRecord:
    """Read a run folder, whatever state it is in. A path that is not a run folder is a RunFolderError."""
    path = Path(path)
    fix = "Give the folder that electra pretrain wrote (its --out)"
    if not path.exists():
        raise RunFolderError("no such run folder", where=path, fix=fix)
    if not path.is_dir():
        raise RunFolderError("is a file, not a run folder", where=path, fix=fix)
    if not any((path / name).is_file() for name in (RUN_FILE, METRICS_FILE)):
        raise RunFolderError(
            f"not a run folder: it has neither {RUN_FILE} nor {METRICS_FILE}", where=path, fix=fix
        )
    missing = [
        name for name in (RUN_FILE, METRICS_FILE, AUDIT_FILE, EXAMPLES_FILE) if not (path / name).is_file()
    ]
    notes = [f"Not in the run folder: {', '.join(missing)}."] if missing else []
    recipe = _read_toml(path / RUN_FILE, notes)
    identity, environment = (
        table if isinstance(table := recipe.pop(name, {}), dict) else {}
        for name in ("identity", "environment")
    )
    train, evals, events = _read_metrics(path / METRICS_FILE, notes)
    audit = _read_json(path / AUDIT_FILE, dict, notes)
    examples = _read_examples(path / EXAMPLES_FILE, notes)
    return RunRecord(path, recipe, identity, environment, train, evals, events, audit, examples, tuple(notes))


def _read_metrics(
    path: Path, notes: list[str]
) -> tuple[tuple[Point, ...], tuple[Point, ...], tuple[Event, ...]]:
    points: dict[str, list[Point]] = {"train": [], "eval": []}
    events: list[Event] = []
    for row in _rows(path, notes):
        kind, step = row.get("kind"), row["step"]
        if kind == "event":
            events.append(Event(step, str(row.get("event", "event")), str(row.get("message") or "")))
        elif isinstance(kind, str) and kind in points:
            for other, kept in points.items():
                while kept and (kept[-1].step > step or (other == kind and kept[-1].step == step)):
                    kept.pop()
            points[kind].append(_point(row, step))
    return tuple(points["train"]), tuple(points["eval"]), tuple(events)


def _rows(path: Path, notes: list[str]) -> Iterator[dict[str, Any]]:
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        notes.append(
            f"{path.name} is missing."
            if isinstance(error, FileNotFoundError)
            else f"{path.name} cannot be read ({error.strerror})."
        )
        return
    damaged = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            row["step"] = int(row["step"])
            if not 0 <= row["step"] < 2**53:
                raise ValueError
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            damaged += number < len(lines)  # only the last line has no newline after it: a row being written
            continue
        yield row
    if damaged:
        notes.append(f"Unreadable lines of {path.name}, left out: {damaged}.")


def _point(row: dict[str, Any], step: int) -> Point:
    values = (
        row.get("metrics")
        if row["kind"] == "eval"
        else {key: value for key, value in row.items() if key not in ("kind", *_COORDINATES)}
    )
    tokens, flops, seconds = (_number(row.get(key)) for key in _COORDINATES[1:])
    return Point(step, tokens, flops, seconds, dict(_flatten(values)) if isinstance(values, dict) else {})


def _flatten(values: dict[str, Any]) -> Iterator[tuple[str, float | None]]:
    """The numbers of a row, those one level down under a dotted name."""
    for key, value in values.items():
        for name, number in (
            [(f"{key}.{inner}", n) for inner, n in value.items()]
            if isinstance(value, dict)
            else [(key, value)]
        ):
            if number is None or (isinstance(number, int | float) and not isinstance(number, bool)):
                yield name, _number(number)


def _number(value: object) -> float | None:
    """A finite number, or None: JSON written by Python may hold NaN and Infinity."""
    return (
        value
        if isinstance(value, int | float) and not isinstance(value, bool) and -1e300 < value < 1e300
        else None
    )


def _read_toml(path: Path, notes: list[str]) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        _note(error, path, notes)
        return {}


def _read_json(path: Path, kind: type, notes: list[str]) -> Any:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(value, kind):
            return value
        notes.append(f"{path.name} is not what a run writes there.")
    except (OSError, ValueError, RecursionError) as error:
        _note(error, path, notes)
    return kind()


def _note(error: Exception, path: Path, notes: list[str]) -> None:
    if not isinstance(error, FileNotFoundError):  # which files are missing is said once, for all
        notes.append(f"{path.name} cannot be read ({getattr(error, 'strerror', None) or error}).")


def _read_examples(path: Path, notes: list[str]) -> tuple[Example, ...]:
    def text(value: object) -> str | None:
        return value if isinstance(value, str) else None

    examples = []
    for item in _read_json(path, list, notes):
        rows = item.get("rows") if isinstance(item, dict) else None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            notes.append(f"An entry of {path.name} is not an example and is left out.")
            continue
        kept = [
            ExampleRow(
                text(row.get("original")) or "",
                text(row.get("masked")),
                text(row.get("generated")),
                text(row.get("label")),
                _number(row.get("p_replaced")),
            )
            for row in rows
        ]
        examples.append(Example(text(item.get("text")) or "", tuple(kept)))
    return tuple(examples)
