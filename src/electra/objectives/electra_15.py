"""ELECTRA 15 %: the discriminator learns from the masked positions alone (Clark et al. 2020, section 3.5,
Table 5).

Asks how much of ELECTRA's gain comes from a loss over all tokens: with the same inputs, the discriminator is
told about 15 % of them.
"""

from __future__ import annotations

from torch import Tensor

from electra.data.batches import Batch
from electra.objectives import rtd
from electra.objectives.parts import masking
from electra.objectives.parts.interface import Corrupted

Config = rtd.Config


class Objective(rtd.Objective):
    """Loss = MLM + lambda * RTD, the second summed over the masked positions and divided by their number.

    Departure: none known; the paper does not give its weight for this arm, so lambda stays 50. Held-out
    detection is measured on the masked positions as well: of the others the discriminator knows nothing.
    """

    source = "Clark et al. 2020, ELECTRA, section 3.5 (Table 5: ELECTRA 15%)"

    def corrupt(self, batch: Batch, seed: int, progress: float) -> Corrupted:
        return masking.mask_for(self, batch, seed, progress, counted=dict.fromkeys(self.weights, True))

    def judged(self, corrupted: Corrupted) -> Tensor:
        return corrupted.masked_positions
