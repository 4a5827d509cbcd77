"""Sentence-level detection: was this text corrupted at all? (Clark et al. 2020, appendix F).

The paper tried it together with replaced token detection and saw slightly lower scores. It is included so
that this negative result can be reproduced.

Next-sentence pairs are not included, because a token store packs documents end to end and marks neither
sentences nor a second segment; nor are contrasts with the other texts of a batch, because a loss must not
depend on how a batch is divided.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from electra.data.corpus.batches import Batch
from electra.foundation import seeds
from electra.foundation.config import share, weight
from electra.model.networks import Networks
from electra.model.pair import Discriminator, Pair
from electra.objectives.parts import masking, replacing
from electra.objectives.parts.detector_output import detect
from electra.objectives.parts.interface import CorruptedBatch, Outcome


@dataclass(frozen=True)
class Config(replacing.ReplacingOptions):
    """Options of the objective `sentence`."""

    discriminator_weight: float = weight(50.0)
    """Lambda: weight of the discriminator's loss (paper appendix A)."""
    untouched_share: float = share(0.2, evaluated=0.0)
    """Fraction of texts left without replacements (paper: 20 %)."""
    sentence_weight: float = weight(1.0)
    """Weight of the text-level loss."""


@dataclass(frozen=True)
class UntouchedBatch(CorruptedBatch):
    """A masked batch in which some texts get no replacements."""

    # [M] True: no replacement
    untouched: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))


class Objective(masking.MaskingObjective):
    """Loss = MLM + lambda * RTD + a cross-entropy per text: does it contain a replaced token?

    The prediction is made at the text's [CLS]. A text is a document, or the part of it that lies in a row.
    The generator also learns from texts without replacements. A text whose replacements all equal the
    original counts as uncorrupted. The paper gives no weight for this loss; here it is 1.
    """

    source = "Clark et al. 2020, ELECTRA, appendix F (sentence-level contrastive objective)"
    config: Config

    @property
    @override
    def weights(self) -> dict[str, float]:
        return {"mlm": 1.0, "rtd": self.config.discriminator_weight, "sentence": self.config.sentence_weight}

    @override
    def heads(self, networks: Networks) -> Mapping[str, nn.Module]:
        return {"sentence": nn.Linear(networks.main.hidden_size, 1)}

    @override
    def corrupt(self, batch: Batch, seed: int, progress: float) -> UntouchedBatch:
        corrupted = super().corrupt(batch, seed, progress)
        # "spared" names the random stream; another name would select other texts
        draws = seeds.uniforms(seeds.keys(seed, "spared", 0, batch.examples), batch.input_ids.shape[1])
        text_draws = np.take_along_axis(draws, batch.document_ids.clip(min=0), axis=1)
        untouched = torch.from_numpy((text_draws < self.config.untouched_share).reshape(-1))
        counts = corrupted.counts | {"sentence": int((batch.input_ids == self.specials["cls"]).sum())}
        values = vars(corrupted) | {"counts": counts}
        return UntouchedBatch(**values, untouched=untouched[corrupted.masked_positions])

    @override
    def forward(self, pair: Pair, corrupted: CorruptedBatch) -> Outcome:
        generator, discriminator = pair.auxiliary, pair.main
        assert generator is not None and isinstance(discriminator, Discriminator)
        assert isinstance(corrupted, UntouchedBatch)
        replaced = replacing.replace(generator, corrupted, self.config)
        shown = torch.where(corrupted.untouched, corrupted.targets, replaced.sampled)
        detection = detect(discriminator, corrupted, replacing.insert_samples(corrupted, shown))

        begins = (corrupted.input_ids == self.specials["cls"]).flatten()  # every text begins with [CLS]
        text_index = begins.cumsum(0) - 1  # index of the text that each position belongs to
        is_corrupted = torch.bincount(text_index[detection.replaced], minlength=int(begins.sum())) > 0
        logits = pair.heads["sentence"](detection.hidden[begins]).squeeze(-1).float()
        sentence = F.binary_cross_entropy_with_logits(logits, is_corrupted.float(), reduction="sum")
        losses = {"mlm": replaced.mlm, "rtd": detection.loss(), "sentence": sentence}
        return Outcome(losses, replaced.observed(corrupted) | detection.observed())
