"""Two-stage training: first the generator, then the discriminator (Clark et al. 2020, section 3.3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from typing_extensions import override

from electra.data.corpus.batches import Batch
from electra.foundation.config import share
from electra.foundation.errors import ConfigError
from electra.model import flops
from electra.model.networks import Networks
from electra.model.pair import Discriminator, Pair
from electra.objectives import rtd
from electra.objectives.parts import replacing
from electra.objectives.parts.interface import CorruptedBatch, Outcome


@dataclass(frozen=True)
class Config(rtd.Config):
    """Options of the objective `two_stage`."""

    generator_share: float = share(0.5)
    """Fraction of steps that train the generator; the rest train the discriminator."""
    initialise: bool = True
    """Initialise the discriminator with the generator's weights (both must have the same size)."""


class Objective(rtd.Objective):
    """Stage one trains the generator, stage two the discriminator on the frozen generator's samples.

    Without `initialise`, the paper's discriminators sometimes never left the majority class: watch `recall`,
    `gain` and the collapse alarm.

    The networks share no weights, because the discriminator's updates would change the frozen generator. The
    paper gives both stages the same number of steps and says nothing about schedules; here the learning rate
    and the mask fraction each run through a full schedule in each stage. In stage two the optimizer leaves
    the generator's moments unchanged; the discriminator's moments start from zero, with their own bias
    correction.
    """

    fixed_shapes = False
    source = "Clark et al. 2020, ELECTRA, section 3.3"
    config: Config

    def __init__(self, config: Config, **context: Any) -> None:
        super().__init__(config, **context)
        if self.noise is not None:
            problem, fix = "two-stage training needs a generator to train", "Remove `objective.generator`"
            raise ConfigError(problem, key="objective.generator", fix=fix)

    @property
    @override
    def required_settings(self) -> Mapping[str, Any]:
        same_size = {"generator_width": 1.0, "generator_depth": 1.0} if self.config.initialise else {}
        return {"sharing": "none", **same_size}

    def in_stage_two(self, progress: float) -> bool:
        """Whether this fraction of the training lies in stage two."""
        return progress >= self.config.generator_share

    @property
    @override
    def stages(self) -> Sequence[float]:
        return (self.config.generator_share,)

    @override
    def begin_update(self, pair: Pair, step: int, progress: float, new_stage: bool) -> None:
        generator, discriminator = pair.auxiliary, pair.main
        assert generator is not None and isinstance(discriminator, Discriminator)
        stage_two = self.in_stage_two(progress)
        generator.requires_grad_(not stage_two)
        if stage_two and self.config.initialise and new_stage:
            discriminator.encoder.load_state_dict(generator.encoder.state_dict())

    @override
    def sequence_flops(self, networks: Networks, length: int) -> float:
        """Counts half the generator's cost in stage two, where it is frozen and has no backward pass."""
        share = self.config.generator_share
        fraction = self.mean_mask_fraction
        generator_flops = flops.sequence_flops(networks.auxiliary, None, length, masked_fraction=fraction)
        discriminator_flops = flops.sequence_flops(None, networks.main, length)
        return share * generator_flops + (1 - share) * (generator_flops / 2 + discriminator_flops)

    def stage_progress(self, progress: float) -> float:
        """Returns the fraction of the current stage that is done, 0 to 1."""
        share = self.config.generator_share
        if self.in_stage_two(progress) and share < 1:
            return (progress - share) / (1 - share)
        return progress / share

    @override
    def corrupt(self, batch: Batch, seed: int, progress: float) -> CorruptedBatch:
        corrupted = replace(super().corrupt(batch, seed, self.stage_progress(progress)), progress=progress)
        if self.in_stage_two(progress):
            return corrupted
        return replace(corrupted, counts=corrupted.counts | {"rtd": 0})

    @override
    def forward(self, pair: Pair, corrupted: CorruptedBatch) -> Outcome:
        if self.in_stage_two(corrupted.progress):
            return super().forward(pair, corrupted)
        assert pair.auxiliary is not None
        replaced = replacing.replace(pair.auxiliary, corrupted, self.config)
        losses = {"mlm": replaced.mlm, "rtd": replaced.mlm.new_zeros(())}
        return Outcome(losses, replaced.observed(corrupted))
