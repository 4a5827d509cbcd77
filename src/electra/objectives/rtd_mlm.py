"""Replaced token detection on some rows of a batch, masked language modelling on the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from electra.data.corpus.batches import Batch
from electra.foundation.config import share, weight
from electra.model import flops
from electra.model.heads import GeneratorHead
from electra.model.networks import Networks
from electra.model.pair import Discriminator, Generator, Pair
from electra.objectives.parts import replacing, vocabulary
from electra.objectives.parts.interface import CorruptedBatch, Outcome

MLM_HEAD = "naming"  # name, in checkpoints, of the main network's MLM head


@dataclass(frozen=True)
class Config(replacing.NoisyOptions):
    """Options of the objective `rtd_mlm`."""

    discriminator_weight: float = weight(50.0)
    """Lambda: weight of the discriminator's loss (paper appendix A)."""
    mlm_weight: float = weight(5.0)
    """Weight of the main network's MLM loss."""
    mlm_share: float = share(0.5, evaluated=0.0)
    """Fraction of rows trained with the MLM loss; the rest use RTD."""
    mlm_first: float = share(0.0)
    """Fraction of training, at its start, in which every row uses the MLM loss and no generator runs."""


@dataclass(frozen=True)
class SplitBatch(replacing.NoisyBatch):
    """A masked batch, some rows of which use the MLM loss and the others RTD."""

    mlm_rows: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))  # [B] True: MLM


class Objective(replacing.NoisyObjective):
    """Loss = the small generator's MLM + lambda * RTD on some rows, the main network's MLM on the others.

    The generator reads and learns from the RTD rows alone. Rows alternate by example number, so every batch
    has the same proportion of both kinds.
    """

    source = "ours, after Clark et al. 2020 (section 3) and Devlin et al. 2019 (section 3.1)"
    config: Config

    @property
    @override
    def weights(self) -> dict[str, float]:
        return {"mlm": 1.0, "rtd": self.config.discriminator_weight, "naming": self.config.mlm_weight}

    @override
    def heads(self, networks: Networks) -> Mapping[str, nn.Module]:
        return {MLM_HEAD: GeneratorHead(networks.main)}

    @override
    def language_model(self, pair: Pair) -> Generator:
        head = pair.heads[MLM_HEAD]
        assert isinstance(head, GeneratorHead)
        return Generator(pair.main.encoder, head)

    @property
    @override
    def phases(self) -> Sequence[float]:
        return (self.config.mlm_first,)

    @override
    def sequence_flops(self, networks: Networks, length: int) -> float:
        mlm_first, mask_fraction = self.config.mlm_first, self.mean_mask_fraction
        mlm_share = mlm_first + (1 - mlm_first) * self.config.mlm_share
        mlm_flops = flops.sequence_flops(networks.main, None, length, masked_fraction=mask_fraction)
        rtd_flops = flops.sequence_flops(networks.auxiliary, networks.main, length, masked_fraction=mask_fraction)
        return mlm_share * mlm_flops + (1 - mlm_share) * rtd_flops

    @override
    def corrupt(self, batch: Batch, seed: int, progress: float) -> CorruptedBatch:
        masked = super().corrupt(batch, seed, progress)
        mlm_share = 1.0 if progress < self.config.mlm_first else self.config.mlm_share
        mlm_rows = np.floor((batch.examples + 1.0) * mlm_share) > np.floor(batch.examples * mlm_share)
        num_real = int((batch.document_ids[~mlm_rows] >= 0).sum())
        mlm_slots = mlm_rows[masked.masked_positions.numpy() // batch.input_ids.shape[1]]
        counts = {"mlm": int((~mlm_slots).sum()), "rtd": num_real, "naming": int(mlm_slots.sum())}
        drawn = self.draw_noise(batch, seed)[masked.masked_positions]
        values = vars(masked) | {"counts": counts}
        return SplitBatch(**values, mlm_rows=torch.from_numpy(mlm_rows), noise=drawn)

    @override
    def forward(self, pair: Pair, corrupted: CorruptedBatch) -> Outcome:
        discriminator, generator = pair.main, pair.auxiliary
        assert isinstance(discriminator, Discriminator) and generator is not None
        assert isinstance(corrupted, SplitBatch)
        mlm_rows, ids, slots = corrupted.mlm_rows, corrupted.masked_ids, corrupted.masked_positions
        rtd_rows = corrupted.rows(~mlm_rows)
        mlm_slots = mlm_rows[slots // ids.shape[1]]
        observed: dict[str, Tensor] = {}
        losses: dict[str, Tensor] = {}
        if rtd_rows.counts["rtd"]:
            replaced = replacing.replace(generator, rtd_rows, self.config, corrupted.noise[~mlm_slots])
            ids = ids.index_copy(0, (~mlm_rows).nonzero().squeeze(1), replaced.ids)
            losses["mlm"] = replaced.mlm
            observed = replaced.observed(rtd_rows)

        hidden = corrupted.encode(discriminator.encoder, ids)
        states, targets = hidden.flatten(0, 1)[slots[mlm_slots]], corrupted.targets[mlm_slots]
        losses["naming"], _ = vocabulary.loss_and_top1(self.language_model(pair), states, targets)
        if rtd_rows.counts["rtd"]:
            real = rtd_rows.is_token()
            is_replaced = (replaced.ids != rtd_rows.input_ids)[real]
            logits = discriminator.logits(hidden[~mlm_rows]).float()[real]
            losses["rtd"] = F.binary_cross_entropy_with_logits(logits, is_replaced.float(), reduction="sum")
            observed |= {"replaced_logits": logits.detach(), "replaced": is_replaced}
        return Outcome({name: losses.get(name, hidden.new_zeros(())) for name in self.weights}, observed)
