"""The interface of the experiment trackers: TensorBoard, Trackio, W&B and MLflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

VIEW_COMMANDS = {  # tracker -> the command that shows its folder
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
    started: float
    """The start of the run, as a Unix timestamp."""
    id: str
    """The `Tracker.id` of the previous connection; "" for the first one."""


class Tracker(Protocol):
    """A connection to a tracker; `open` of the tracker's file makes one for a `Target`."""

    id: str
    """Identifies the run when a later connection continues it ("" if the tracker needs no id)."""

    def log(self, step: int, seconds: float, values: Mapping[str, float]) -> None:
        """Logs the values at update `step`, after `seconds` of training."""

    def flush(self) -> None:
        """Blocks until all logged values are stored, as far as the tracker can tell."""

    def close(self, finished: bool) -> None:
        """Closes the connection. `finished`: whether the run is complete, so that no more values follow."""
