"""Masked language modelling, the BERT baseline (Devlin et al. 2019, section 3.1)."""

from dataclasses import dataclass

from typing_extensions import override

from electra.foundation.config import share
from electra.foundation.errors import ConfigError
from electra.model.pair import Generator, Pair
from electra.objectives.parts import masking, vocabulary
from electra.objectives.parts.interface import CorruptedBatch, Outcome


@dataclass(frozen=True)
class Config(masking.MaskingOptions):
    """Options of the objective `mlm`."""

    mask_share: float = share(0.8)
    """Fraction of the masked positions that show [MASK]."""
    random_share: float = share(0.1)
    """Fraction of the masked positions that show a random token; the rest keep the original."""

    def __post_init__(self) -> None:
        if self.mask_share + self.random_share > 1 + 1e-9:
            problem = f"mask_share {self.mask_share} plus random_share {self.random_share} is more than 1"
            fix = f"Use at most {1 - self.mask_share:g}"
            raise ConfigError(problem, key="objective.random_share", fix=fix)


class Objective(masking.MaskingObjective):
    """One full-size network learns to predict the masked tokens: a generator without a discriminator.

    Departures: there is no next-sentence prediction; masked positions are drawn anew in every epoch, without
    replacement.
    """

    main = "generator"
    auxiliary = False
    fixed_shapes = True
    source = "Devlin et al. 2019, BERT, section 3.1"
    config: Config

    @property
    @override
    def weights(self) -> dict[str, float]:
        return {"mlm": 1.0}

    @override
    def forward(self, pair: Pair, corrupted: CorruptedBatch) -> Outcome:
        main = pair.main
        assert isinstance(main, Generator)
        states = corrupted.masked_states(main)
        mlm, top1_correct = vocabulary.loss_and_top1(main, states, corrupted.targets, corrupted.is_slot)
        return Outcome(losses={"mlm": mlm}, observed={"top1_correct": top1_correct})
