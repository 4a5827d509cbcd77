"""Replaced token detection and masked language modelling in one network: of the chosen positions the main
network names some, from [MASK], and judges the others, which a small generator has filled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from electra import seeds
from electra.data.batches import Batch
from electra.errors import ConfigError
from electra.model import flops
from electra.model.heads import GeneratorHead
from electra.model.pair import Discriminator, Generator, Pair
from electra.objectives.parts import interface, masking, replacing, vocabulary
from electra.objectives.parts.interface import Corrupted, Outcome, Shapes

HEAD = "naming"


@dataclass(frozen=True)
class Config(replacing.Options):
    discriminator_weight: float = 50.0
    """Lambda: weight of the discriminator's loss (paper appendix A)."""
    naming_weight: float = 1.0
    """Weight of the loss of naming masked tokens."""
    naming_share: float = 0.5
    """Of the chosen positions, the share that the main network reads as [MASK] and names."""
    naming: Literal["positions", "rows"] = "positions"
    """positions: each row holds both; rows: a row's chosen positions are all named or all judged."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.naming_share <= 1:
            raise ConfigError(
                f"must be a share from 0 to 1, not {self.naming_share}", key="objective.naming_share"
            )


@dataclass(frozen=True)
class Shared(Corrupted):
    """A masked batch that says at which slots [M] the main network names the token."""

    named: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))


class Objective(interface.Objective):
    """Loss = MLM of the small generator + lambda * RTD + MLM of the main network, all in one pass of each.

    The generator reads [MASK] at every chosen position and learns there. The main network reads its samples
    at some and [MASK] at the others (`naming_share`); it judges every real token that is not masked.
    """

    source = "ours; of the parts of Clark et al. 2020 (section 3) and Devlin et al. 2019 (section 3.1)"
    config: Config

    @property
    def weights(self) -> dict[str, float]:
        return {
            "mlm": 1.0,
            "rtd": self.config.discriminator_weight,
            "naming": self.config.naming_weight,
        }

    def heads(self, shapes: Shapes) -> Mapping[str, nn.Module]:
        return {HEAD: GeneratorHead(shapes.main)}

    def language_model(self, pair: Pair) -> Generator:
        head = pair.heads[HEAD]
        assert isinstance(head, GeneratorHead)
        return Generator(pair.main.encoder, head)

    def sequence_flops(self, shapes: Shapes, length: int) -> float:
        named = self.masked_share * self.config.naming_share
        return super().sequence_flops(shapes, length) + 2 * flops.vocabulary_flops(shapes.main, length, named)

    def corrupt(self, batch: Batch, seed: int, progress: float) -> Corrupted:
        masked = masking.mask_for(
            self, batch, seed, progress, counted={"mlm": True, "rtd": False, "naming": True}
        )
        T = batch.input_ids.shape[1]
        draws = seeds.uniforms(seeds.keys(seed, "naming", 0, batch.examples), T)
        if self.config.naming == "rows":
            draws = draws[:, :1].repeat(T, axis=1)
        named = torch.from_numpy(draws.reshape(-1) < self.config.naming_share)[masked.masked_positions]
        num_named = int(named.sum())
        counts = masked.counts | {"rtd": masked.counts["rtd"] - num_named, "naming": num_named}
        return Shared(**vars(masked) | {"counts": counts}, named=named)

    def forward(self, pair: Pair, corrupted: Corrupted) -> Outcome:
        discriminator, generator = pair.main, pair.auxiliary
        assert isinstance(discriminator, Discriminator) and generator is not None
        assert isinstance(corrupted, Shared)
        named, positions = corrupted.named, corrupted.masked_positions
        replaced = replacing.replace(generator, corrupted, self.config)
        shown = torch.where(named, self.specials["mask"], replaced.sampled)
        ids = replacing.put(corrupted, shown)
        judged = corrupted.real().flatten().index_fill(0, positions[named], False)

        hidden = discriminator.encoder(ids, corrupted.position_ids, corrupted.piece_ids).flatten(0, 1)
        is_replaced = (ids != corrupted.input_ids).flatten()[judged]
        logits = discriminator.logits(hidden).float()[judged]
        rtd = F.binary_cross_entropy_with_logits(logits, is_replaced.float(), reduction="sum")
        naming, _ = vocabulary.loss_and_guessed(
            self.language_model(pair), hidden[positions[named]], corrupted.targets[named]
        )
        observed = {"replaced_logits": logits.detach(), "replaced": is_replaced}
        return Outcome(
            {"mlm": replaced.mlm, "rtd": rtd, "naming": naming},
            {"guessed": replaced.guessed, **replaced.observed(corrupted), **observed},
        )
