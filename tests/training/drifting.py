"""Replaced token detection in which a bit flips in the memory of one process: $FLIP is "RANK STEP"."""

from __future__ import annotations

import os

import torch

from electra.model.pair import Pair
from electra.objectives import rtd

Config = rtd.Config


class Objective(rtd.Objective):
    source = "a test"

    def begin_update(self, pair: Pair, step: int, total_steps: int) -> None:
        super().begin_update(pair, step, total_steps)
        rank, at = os.environ.get("FLIP", "-1 0").split()
        if (rank, at) == (os.environ.get("RANK"), str(step)):
            weight = next(pair.main.parameters()).detach()
            weight.view(torch.int32).view(-1)[7] ^= 1
