"""Masked language modelling, the BERT baseline (Devlin et al. 2019, section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass

from electra.data.batches import Batch
from electra.foundation.config import share
from electra.foundation.errors import ConfigError
from electra.model.pair import Generator, Pair
from electra.objectives.parts import interface, masking, vocabulary
from electra.objectives.parts.interface import Corrupted, Outcome


@dataclass(frozen=True)
class Config(masking.Options):
    mask_share: float = share(0.8)
    """Of the masked positions, the share that shows [MASK]."""
    random_share: float = share(0.1)
    """Of the masked positions, the share that shows a random token; the rest shows the token as it is."""

    def __post_init__(self) -> None:
        if self.mask_share + self.random_share > 1 + 1e-9:
            raise ConfigError(
                f"with mask_share {self.mask_share} there is no room for {self.random_share}",
                key="objective.random_share",
            )


class Objective(interface.Objective):
    """One network of the full size learns to predict the masked tokens: a generator without a discriminator.

    Departures: no next-sentence prediction; masks are drawn anew in every epoch, without replacement.
    """

    main = "generator"
    auxiliary = False
    source = "Devlin et al. 2019, BERT, section 3.1"
    config: Config

    @property
    def weights(self) -> dict[str, float]:
        return {"mlm": 1.0}

    def corrupt(self, batch: Batch, seed: int, progress: float) -> Corrupted:
        return masking.mask_for(
            self, batch, seed, progress, counted={"mlm": True}, random_share=self.config.random_share
        )

    def forward(self, pair: Pair, corrupted: Corrupted) -> Outcome:
        main = pair.main
        assert isinstance(main, Generator)
        hidden = main.encoder(corrupted.masked_ids, corrupted.position_ids, corrupted.piece_ids).flatten(0, 1)
        mlm, guessed = vocabulary.loss_and_guessed(
            main, hidden[corrupted.masked_positions], corrupted.targets
        )
        return Outcome(losses={"mlm": mlm}, observed={"guessed": guessed})
