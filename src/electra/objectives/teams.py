"""Multi-word selection beside replaced token detection: TEAMS (Shen et al. 2021, section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from electra.data.batches import Batch
from electra.foundation import seeds
from electra.foundation.config import check_at_least, weight
from electra.model import flops
from electra.model.heads import GeneratorHead
from electra.model.networks import Networks
from electra.model.pair import Discriminator, Pair
from electra.objectives.parts import interface, judging, masking, replacing, vocabulary
from electra.objectives.parts.interface import Corrupted, Outcome


@dataclass(frozen=True)
class Config(masking.Options):
    discriminator_weight: float = weight(5.0)
    """Weight of the discriminator's loss (that of the released configuration; ELECTRA's is 50)."""
    selection_weight: float = weight(2.0)
    """Weight of the selection's loss."""
    candidates: int = 5
    """Words to choose from at a masked position, the original among them."""


@dataclass(frozen=True)
class Selected(Corrupted):
    """A masked batch with the random numbers of the candidates, [M, candidates - 1]."""

    choices: Tensor = field(default_factory=lambda: torch.zeros(0, 0))


class Objective(interface.Objective):
    """Loss = MLM + RTD + at each masked position, which of a few candidates is the original? The others are
    drawn by the generator.

    The others are distinct, drawn one after another along the generator's distribution without the original,
    and independently of the replacement: whether the word shown is among them says little of whether it is
    the original.

    Departures: both tasks read the same last layer (TEAMS gives each a layer of its own), and the networks
    share what model.sharing says (there: bottom layers).
    """

    source = "Shen et al. 2021, Training ELECTRA Augmented with Multi-word Selection, section 3"
    config: Config

    def __init__(self, config: Config, **world: object) -> None:
        super().__init__(config, **world)  # type: ignore[arg-type]
        check_at_least(config, {"candidates": 2}, "objective.")

    @property
    def weights(self) -> dict[str, float]:
        return {
            "mlm": 1.0,
            "rtd": self.config.discriminator_weight,
            "selection": self.config.selection_weight,
        }

    def heads(self, networks: Networks) -> Mapping[str, nn.Module]:
        return {"selection": GeneratorHead(networks.main)}

    def sequence_flops(self, networks: Networks, length: int) -> float:
        full = networks.main
        per_slot = (
            2 * full.hidden_size * full.embedding_size + 2 * self.config.candidates * full.embedding_size
        )
        # it is asked for its distribution a second time, without a gradient
        assert networks.auxiliary is not None
        drawing = flops.generator_head_flops(networks.auxiliary, length, self.masked_share)
        return super().sequence_flops(networks, length) + 2 * self.masked_share * length * per_slot + drawing

    def corrupt(self, batch: Batch, seed: int, progress: float) -> Corrupted:
        masked = masking.mask_for(
            self, batch, seed, progress, counted={"mlm": True, "rtd": False, "selection": True}
        )
        others = self.config.candidates - 1
        draws = seeds.uniforms(
            seeds.keys(seed, "candidates", 0, batch.examples), batch.input_ids.shape[1] * others
        )
        choices = torch.from_numpy(draws.reshape(-1, others))[masked.masked_positions]
        return Selected(**vars(masked), choices=choices)

    def forward(self, pair: Pair, corrupted: Corrupted) -> Outcome:
        generator, discriminator, selection = pair.auxiliary, pair.main, pair.heads["selection"]
        assert generator is not None and isinstance(discriminator, Discriminator)
        assert isinstance(selection, GeneratorHead) and isinstance(corrupted, Selected)
        slots, targets, uniforms = corrupted.masked_positions, corrupted.targets, corrupted.uniforms

        states = generator.encoder(corrupted.masked_ids, corrupted.position_ids, corrupted.piece_ids).flatten(
            0, 1
        )[slots]
        mlm, sampled, guessed = vocabulary.loss_and_sample(generator, states, targets, uniforms)
        judged = judging.judge(discriminator, corrupted, replacing.put(corrupted, sampled))

        with torch.no_grad():
            words = draw_candidates(generator.logits(states).float().softmax(-1), targets, corrupted.choices)
        query = selection.norm(F.gelu(selection.dense(judged.hidden[slots])))
        logits = (F.embedding(words, discriminator.encoder.token_table()) @ query[:, :, None]).squeeze(
            -1
        ) + selection.bias[words]
        # the original is the first
        chosen = F.cross_entropy(logits.float(), torch.zeros_like(targets), reduction="sum")
        observed = {"guessed": guessed, "sample_correct": sampled == targets, "sampled": sampled}
        return Outcome({"mlm": mlm, "rtd": judged.loss(), "selection": chosen}, observed | judged.observed())


def draw_candidates(probabilities_MV: Tensor, targets_M: Tensor, choices_MC: Tensor) -> Tensor:
    """The original and as many others as choices [M, 1 + C], drawn without replacement along the softmax."""
    # a softmax that is all in one word still has others
    left = probabilities_MV.clamp_min(torch.finfo(torch.float32).tiny)
    words = [targets_M]
    for uniforms_M in choices_MC.unbind(1):
        left = left.scatter(1, words[-1][:, None], 0.0)
        words.append(vocabulary.sample(left, uniforms_M))
    return torch.stack(words, dim=1)
