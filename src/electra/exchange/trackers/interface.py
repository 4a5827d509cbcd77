"""What a tracker is given, and what it must do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

NAMES = {  # each tracker, and how what lies in its folder is looked at
    "tensorboard": "tensorboard --logdir {out}",
    "trackio": "TRACKIO_DIR={out} trackio show",
    "wandb": "wandb sync {out}/wandb/offline-run-*",
    "mlflow": "mlflow ui --backend-store-uri sqlite:///{out}/mlflow.db",
}


@dataclass(frozen=True)
class Target:
    """Where the curves of a run go."""

    run: str
    """The name it gets there."""
    out: Path
    """The folder of the tracker's files; it exists."""
    project: str
    settings: Mapping[str, Any]
    """The recipe, flat: training.seed, ..."""
    began: float
    """When the run began, in seconds since 1970."""
    id: str
    """What the tracker calls the run: its `id` of the last time, "" the first time."""


class Tracker(Protocol):
    """A file of this folder has a function `open(target)` that returns one."""

    id: str
    """By which the same run is found the next time ("": it needs none)."""

    def log(self, step: int, seconds: float, values: Mapping[str, float]) -> None:
        """Values of finished update `step`, `seconds` of training after the start."""

    def flush(self) -> None:
        """Everything logged so far is safe when this returns, as far as the tracker can tell."""

    def close(self, finished: bool) -> None:
        """Nothing more comes now; or ever, where the run is `finished`."""
