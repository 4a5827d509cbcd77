"""Reads a run folder as typed values, for reports.

A run may be in progress, killed, resumed or partly copied: what is missing or damaged becomes a sentence in
`notes` instead of an error. Only a folder that is not a run at all raises an error.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from electra.artifacts.ledger import Ledger, Point, Status, finite_or_none
from electra.artifacts.run import RunFolder
from electra.foundation.errors import RunFolderError
from electra.pages.page import DEFAULT_THRESHOLD, Example, Token


@dataclass(frozen=True)
class RunRecord:
    """Everything that a run folder records."""

    path: Path
    recipe: Mapping[str, Any]
    """run.toml without the tables [identity] and [environment]."""
    identity: Mapping[str, Any]
    environment: Mapping[str, Any]
    ledger: Ledger
    audit: Mapping[str, Any]
    examples: tuple[Example, ...]
    notes: tuple[str, ...]
    """What is missing or damaged, one sentence each."""

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.path.resolve().name

    @property
    def last(self) -> Point | None:
        """The last row of training or evaluation; None if there is none."""
        last_points = [points[-1] for points in (self.ledger.train, self.ledger.evals) if points]
        return max(last_points, key=lambda point: point.step, default=None)

    @property
    def final(self) -> Point | None:
        """The last held-out evaluation; None if there is none."""
        return self.ledger.evals[-1] if self.ledger.evals else None

    @property
    def total_steps(self) -> int | None:
        """The steps of the whole run, which run.toml fixes when it starts; None if unknown."""
        return RunFolder.steps_of(self.recipe)

    @property
    def status(self) -> Status:
        """Whether the run is finished; see `Ledger.status`."""
        return self.ledger.status(self.total_steps)

    @property
    def objective(self) -> str | None:
        """The name of the objective; None if unknown."""
        return self.setting("objective.name")

    @property
    def loss_names(self) -> list[str]:
        """The names of the objective's losses, in the order of the log."""
        names = (
            key.removeprefix("losses.")
            for point in self.ledger.train
            for key in point.values
            if key.startswith("losses.")
        )
        return list(dict.fromkeys(names))

    @property
    def tokens_per_s(self) -> float | None:
        """The median throughput of the training rows; None if there are none."""
        speeds = self.ledger.curve("train", "tokens_per_s").y
        return median(speeds) if speeds else None

    def setting(self, *dotted: str) -> str | None:
        """Returns the value of the first of these keys that is set, as text; None if none is."""
        for name in dotted:
            value: Any = {**self.recipe, "identity": self.identity, "environment": self.environment}
            for part in name.split("."):
                value = value.get(part) if isinstance(value, Mapping) else None
            if isinstance(value, str | int | float) and value != "":
                return str(value)
        return None


def read_run(path: Path) -> RunRecord:
    """Reads a run folder in any state. Raises RunFolderError if it is not one."""
    path = Path(path)
    require_run(path)
    folder = RunFolder(path)
    files = [path / folder.RECORD, folder.metrics, folder.audit, folder.examples]
    missing = [file.name for file in files if not file.is_file()]
    notes = [f"Not in the run folder: {', '.join(missing)}."] if missing else []
    recipe = _read_toml(files[0], notes)
    identity, environment = (
        table if isinstance(table := recipe.pop(name, {}), dict) else {}
        for name in ("identity", "environment")
    )
    ledger = folder.ledger()
    notes += ledger.notes
    audit = _read_json(folder.audit, dict, notes)
    threshold = ledger.evals[-1].values.get("best_f1_threshold") if ledger.evals else None
    threshold = DEFAULT_THRESHOLD if threshold is None else threshold
    examples = read_examples(folder.examples, notes, threshold)
    return RunRecord(path, recipe, identity, environment, ledger, audit, examples, tuple(notes))


def require_run(path: Path) -> None:
    """Raises RunFolderError if `path` is not a run folder in any state."""
    fix = "Pass the folder that electra pretrain wrote (its --out)"
    if not path.exists():
        raise RunFolderError("no such run folder", where=path, fix=fix)
    if not path.is_dir():
        raise RunFolderError("is a file, not a run folder", where=path, fix=fix)
    files = [path / RunFolder.RECORD, RunFolder(path).metrics]
    if not any(file.is_file() for file in files):
        names = " nor ".join(file.name for file in files)
        raise RunFolderError(f"not a run folder: it has neither {names}", where=path, fix=fix)


def _read_toml(path: Path, notes: list[str]) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        _note(error, path, notes)
        return {}
    if not table:
        notes.append(f"{path.name} is empty.")
    return table


def _read_json(path: Path, kind: type, notes: list[str]) -> Any:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(value, kind):
            return value
        notes.append(f"{path.name} was not written by a run.")
    except (OSError, ValueError, RecursionError) as error:
        _note(error, path, notes)
    return kind()


def _note(error: Exception, path: Path, notes: list[str]) -> None:
    if not isinstance(error, FileNotFoundError):  # missing files are listed in a note of their own
        notes.append(f"{path.name} cannot be read ({getattr(error, 'strerror', None) or error}).")


def read_examples(path: Path, notes: list[str], threshold: float = DEFAULT_THRESHOLD) -> tuple[Example, ...]:
    """Reads the worked examples of a run, and adds problems with the file to `notes`.

    `threshold` is the P(replaced) from which tokens are marked.
    """

    def text(value: object) -> str | None:
        return value if isinstance(value, str) else None

    examples = []
    for item in _read_json(path, list, notes):
        rows = item.get("rows") if isinstance(item, dict) else None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            notes.append(f"An entry of {path.name} is not an example and was left out.")
            continue
        tokens = [
            Token(
                text(row.get("original")) or "",
                text(row.get("masked")),
                text(row.get("generated")),
                text(row.get("label")),
                finite_or_none(row.get("p_replaced")),
                threshold,
            )
            for row in rows
        ]
        examples.append(Example(text(item.get("text")) or "", tuple(tokens)))
    return tuple(examples)
