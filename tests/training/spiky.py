"""Replaced token detection with loss spikes at two updates: a user's own objective, found by its path."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from electra.data.batches import Batch
from electra.model.pair import Pair
from electra.objectives import rtd
from electra.objectives.parts.interface import CorruptedBatch, Outcome

ROWS, AT = 8, (12, 36)  # in a batch; the numbers of the batches that spike
Config = rtd.Config


class Objective(rtd.Objective):
    source = "a test"

    def corrupt(self, batch: Batch, seed: int, progress: float) -> CorruptedBatch:
        self.worse = bool(set(batch.examples // ROWS) & set(AT))
        return super().corrupt(batch, seed, progress)

    def forward(self, pair: Pair, corrupted: Any) -> Outcome:
        outcome = super().forward(pair, corrupted)
        if not self.worse:
            return outcome
        return replace(outcome, losses={name: 8 * loss for name, loss in outcome.losses.items()})
