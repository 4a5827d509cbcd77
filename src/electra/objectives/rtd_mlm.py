"""Replaced token detection and masked language modelling in one network: on some rows of a batch it names the
tokens behind [MASK], on the others it judges what a small generator wrote there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from electra.data.batches import Batch
from electra.foundation.config import share, weight
from electra.foundation.errors import ConfigError
from electra.model import flops
from electra.model.heads import GeneratorHead
from electra.model.networks import Networks
from electra.model.pair import Discriminator, Generator, Pair
from electra.objectives.parts import interface, masking, noise, replacing, vocabulary
from electra.objectives.parts.interface import Corrupted, Outcome

HEAD = "naming"


@dataclass(frozen=True)
class Config(replacing.Options):
    discriminator_weight: float = weight(50.0)
    """Lambda: weight of the discriminator's loss (paper appendix A)."""
    naming_weight: float = weight(5.0)
    """Weight of the loss of naming masked tokens."""
    naming_share: float = share(0.5, evaluated=0.0)
    """Share of the rows whose masked tokens the main network names; it judges the other rows."""
    naming_first: float = share(0.0)
    """Share of the training in which every row is named: a masked language model without a generator."""
    noise_share: float = share(0.0, evaluated=0.0)
    """Share of the replacements that are drawn from the tokens' frequencies to the power 3/4. A generator
    seldom writes a rare word: from it alone the network learns that rare words are original.
    """


@dataclass(frozen=True)
class Shared(noise.Noisy):
    """A masked batch that says in which rows [B] the main network names the masked tokens."""

    named: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))


class Objective(interface.Objective):
    """Loss = on judged rows MLM of the small generator + lambda * RTD; on named rows MLM of the main network.

    The generator reads and learns from the judged rows alone. Rows take turns by the number of their example,
    so that every batch holds both in the same proportion.
    """

    source = "ours; of the parts of Clark et al. 2020 (section 3) and Devlin et al. 2019 (section 3.1)"
    config: Config

    def __init__(self, config: Config, **world: Any) -> None:
        super().__init__(config, **world)
        if config.noise_share and self.statistics is None:
            raise ConfigError("noise needs the training text", key="objective.noise_share")

    @cached_property
    def frequencies(self) -> replacing.Noise:
        return noise.frequencies(self)

    @property
    def weights(self) -> dict[str, float]:
        return {
            "mlm": 1.0,
            "rtd": self.config.discriminator_weight,
            "naming": self.config.naming_weight,
        }

    def heads(self, networks: Networks) -> Mapping[str, nn.Module]:
        return {HEAD: GeneratorHead(networks.main)}

    def language_model(self, pair: Pair) -> Generator:
        head = pair.heads[HEAD]
        assert isinstance(head, GeneratorHead)
        return Generator(pair.main.encoder, head)

    def share_named(self, progress: float) -> float:
        return 1.0 if progress < self.config.naming_first else self.config.naming_share

    def phase(self, step: int, total_steps: int) -> tuple[int, int]:
        judges = lambda step: step / total_steps >= self.config.naming_first  # noqa: E731
        switch = bisect_left(range(total_steps), True, key=judges)
        return (0, switch) if step < switch else (switch, total_steps)

    def sequence_flops(self, networks: Networks, length: int) -> float:
        first, small, full, masked = (
            self.config.naming_first,
            networks.auxiliary,
            networks.main,
            self.masked_share,
        )
        named = first + (1 - first) * self.config.naming_share
        naming = flops.sequence_flops(full, None, length, masked_fraction=masked)
        judging = flops.sequence_flops(small, full, length, masked_fraction=masked)
        return named * naming + (1 - named) * judging

    def corrupt(self, batch: Batch, seed: int, progress: float) -> Corrupted:
        masked = masking.mask_for(
            self, batch, seed, progress, counted={"mlm": True, "rtd": False, "naming": True}
        )
        share = self.share_named(progress)
        turns = np.floor((batch.examples + 1.0) * share) > np.floor(batch.examples * share)
        real = int((batch.piece_ids[~turns] >= 0).sum())
        slots = turns[masked.masked_positions.numpy() // batch.input_ids.shape[1]]
        counts = {"mlm": int((~slots).sum()), "rtd": real, "naming": int(slots.sum())}
        drawn = noise.draw(self, batch, seed)[masked.masked_positions]
        return Shared(**vars(masked) | {"counts": counts}, named=torch.from_numpy(turns), noise=drawn)

    def forward(self, pair: Pair, corrupted: Corrupted) -> Outcome:
        discriminator, generator = pair.main, pair.auxiliary
        assert isinstance(discriminator, Discriminator) and generator is not None
        assert isinstance(corrupted, Shared)
        named, ids = corrupted.named, corrupted.masked_ids
        judged = corrupted.rows(~named)
        slots = corrupted.masked_positions
        at_named = named[slots // ids.shape[1]]
        observed: dict[str, Tensor] = {}
        losses: dict[str, Tensor] = {}
        if judged.counts["rtd"]:
            replaced = noise.replace(generator, judged, self.config, corrupted.noise[~at_named])
            read = replaced.ids
            ids = ids.index_copy(0, (~named).nonzero().squeeze(1), read)
            losses["mlm"] = replaced.mlm
            observed = {"guessed": replaced.guessed, **replaced.observed(judged)}

        hidden = discriminator.encoder(ids, corrupted.position_ids, corrupted.piece_ids)
        losses["naming"], _ = vocabulary.loss_and_guessed(
            self.language_model(pair), hidden.flatten(0, 1)[slots[at_named]], corrupted.targets[at_named]
        )
        if judged.counts["rtd"]:
            real = judged.real()
            is_replaced = (read != judged.input_ids)[real]
            logits = discriminator.logits(hidden[~named], judged.position_ids).float()[real]
            losses["rtd"] = F.binary_cross_entropy_with_logits(logits, is_replaced.float(), reduction="sum")
            observed |= {"replaced_logits": logits.detach(), "replaced": is_replaced}
        return Outcome({name: losses.get(name, hidden.new_zeros(())) for name in self.weights}, observed)
