"""Replace MLM: masked language modelling on a generator's samples (Clark et al. 2020, section 3.5, Table 5).

This ablation measures how much of ELECTRA's gain comes from never showing [MASK], which does not occur in
fine-tuning either.
"""

from torch import Tensor
from typing_extensions import override

from electra.model.pair import Generator, Pair
from electra.objectives.parts import masking, replacing, vocabulary
from electra.objectives.parts.interface import CorruptedBatch, Outcome

Config = replacing.ReplacingOptions


class Objective(masking.MaskingObjective):
    """Loss = the small generator's MLM + the full-size network's MLM on text with its samples.

    Both losses cover the masked positions, even where the sample equals the original. The paper describes
    this variant in one sentence. Our choices: both losses weigh 1, and the networks share weights as
    generator and discriminator do.
    """

    main = "generator"
    source = "Clark et al. 2020, ELECTRA, section 3.5 (Table 5: Replace MLM)"
    config: replacing.ReplacingOptions

    @property
    @override
    def weights(self) -> dict[str, float]:
        return {"sampler": 1.0, "mlm": 1.0}

    def read_samples(self, pair: Pair, corrupted: CorruptedBatch) -> tuple[Generator, replacing.Replaced, Tensor]:
        """Returns the main network, the batch with samples, and the network's states on it [B x T, D]."""
        main, auxiliary = pair.main, pair.auxiliary
        assert isinstance(main, Generator) and auxiliary is not None
        replaced = replacing.replace(auxiliary, corrupted, self.config)
        return main, replaced, corrupted.encode(main.encoder, replaced.ids).flatten(0, 1)

    @override
    def forward(self, pair: Pair, corrupted: CorruptedBatch) -> Outcome:
        main, replaced, hidden = self.read_samples(pair, corrupted)
        slots, targets = hidden[corrupted.masked_positions], corrupted.targets
        mlm, top1_correct = vocabulary.loss_and_top1(main, slots, targets)
        observed = replaced.observed(corrupted) | {"top1_correct": top1_correct}
        return Outcome({"sampler": replaced.mlm, "mlm": mlm}, observed)
