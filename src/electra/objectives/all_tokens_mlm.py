"""All-Tokens MLM: every token of a text with samples in it is predicted, by copying or by a softmax (Clark et
al. 2020, Table 5).

Asks how much of ELECTRA's gain comes from learning at all positions: "a combination of BERT and ELECTRA", as
the paper puts it.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from electra.data.batches import Batch
from electra.model import flops
from electra.model.networks import Networks
from electra.model.pair import Generator, Pair
from electra.objectives.parts import interface, masking, replacing, vocabulary
from electra.objectives.parts.interface import Corrupted, Outcome

Config = replacing.Options


class Objective(interface.Objective):
    """p(token) = D * [token is the one shown] + (1 - D) * softmax, with D = sigmoid(w . h) a head of its own
    at every position.

    Loss = the small generator's MLM + -log p(original) over all real tokens, [CLS] and [SEP] included as in
    RTD. The paper does not give a weight for this arm: both losses weigh 1. Held-out `generator_accuracy` is
    that of the softmax at the masked positions.
    """

    main = "generator"
    source = "Clark et al. 2020, ELECTRA, section 3.5 (Table 5: All-Tokens MLM)"
    config: replacing.Options

    @property
    def weights(self) -> dict[str, float]:
        return {"sampler": 1.0, "mlm": 1.0}

    def heads(self, networks: Networks) -> Mapping[str, nn.Module]:
        return {"copy": nn.Linear(networks.main.hidden_size, 1)}

    def sequence_flops(self, networks: Networks, length: int) -> float:
        """The full-size network's output layer works at every position, and so does the gate."""
        unmasked = flops.generator_head_flops(networks.main, length, 1 - self.masked_share)
        return super().sequence_flops(networks, length) + 2 * (
            unmasked + 2 * networks.main.hidden_size * length
        )

    def corrupt(self, batch: Batch, seed: int, progress: float) -> Corrupted:
        return masking.mask_for(self, batch, seed, progress, counted={"sampler": True, "mlm": False})

    def forward(self, pair: Pair, corrupted: Corrupted) -> Outcome:
        main, auxiliary = pair.main, pair.auxiliary
        assert isinstance(main, Generator) and auxiliary is not None
        replaced = replacing.replace(auxiliary, corrupted, self.config)
        real = corrupted.real().flatten()
        hidden = main.encoder(replaced.ids, corrupted.position_ids, corrupted.piece_ids).flatten(0, 1)
        gate = pair.heads["copy"](hidden).squeeze(-1).float()
        original, shown = corrupted.input_ids.flatten(), replaced.ids.flatten()
        mlm, right = vocabulary.copy_loss(main, hidden[real], original[real], shown[real], gate[real])
        guessed = real.masked_scatter(real, right)[corrupted.masked_positions]
        return Outcome(
            losses={"sampler": replaced.mlm, "mlm": mlm},
            observed={"guessed": guessed, **replaced.observed(corrupted)},
        )
