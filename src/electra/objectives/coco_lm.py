"""COCO-LM's corrective language modelling, without its sequence contrast (Meng et al. 2021, section 3.2)."""

from dataclasses import dataclass

from torch.nn import functional as F
from typing_extensions import override

from electra.foundation.config import weight
from electra.model.networks import Networks
from electra.model.pair import Pair
from electra.objectives import all_tokens_mlm
from electra.objectives.parts import interface, replacing, vocabulary
from electra.objectives.parts.interface import CorruptedBatch, Outcome


@dataclass(frozen=True)
class Config(replacing.ReplacingOptions):
    """Options of the objective `coco_lm`."""

    copy_weight: float = weight(50.0)
    """Weight of the copy gate's loss (the paper's lambda)."""


class Objective(all_tokens_mlm.Objective):
    """A full-size network corrects a small generator's text, with two losses on one copy gate.

    The gate D is the probability that a token is the original. The losses:

    copy: cross-entropy of D at every real token, which is replaced token detection.

    mlm: -log(D [the token shown is the original] + (1 - D) softmax) at the masked positions; it does not
    train D.

    Departures: the auxiliary network is the run's small generator instead of a network with few layers of
    full width; COCO-LM's sequence contrastive loss is left out, because it contrasts a text with the rest of
    its batch and so depends on how a batch is divided. Unlike in `all_tokens_mlm` (Clark et al. 2020), the
    gate has a loss of its own, and the softmax is trained only at masked positions.
    """

    token_losses = ("copy",)
    source = "Meng et al. 2021, COCO-LM, section 3.2"
    config: Config

    @property
    @override
    def weights(self) -> dict[str, float]:
        return {"sampler": 1.0, "mlm": 1.0, "copy": self.config.copy_weight}

    @override
    def sequence_flops(self, networks: Networks, length: int) -> float:
        """Adds the gate, which runs at every position; the output layer runs at the masked ones."""
        gate_flops = 2 * 2 * networks.main.hidden_size * length
        return interface.Objective.sequence_flops(self, networks, length) + gate_flops

    @override
    def forward(self, pair: Pair, corrupted: CorruptedBatch) -> Outcome:
        main, replaced, hidden = self.read_samples(pair, corrupted)
        slots, real = corrupted.masked_positions, corrupted.is_token().flatten()
        is_original = (replaced.ids == corrupted.input_ids).flatten()[real]
        gate = pair.heads["copy"](hidden).squeeze(-1).float()
        copy = F.binary_cross_entropy_with_logits(gate[real], is_original.float(), reduction="sum")
        shown, gate_M = replaced.sampled, gate[slots].detach()
        mlm, top1_correct = vocabulary.copy_loss(main, hidden[slots], corrupted.targets, shown, gate_M)
        replaced_logits = -gate.detach()[real]
        observed = {
            "top1_correct": top1_correct,
            "replaced_logits": replaced_logits,
            "replaced": ~is_original,
        }
        losses = {"sampler": replaced.mlm, "mlm": mlm, "copy": copy}
        return Outcome(losses, replaced.observed(corrupted) | observed)
