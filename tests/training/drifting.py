"""Replaced token detection in which a bit flips in the memory of one process, or its loss is no number: $FLIP
and $NAN are "RANK STEP".
"""

import os
from dataclasses import replace
from typing import Any

import torch

from electra.model.pair import Pair
from electra.objectives import rtd
from electra.objectives.parts.interface import Outcome

Config = rtd.Config


class Objective(rtd.Objective):
    source = "a test"

    def begin_update(self, pair: Pair, step: int, progress: float, new_stage: bool) -> None:
        super().begin_update(pair, step, progress, new_stage)
        self.lost = is_here("NAN", step)
        if is_here("FLIP", step):
            weight = next(pair.main.parameters()).detach()
            weight.view(torch.int32).view(-1)[7] ^= 1

    def forward(self, pair: Pair, corrupted: Any) -> Outcome:
        outcome = super().forward(pair, corrupted)
        if not getattr(self, "lost", False):  # held-out evaluation begins no update
            return outcome
        return replace(outcome, losses={name: loss * float("nan") for name, loss in outcome.losses.items()})


def is_here(variable: str, step: int) -> bool:
    return os.environ.get(variable, "").split() == [os.environ.get("RANK"), str(step)]
