"""Sends a run's measurements to an experiment tracker while it trains.

tensorboard writes event files in RUN/tensorboard, and wandb offline runs in RUN/wandb unless WANDB_MODE says
otherwise; trackio has a database of its own (TRACKIO_DIR). The recipe becomes the run's settings, without
paths of this machine.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from electra.artifacts.ledger import point_of
from electra.artifacts.private import without_paths
from electra.artifacts.run import RunFolder
from electra.foundation.config import flatten
from electra.foundation.machine import not_installed
from electra.foundation.options import TrackerName

PREFIXES = {"train": "train", "eval": "heldout"}  # kind of row -> prefix of its values' names
QUIET_WANDB = {
    "silent": True,
    "console": "off",
    "disable_git": True,
    "save_code": False,
    "x_disable_stats": True,
    "x_disable_meta": True,  # host, user and paths are private
}


def require_tracker(name: TrackerName) -> None:
    """Raises ConfigError if the tracker is not installed."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:  # without an origin, it is a local folder of that name
        raise not_installed(name, name, key="track")


class Tracker:
    """One run in a tracker. A resumed run does not send again the rows in `sent`."""

    def __init__(self, name: TrackerName, run: RunFolder, sent: Iterable[Mapping[str, Any]] = ()) -> None:
        settings = dict(flatten(without_paths(RunFolder.settings(run.record))))
        self._sent = {row.get("kind"): row["step"] for row in sent}
        open_run = _tensorboard if name == "tensorboard" else partial(_trackio_or_wandb, name)
        self._log, self.close = open_run(run, settings)

    def log(self, row: Mapping[str, Any]) -> None:
        """Sends a training or evaluation row of the ledger; other rows are passed over."""
        kind, step = row.get("kind"), row["step"]
        if kind not in PREFIXES or step <= self._sent.get(kind, -1):
            return
        point = point_of(dict(row))
        values = {**point.values, "tokens": point.tokens, "flops": point.flops, "seconds": point.seconds}
        named = {f"{PREFIXES[kind]}/{key.replace('.', '/')}": value for key, value in values.items()}
        self._log(step, {key: value for key, value in named.items() if value is not None})


Opened = tuple[Callable[[int, dict[str, float]], object], Callable[[], object]]


def _tensorboard(run: RunFolder, settings: Mapping[str, Any]) -> Opened:
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(run.path / "tensorboard"))
    table = "".join(f"| {key} | `{value}` |\n" for key, value in settings.items())
    writer.add_text("recipe", f"| setting | value |\n|---|---|\n{table}")

    def log(step: int, values: dict[str, float]) -> None:
        for key, value in values.items():
            writer.add_scalar(key, value, step)

    return log, writer.close


def _trackio_or_wandb(name: str, run: RunFolder, settings: Mapping[str, Any]) -> Opened:
    library, options = importlib.import_module(name), dict[str, Any]()  # with the same functions
    if name == "wandb":
        id_file = run.path / "wandb" / "run-id"  # by which a resumed run continues the tracker's
        if not id_file.is_file():
            id_file.parent.mkdir(exist_ok=True)
            id_file.write_text(secrets.token_hex(4))
        options["mode"] = os.environ.get("WANDB_MODE", "offline")
        options |= {"id": id_file.read_text(), "dir": str(run.path)}
        options["settings"] = library.Settings(**QUIET_WANDB)
    run_name = run.path.resolve().name
    library.init(project="electra", name=run_name, config=dict(settings), resume="allow", **options)
    return lambda step, values: library.log(values, step=step), library.finish
