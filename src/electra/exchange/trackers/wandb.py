"""Weights & Biases: runs in OUT/wandb, offline unless WANDB_MODE says otherwise; `wandb sync` sends them."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

import wandb

from electra.exchange.trackers.interface import Target

QUIET = {
    "silent": True,
    "console": "off",
    "disable_git": True,
    "save_code": False,
    "x_disable_stats": True,  # of this process, which only follows
    "x_disable_meta": True,  # host, user and paths are nobody's business
}


class WeightsAndBiases:
    def __init__(self, target: Target) -> None:
        mode: Any = os.environ.get("WANDB_MODE", "offline")
        if target.id:
            time.sleep(1.1)  # it names a folder by the second, and would write over one of this second
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

    def log(self, step: int, seconds: float, values: Mapping[str, float]) -> None:
        self._run.log({**values, "seconds": seconds}, step=step)

    def flush(self) -> None:
        pass  # it writes as it goes

    def close(self, finished: bool) -> None:
        self._run.finish()


def open(target: Target) -> WeightsAndBiases:
    return WeightsAndBiases(target)
