"""TEAMS: multi-word selection together with replaced token detection (Shen et al. 2021, section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from electra.data.batches import Batch
from electra.foundation import seeds
from electra.foundation.config import check_at_least, weight
from electra.model import flops
from electra.model.heads import GeneratorHead
from electra.model.networks import Networks
from electra.model.pair import Discriminator, Pair
from electra.objectives.parts import masking, replacing, vocabulary
from electra.objectives.parts.detection import detect
from electra.objectives.parts.interface import CorruptedBatch, Outcome


@dataclass(frozen=True)
class Config(masking.Options):
    """Options of the objective `teams`."""

    discriminator_weight: float = weight(5.0)
    """Weight of the discriminator's loss (as in the released configuration; ELECTRA uses 50)."""
    selection_weight: float = weight(2.0)
    """Weight of the multi-word selection loss."""
    candidates: int = 5
    """Words to choose from at a masked position, including the original."""


@dataclass(frozen=True)
class CandidatesBatch(CorruptedBatch):
    """A masked batch with the random numbers that draw the candidates."""

    choices: Tensor = field(default_factory=lambda: torch.zeros(0, 0))  # [M, candidates - 1] in [0, 1)


class Objective(masking.MaskingObjective):
    """Loss = MLM + RTD + multi-word selection: a choice of the original among a few candidates.

    There is a selection at each masked position. The other candidates are distinct; they are drawn one after
    another from the generator's distribution without the original, independently of the replacement. So
    whether the shown word is among them says little about whether it is the original.

    Departures: both tasks use the last layer (TEAMS gives each a layer of its own), and the networks share
    the weights that model.sharing selects (TEAMS shares the bottom layers).
    """

    source = "Shen et al. 2021, Training ELECTRA Augmented with Multi-word Selection, section 3"
    config: Config

    def __init__(self, config: Config, **context: object) -> None:
        super().__init__(config, **context)  # type: ignore[arg-type]
        check_at_least(config, {"candidates": 2}, "objective.")

    @property
    @override
    def weights(self) -> dict[str, float]:
        return {
            "mlm": 1.0,
            "rtd": self.config.discriminator_weight,
            "selection": self.config.selection_weight,
        }

    @override
    def heads(self, networks: Networks) -> Mapping[str, nn.Module]:
        return {"selection": GeneratorHead(networks.main)}

    @override
    def sequence_flops(self, networks: Networks, length: int) -> float:
        full = networks.main
        flops_per_slot = (
            2 * full.hidden_size * full.embedding_size + 2 * self.config.candidates * full.embedding_size
        )
        # the generator's output layer runs a second time, without a gradient
        assert networks.auxiliary is not None
        drawing_flops = flops.generator_head_flops(networks.auxiliary, length, self.mean_mask_fraction)
        return (
            super().sequence_flops(networks, length)
            + 2 * self.mean_mask_fraction * length * flops_per_slot
            + drawing_flops
        )

    @override
    def corrupt(self, batch: Batch, seed: int, progress: float) -> CorruptedBatch:
        masked = super().corrupt(batch, seed, progress)
        num_others = self.config.candidates - 1
        draws = seeds.uniforms(
            seeds.keys(seed, "candidates", 0, batch.examples), batch.input_ids.shape[1] * num_others
        )
        choices = torch.from_numpy(draws.reshape(-1, num_others))[masked.masked_positions]
        return CandidatesBatch(**vars(masked), choices=choices)

    @override
    def forward(self, pair: Pair, corrupted: CorruptedBatch) -> Outcome:
        generator, discriminator, selection = pair.auxiliary, pair.main, pair.heads["selection"]
        assert generator is not None and isinstance(discriminator, Discriminator)
        assert isinstance(selection, GeneratorHead) and isinstance(corrupted, CandidatesBatch)
        slots, targets, uniforms = corrupted.masked_positions, corrupted.targets, corrupted.uniforms

        states = corrupted.masked_states(generator)
        mlm, sampled, top1_correct = vocabulary.loss_and_sample(generator, states, targets, uniforms)
        detection = detect(discriminator, corrupted, replacing.insert_samples(corrupted, sampled))

        with torch.no_grad():
            words = draw_candidates(generator.logits(states).float().softmax(-1), targets, corrupted.choices)
        query = selection.norm(F.gelu(selection.dense(detection.hidden[slots])))
        logits = (F.embedding(words, discriminator.encoder.token_table()) @ query[:, :, None]).squeeze(
            -1
        ) + selection.bias[words]
        # the original is the first candidate
        selection_loss = F.cross_entropy(logits.float(), torch.zeros_like(targets), reduction="sum")
        observed = {"top1_correct": top1_correct, "sample_correct": sampled == targets, "sampled": sampled}
        losses = {"mlm": mlm, "rtd": detection.loss(), "selection": selection_loss}
        return Outcome(losses, observed | detection.observed())


def draw_candidates(probabilities_MV: Tensor, targets_M: Tensor, choices_MC: Tensor) -> Tensor:
    """Returns [M, 1 + C]: the original, then C other tokens, drawn from the softmax without replacement.

    Args:
        probabilities_MV: The generator's softmax at each slot.
        targets_M: The original tokens.
        choices_MC: Uniform random numbers in [0, 1), one for each other token.
    """
    # positive everywhere, so that a softmax with all its mass on one word still yields others
    remaining = probabilities_MV.clamp_min(torch.finfo(torch.float32).tiny)
    words = [targets_M]
    for uniforms_M in choices_MC.unbind(1):
        remaining = remaining.scatter(1, words[-1][:, None], 0.0)
        words.append(vocabulary.sample(remaining, uniforms_M))
    return torch.stack(words, dim=1)
