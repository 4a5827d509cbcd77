"""Replaced token detection, the paper's objective (Clark et al. 2020, sections 3.1-3.2)."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from torch import Tensor
from torch.nn import functional as F
from typing_extensions import override

from electra.foundation.config import weight
from electra.model.pair import Discriminator, Pair
from electra.objectives.parts import masking, replacing
from electra.objectives.parts.detector_output import detect
from electra.objectives.parts.interface import CorruptedBatch, Outcome


@dataclass(frozen=True)
class Config(replacing.ReplacingOptions):
    """Options of the objective `rtd`."""

    discriminator_weight: float = weight(50.0)
    """Lambda: weight of the discriminator's loss (paper appendix A)."""
    generator: Literal["network", "unigram", "uniform"] = "network"
    """Source of the replacements. network: a masked language model; unigram: the tokens' frequencies in the
    training text; uniform: every token equally likely.
    """


class Objective(masking.MaskingObjective):
    """Loss = MLM + lambda * RTD; a sample that equals the original token counts as "original".

    Departures from the published code: positions are masked without replacement (it draws with replacement
    and averages ids where two samples collide), and samples are exact draws rather than float32 Gumbel-max
    with clamped noise.
    """

    source = "Clark et al. 2020, ELECTRA, sections 3.1-3.2"
    config: Config

    def __init__(self, config: Config, **context: Any) -> None:
        super().__init__(config, **context)
        self.noise: replacing.Noise | None = None
        if config.generator == "network":
            return
        counts = np.ones(self.vocab_size)
        if config.generator == "unigram":
            assert self.statistics is not None
            counts = self.statistics.counts.astype(np.float64)
        counts[list(self.specials.values())] = 0
        self.auxiliary = False  # the noise is drawn on the host
        self.noise = replacing.Noise(counts ** (1 / config.temperature))

    @property
    @override
    def weights(self) -> dict[str, float]:
        detection = {"rtd": self.config.discriminator_weight}
        return detection if self.noise else {"mlm": 1.0, **detection}

    def learned_positions(self, corrupted: CorruptedBatch) -> Tensor:
        """Returns the real tokens, from which the discriminator learns: a mask [B x T] or indices."""
        return corrupted.is_token().flatten()

    @override
    def forward(self, pair: Pair, corrupted: CorruptedBatch) -> Outcome:
        discriminator, config = pair.main, self.config
        assert isinstance(discriminator, Discriminator)
        losses: dict[str, Tensor] = {}
        observed: dict[str, Tensor] = {}
        if self.noise:
            forbidden = corrupted.targets if config.disallow_correct else None
            sampled = self.noise.draw(corrupted.uniforms, forbidden).to(corrupted.targets.device)
            ids = replacing.insert_samples(corrupted, sampled)
            observed = {"sample_correct": sampled == corrupted.targets, "sampled": sampled}
        else:
            assert pair.auxiliary is not None
            replaced = replacing.replace(pair.auxiliary, corrupted, config)
            ids, losses["mlm"] = replaced.ids, replaced.mlm
            observed = replaced.observed(corrupted)

        positions = self.learned_positions(corrupted)
        detection = detect(discriminator, corrupted, ids)
        logits, is_replaced = detection.logits[positions], detection.replaced[positions]
        losses["rtd"] = F.binary_cross_entropy_with_logits(logits, is_replaced.float(), reduction="sum")
        return Outcome(losses, observed | {"replaced_logits": logits.detach(), "replaced": is_replaced})
