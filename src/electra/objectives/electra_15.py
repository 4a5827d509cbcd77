"""ELECTRA 15 %: the discriminator's loss covers only the masked positions (Clark et al. 2020, section 3.5).

It measures how much of ELECTRA's gain comes from a loss over all tokens (Table 5): the inputs are the same,
but the discriminator learns from 15 % of them.
"""

from __future__ import annotations

from torch import Tensor
from typing_extensions import override

from electra.data.batches import Batch
from electra.objectives import rtd
from electra.objectives.parts import masking
from electra.objectives.parts.interface import Corrupted

Config = rtd.Config


class Objective(rtd.Objective):
    """Loss = MLM + lambda * RTD, the second summed over the masked positions and divided by their number.

    Departure: none known; the paper does not give its weight for this arm, so lambda stays 50. Held-out
    detection is also measured on the masked positions, because the discriminator is not trained on the
    others.
    """

    source = "Clark et al. 2020, ELECTRA, section 3.5 (Table 5: ELECTRA 15%)"

    @override
    def corrupt(self, batch: Batch, seed: int, progress: float) -> Corrupted:
        return masking.mask_for(self, batch, seed, progress, counted=dict.fromkeys(self.weights, True))

    @override
    def learned_positions(self, corrupted: Corrupted) -> Tensor:
        return corrupted.masked_positions
