"""First the generator, then the discriminator (Clark et al. 2020, section 3.3 and Figure 3, right)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from electra.data.batches import Batch
from electra.foundation.config import share
from electra.foundation.errors import ConfigError
from electra.model import flops
from electra.model.networks import Networks
from electra.model.pair import Discriminator, Pair
from electra.objectives import rtd
from electra.objectives.parts import replacing
from electra.objectives.parts.interface import Corrupted, Outcome


@dataclass(frozen=True)
class Config(rtd.Config):
    generator_share: float = share(0.5)
    """Share of the steps in which the generator learns; the discriminator learns in the others."""
    initialise: bool = True
    """The discriminator begins with the generator's weights (which takes two networks of one size)."""


class Objective(rtd.Objective):
    """Stage one: the masked language model alone. Stage two: the discriminator alone, on samples of the
    generator, which is frozen.

    Without `initialise` the paper saw discriminators that never leave the majority class: watch `recall`,
    `gain` and the collapse alarm.

    The networks share no weights: what the discriminator learns would move the frozen generator. The paper
    gives both stages the same number of steps and says nothing of schedules; here learning rate and mask rate
    run through theirs once in each stage. The optimizer keeps the generator's moments still in stage two, and
    the discriminator's begin there, with a bias correction of their own.
    """

    source = "Clark et al. 2020, ELECTRA, section 3.3"
    config: Config

    def __init__(self, config: Config, **world: Any) -> None:
        super().__init__(config, **world)
        if self.noise is not None:
            raise ConfigError(
                "two-stage training needs a generator to train",
                key="objective.generator",
                fix="Leave it out",
            )

    @property
    def needs(self) -> Mapping[str, Any]:
        one_size = {"generator_width": 1.0, "generator_depth": 1.0} if self.config.initialise else {}
        return {"sharing": "none", **one_size}

    def second(self, progress: float) -> bool:
        return progress >= self.config.generator_share

    def stage(self, step: int, total_steps: int) -> tuple[int, int]:
        switch = bisect_left(range(total_steps), True, key=lambda step: self.second(step / total_steps))
        return (0, switch) if step < switch else (switch, total_steps)

    def begin_update(self, pair: Pair, step: int, total_steps: int) -> None:
        generator, discriminator = pair.auxiliary, pair.main
        assert generator is not None and isinstance(discriminator, Discriminator)
        second = self.second(step / total_steps)
        generator.requires_grad_(not second)
        if second and self.config.initialise and step == self.stage(step, total_steps)[0]:
            discriminator.encoder.load_state_dict(generator.encoder.state_dict())

    def sequence_flops(self, networks: Networks, length: int) -> float:
        """In stage two the frozen generator has no backward pass: half of its cost."""
        share = self.config.generator_share
        generator = flops.sequence_flops(networks.auxiliary, None, length, masked_fraction=self.masked_share)
        discriminator = flops.sequence_flops(None, networks.main, length)
        once_more = 0.0 if self.config.sampling_dropout else generator / 2
        return share * generator + (1 - share) * (generator / 2 + discriminator) + once_more

    def within(self, progress: float) -> float:
        """How far the stage at hand is, from 0 to 1."""
        share = self.config.generator_share
        return (progress - share) / (1 - share) if self.second(progress) and share < 1 else progress / share

    def corrupt(self, batch: Batch, seed: int, progress: float) -> Corrupted:
        corrupted = replace(super().corrupt(batch, seed, self.within(progress)), progress=progress)
        return (
            corrupted if self.second(progress) else replace(corrupted, counts=corrupted.counts | {"rtd": 0})
        )

    def forward(self, pair: Pair, corrupted: Corrupted) -> Outcome:
        """In stage two the frozen generator's loss is only watched."""
        if self.second(corrupted.progress):
            return super().forward(pair, corrupted)
        assert pair.auxiliary is not None
        replaced = replacing.replace(pair.auxiliary, corrupted, self.config)
        observed = {"guessed": replaced.guessed, **replaced.observed(corrupted)}
        return Outcome({"mlm": replaced.mlm, "rtd": replaced.mlm.new_zeros(())}, observed)
