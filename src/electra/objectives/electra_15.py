"""ELECTRA 15 %: the discriminator's loss covers only the masked positions (Clark et al. 2020, section 3.5).

This ablation measures how much of ELECTRA's gain comes from a loss over all tokens (Table 5): the inputs are
the same, but the discriminator learns from 15 % of the tokens.
"""

from torch import Tensor
from typing_extensions import override

from electra.objectives import rtd
from electra.objectives.parts.interface import CorruptedBatch

Config = rtd.Config


class Objective(rtd.Objective):
    """Loss = MLM + lambda * RTD, where RTD is a mean over the masked positions alone.

    The paper does not give lambda for this variant; here it stays 50. Held-out detection is also measured on
    the masked positions, because the discriminator is not trained on the others.
    """

    token_losses = ()
    source = "Clark et al. 2020, ELECTRA, section 3.5 (Table 5: ELECTRA 15%)"

    @override
    def learned_positions(self, corrupted: CorruptedBatch) -> Tensor:
        return corrupted.masked_positions
