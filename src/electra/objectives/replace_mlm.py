"""Replace MLM: masked language modelling on a generator's samples (Clark et al. 2020, section 3.5, Table 5).

It measures how much of ELECTRA's gain comes from never showing [MASK], which fine-tuning does not show
either.
"""

from __future__ import annotations

from typing_extensions import override

from electra.data.batches import Batch
from electra.model.pair import Generator, Pair
from electra.objectives.parts import interface, masking, replacing, vocabulary
from electra.objectives.parts.interface import Corrupted, Outcome

Config = replacing.Options


class Objective(interface.Objective):
    """Loss = the small generator's MLM + the full-size network's MLM on its samples.

    Both are at the same masked positions. The paper describes this arm in one sentence. Our choices: both
    losses weigh 1, weights are shared as between generator and discriminator, and the loss covers every
    masked position, including those where the sample equals the original.
    """

    main = "generator"
    source = "Clark et al. 2020, ELECTRA, section 3.5 (Table 5: Replace MLM)"
    config: replacing.Options

    @property
    @override
    def weights(self) -> dict[str, float]:
        return {"sampler": 1.0, "mlm": 1.0}

    @override
    def corrupt(self, batch: Batch, seed: int, progress: float) -> Corrupted:
        return masking.mask_for(self, batch, seed, progress, counted={"sampler": True, "mlm": True})

    @override
    def forward(self, pair: Pair, corrupted: Corrupted) -> Outcome:
        main, auxiliary = pair.main, pair.auxiliary
        assert isinstance(main, Generator) and auxiliary is not None
        replaced = replacing.replace(auxiliary, corrupted, self.config)
        hidden = main.encoder(replaced.ids, corrupted.position_ids, corrupted.piece_ids).flatten(0, 1)
        mlm, top1_correct = vocabulary.loss_and_top1(
            main, hidden[corrupted.masked_positions], corrupted.targets
        )
        return Outcome(
            losses={"sampler": replaced.mlm, "mlm": mlm},
            observed={"top1_correct": top1_correct, **replaced.observed(corrupted)},
        )
