"""Weights & Biases: runs in OUT/wandb, offline unless WANDB_MODE is set; `wandb sync` uploads them."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

import wandb
from typing_extensions import override

from electra.exchange.trackers.interface import Target, Tracker

QUIET = {
    "silent": True,
    "console": "off",
    "disable_git": True,
    "save_code": False,
    "x_disable_stats": True,  # they would describe this process, not the training
    "x_disable_meta": True,  # host, user and paths are private
}


class WeightsAndBiases(Tracker):
    """One run in Weights & Biases."""

    def __init__(self, target: Target) -> None:
        mode: Any = os.environ.get("WANDB_MODE", "offline")
        if target.id:
            time.sleep(1.1)  # folders are named by the second: one from the same second would be overwritten
        self._run = wandb.init(
            project=target.project,
            name=target.run,
            id=target.id or None,
            dir=str(target.out),
            config=dict(target.settings),
            mode=mode,
            resume="allow" if mode == "online" else None,
            settings=wandb.Settings(**QUIET),
        )
        self.id = self._run.id

    @override
    def log(self, step: int, seconds: float, values: Mapping[str, float]) -> None:
        self._run.log({**values, "seconds": seconds}, step=step)

    @override
    def flush(self) -> None:
        pass  # the library writes immediately

    @override
    def close(self, finished: bool) -> None:
        self._run.finish()


open = WeightsAndBiases
