"""All-Tokens MLM: predicts the original token at every position (Clark et al. 2020, section 3.5, Table 5).

Each prediction mixes a copy of the input token with a softmax. The paper calls this variant "a combination of
BERT and ELECTRA"; it measures how much of ELECTRA's gain comes from learning at all positions.
"""

from collections.abc import Mapping

from torch import nn
from typing_extensions import override

from electra.model import flops
from electra.model.networks import Networks
from electra.model.pair import Pair
from electra.objectives import replace_mlm
from electra.objectives.parts import replacing, vocabulary
from electra.objectives.parts.interface import CorruptedBatch, Outcome

Config = replacing.ReplacingOptions


class Objective(replace_mlm.Objective):
    """p(token) = D * [token is the one shown] + (1 - D) * softmax, with D = sigmoid(w . h).

    Loss = the small generator's MLM loss, plus -log p(original) over all real tokens, including [CLS] and
    [SEP] as in RTD. The paper gives no weights for this variant; both are 1 here. The held-out
    `generator_accuracy` is that of the softmax at the masked positions.
    """

    token_losses = ("mlm",)
    fixed_shapes = False
    source = "Clark et al. 2020, ELECTRA, section 3.5 (Table 5: All-Tokens MLM)"

    @override
    def heads(self, networks: Networks) -> Mapping[str, nn.Module]:
        return {"copy": nn.Linear(networks.main.hidden_size, 1)}

    @override
    def sequence_flops(self, networks: Networks, length: int) -> float:
        """Adds the full-size network's output layer and copy gate, which run at every position."""
        unmasked_flops = flops.generator_head_flops(networks.main, length, 1 - self.mean_mask_fraction)
        added_flops = unmasked_flops + 2 * networks.main.hidden_size * length
        return super().sequence_flops(networks, length) + 2 * added_flops

    @override
    def forward(self, pair: Pair, corrupted: CorruptedBatch) -> Outcome:
        main, replaced, hidden = self.read_samples(pair, corrupted)
        real = corrupted.is_token().flatten()
        gate = pair.heads["copy"](hidden).squeeze(-1).float()
        original, shown = corrupted.input_ids.flatten(), replaced.ids.flatten()
        mlm, correct = vocabulary.copy_loss(main, hidden[real], original[real], shown[real], gate[real])
        top1_correct = real.masked_scatter(real, correct)[corrupted.masked_positions]
        observed = replaced.observed(corrupted) | {"top1_correct": top1_correct}
        return Outcome({"sampler": replaced.mlm, "mlm": mlm}, observed)
