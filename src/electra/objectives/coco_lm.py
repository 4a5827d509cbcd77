"""COCO-LM's corrective language modelling, without its sequence contrast (Meng et al. 2021, section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass

from torch.nn import functional as F

from electra.data.batches import Batch
from electra.foundation.config import weight
from electra.model.networks import Networks
from electra.model.pair import Generator, Pair
from electra.objectives import all_tokens_mlm
from electra.objectives.parts import interface, masking, replacing, vocabulary
from electra.objectives.parts.interface import Corrupted, Outcome


@dataclass(frozen=True)
class Config(replacing.Options):
    copy_weight: float = weight(50.0)
    """Weight of the copy gate's own loss (the paper's lambda)."""


class Objective(all_tokens_mlm.Objective):
    """A full-size network corrects what a small one wrote. Two losses on one gate D, the probability that the
    token is the original:

    `copy`: a cross-entropy of D against the truth, at every real token, which is replaced token detection.
    `mlm`: -log(D [the token shown is the original] + (1 - D) softmax) at the masked positions; it does not
    train D.

    Departures: the auxiliary network is the run's small generator, not one of few layers at full width;
    COCO-LM's sequence contrastive loss is left out, because it contrasts a text with the rest of its batch
    and so depends on how a batch is shared out. Differs from `all_tokens_mlm` (Clark et al. 2020) in that the
    gate has a loss of its own and words are learned where they were masked only.
    """

    source = "Meng et al. 2021, COCO-LM, section 3.2"
    config: Config

    @property
    def weights(self) -> dict[str, float]:
        return {"sampler": 1.0, "mlm": 1.0, "copy": self.config.copy_weight}

    def sequence_flops(self, networks: Networks, length: int) -> float:
        gate = 2 * 2 * networks.main.hidden_size * length
        return interface.Objective.sequence_flops(self, networks, length) + gate

    def corrupt(self, batch: Batch, seed: int, progress: float) -> Corrupted:
        return masking.mask_for(
            self, batch, seed, progress, counted={"sampler": True, "mlm": True, "copy": False}
        )

    def forward(self, pair: Pair, corrupted: Corrupted) -> Outcome:
        main, auxiliary, slots = pair.main, pair.auxiliary, corrupted.masked_positions
        assert isinstance(main, Generator) and auxiliary is not None
        replaced = replacing.replace(auxiliary, corrupted, self.config)
        real = corrupted.real().flatten()
        is_original = (replaced.ids == corrupted.input_ids).flatten()[real]
        hidden = main.encoder(replaced.ids, corrupted.position_ids, corrupted.piece_ids).flatten(0, 1)
        gate = pair.heads["copy"](hidden).squeeze(-1).float()
        copy = F.binary_cross_entropy_with_logits(gate[real], is_original.float(), reduction="sum")
        mlm, guessed = vocabulary.copy_loss(
            main, hidden[slots], corrupted.targets, replaced.sampled, gate[slots].detach()
        )
        observed = {"guessed": guessed, "replaced_logits": -gate.detach()[real], "replaced": ~is_original}
        return Outcome(
            {"sampler": replaced.mlm, "mlm": mlm, "copy": copy}, observed | replaced.observed(corrupted)
        )
