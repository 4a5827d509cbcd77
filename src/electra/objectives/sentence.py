"""A sentence-level objective beside replaced token detection: was this text corrupted at all? (Clark et al.
2020, appendix F).

The paper tried it and saw slightly lower scores; it is here so that the negative result can be tried again.

Not here, and why: next-sentence pairs, since a token store packs documents end to end and knows neither
sentences nor a second segment; contrasts against the other texts of a batch, since a loss must not depend on
how a batch is shared out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from electra.data.batches import Batch
from electra.foundation import seeds
from electra.foundation.config import share, weight
from electra.model.networks import Networks
from electra.model.pair import Discriminator, Pair
from electra.objectives.parts import interface, judging, masking, replacing
from electra.objectives.parts.interface import Corrupted, Outcome


@dataclass(frozen=True)
class Config(replacing.Options):
    discriminator_weight: float = weight(50.0)
    """Lambda: weight of the discriminator's loss (paper appendix A)."""
    untouched_share: float = share(0.2, evaluated=0.0)
    """Share of the texts that the discriminator reads without any replacement (paper: 20 %)."""
    sentence_weight: float = weight(1.0)
    """Weight of the loss over texts."""


@dataclass(frozen=True)
class Spared(Corrupted):
    # [M] True at the slots of untouched texts
    spared: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))


class Objective(interface.Objective):
    """Loss = MLM + lambda * RTD + a cross-entropy for each text: does it hold a replaced token? Answered from
    its [CLS].

    A text is a document, or the part of one that stands in a row. The generator learns from the untouched
    ones too. A text whose every replacement restored the original counts as uncorrupted. Departure: the paper
    names no weight for this loss; here it is 1.
    """

    source = "Clark et al. 2020, ELECTRA, appendix F (sentence-level contrastive objective)"
    config: Config

    @property
    def weights(self) -> dict[str, float]:
        return {"mlm": 1.0, "rtd": self.config.discriminator_weight, "sentence": self.config.sentence_weight}

    def heads(self, networks: Networks) -> Mapping[str, nn.Module]:
        return {"sentence": nn.Linear(networks.main.hidden_size, 1)}

    def corrupt(self, batch: Batch, seed: int, progress: float) -> Spared:
        corrupted = masking.mask_for(self, batch, seed, progress, counted={"mlm": True, "rtd": False})
        draws = seeds.uniforms(seeds.keys(seed, "spared", 0, batch.examples), batch.input_ids.shape[1])
        spared = np.take_along_axis(draws, batch.piece_ids.clip(min=0), axis=1) < self.config.untouched_share
        given = {f.name: getattr(corrupted, f.name) for f in fields(corrupted)}
        given["counts"] = corrupted.counts | {
            "sentence": int((batch.input_ids == self.specials["cls"]).sum())
        }
        return Spared(**given, spared=torch.from_numpy(spared.reshape(-1))[corrupted.masked_positions])

    def forward(self, pair: Pair, corrupted: Corrupted) -> Outcome:
        generator, discriminator = pair.auxiliary, pair.main
        assert (
            isinstance(corrupted, Spared)
            and generator is not None
            and isinstance(discriminator, Discriminator)
        )
        replaced = replacing.replace(generator, corrupted, self.config)
        ids = replacing.put(corrupted, torch.where(corrupted.spared, corrupted.targets, replaced.sampled))
        judged = judging.judge(discriminator, corrupted, ids)

        begins = (corrupted.input_ids == self.specials["cls"]).flatten()  # every text begins with [CLS]
        text = begins.cumsum(0) - 1  # the number of the text that each position belongs to
        is_corrupted = torch.bincount(text[judged.replaced], minlength=int(begins.sum())) > 0
        logits = pair.heads["sentence"](judged.hidden[begins]).squeeze(-1).float()
        sentence = F.binary_cross_entropy_with_logits(logits, is_corrupted.float(), reduction="sum")
        observed = {"guessed": replaced.guessed, **replaced.observed(corrupted), **judged.observed()}
        return Outcome({"mlm": replaced.mlm, "rtd": judged.loss(), "sentence": sentence}, observed)
