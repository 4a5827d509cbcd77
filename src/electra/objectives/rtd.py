"""Replaced token detection: the paper's objective (Clark et al. 2020, sections 3.1-3.2), generator and discriminator trained jointly."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional as F

from electra.data.batches import Batch
from electra.model.pair import Pair
from electra.objectives.parts import interface, masking, vocabulary
from electra.objectives.parts.interface import Corrupted, Outcome


@dataclass(frozen=True)
class Config:
    mask_fraction: float = 0.15
    """Share of each row's ordinary tokens that is masked."""
    final_mask_fraction: float | None = None
    """Where the mask rate ends when it moves linearly over the training (none: constant)."""
    mask_share: float = 0.85
    """Of the masked positions, the share that shows [MASK] to the generator; the rest shows the token as it is."""
    discriminator_weight: float = 50.0
    """Lambda: weight of the discriminator's loss (paper appendix A)."""
    temperature: float = 1.0
    """Softmax temperature the generator's samples are drawn at."""


class Objective(interface.Objective):
    """Loss = MLM + lambda * RTD; a token the generator happens to guess right is "original".

    Departures from the published code: positions are masked without replacement (it draws with replacement and averages ids where
    two samples collide), and samples are exact draws rather than float32 Gumbel-max with clamped noise.
    """

    networks = "pair"
    source = "Clark et al. 2020, ELECTRA, sections 3.1-3.2"
    config: Config

    @property
    def weights(self) -> dict[str, float]:
        return {"mlm": 1.0, "rtd": self.config.discriminator_weight}

    def corrupt(self, batch: Batch, seed: int, progress: float) -> Corrupted:
        return masking.mask_batch(
            batch,
            seed,
            fraction=masking.scheduled(self.config.mask_fraction, self.config.final_mask_fraction, progress),
            mask_share=self.config.mask_share,
            random_share=0.0,
            mask_id=self.specials["mask"],
            vocab_size=self.vocab_size,
            special_ids=list(self.specials.values()),
            counted={"mlm": True, "rtd": False},
        )

    def forward(self, pair: Pair, corrupted: Corrupted) -> Outcome:
        generator, discriminator = pair.generator, pair.discriminator
        assert generator is not None and discriminator is not None
        layout = (corrupted.position_ids, corrupted.piece_ids)

        hidden = generator.encoder(corrupted.masked_ids, *layout).flatten(0, 1)
        mlm, sampled, guesses = vocabulary.loss_and_sample(
            generator, hidden[corrupted.masked_positions], corrupted.targets, corrupted.uniforms, self.config.temperature
        )
        replaced_ids = corrupted.input_ids.flatten().index_copy(0, corrupted.masked_positions, sampled)
        real = corrupted.real().flatten()
        replaced = (replaced_ids != corrupted.input_ids.flatten())[real]

        hidden = discriminator.encoder(replaced_ids.view_as(corrupted.input_ids), *layout).flatten(0, 1)
        logits = discriminator.logits(hidden).float()[real]
        rtd = F.binary_cross_entropy_with_logits(logits, replaced.float(), reduction="sum")
        return Outcome(
            losses={"mlm": mlm, "rtd": rtd},
            observed={
                "guessed": guesses == corrupted.targets,
                "sample_correct": sampled == corrupted.targets,
                "replaced_logits": logits.detach(),
                "replaced": replaced,
                "sampled": torch.as_tensor(sampled),
            },
        )
