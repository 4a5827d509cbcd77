"""The interface of a tracker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

NAMES = {  # tracker -> the command that shows its folder
    "tensorboard": "tensorboard --logdir {out}",
    "trackio": "TRACKIO_DIR={out} trackio show",
    "wandb": "wandb sync {out}/wandb/offline-run-*",
    "mlflow": "mlflow ui --backend-store-uri sqlite:///{out}/mlflow.db",
}


@dataclass(frozen=True)
class Target:
    """The destination of a run's curves."""

    run: str
    """The run's name in the tracker."""
    out: Path
    """The folder of the tracker's files; it exists."""
    project: str
    settings: Mapping[str, Any]
    """The recipe with dotted keys: training.seed, ..."""
    began: float
    """Start of the run, in seconds since 1970."""
    id: str
    """The tracker's `id` from the last time; "" the first time."""


class Tracker(Protocol):
    """A connection to a tracker, returned by the function `open(target)` of the tracker's file."""

    id: str
    """Identifies the run in the tracker when more rows follow later ("": not needed)."""

    def log(self, step: int, seconds: float, values: Mapping[str, float]) -> None:
        """Logs values of update `step`, `seconds` of training after the start."""

    def flush(self) -> None:
        """Returns when all logged values are stored, as far as the tracker can tell."""

    def close(self, finished: bool) -> None:
        """Ends the connection; `finished`: no more values will follow for this run."""
