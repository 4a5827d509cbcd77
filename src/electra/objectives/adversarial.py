"""Adversarial training: a generator that wants to fool the discriminator (Clark et al. 2020, section 3.3 and
appendix F).

Our experiment, not the paper's: annealing from maximum likelihood to the adversarial gradient over the
training (`anneal_from`, `anneal_to`), with REINFORCE or with Gumbel-softmax. A reader of the paper proposed
it; we know of no published code or result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from electra.data.batches import Batch
from electra.foundation.config import check_positive, weight
from electra.foundation.errors import ConfigError
from electra.model.encoder import PLAIN, Variation
from electra.model.networks import Networks
from electra.model.pair import Discriminator, Pair
from electra.objectives.parts import interface, judging, masking, replacing, vocabulary
from electra.objectives.parts.interface import Corrupted, Outcome


@dataclass(frozen=True)
class Config(masking.Options):
    discriminator_weight: float = weight(50.0)
    """Lambda: weight of the discriminator's loss (paper appendix A)."""
    gradient: Literal["reinforce", "gumbel"] = "reinforce"
    """How the discriminator's loss teaches the generator: by reward, with a learned baseline, or through
    straight-through samples.
    """
    adversarial_weight: float = weight(1.0)
    """Weight of what the generator gains, per masked token, beside the masked language model's 1."""
    mlm_weight: float = weight(0.0)
    """What is left of the generator's masked-language-model loss where the training is fully adversarial
    (paper: nothing).
    """
    anneal_from: float = 0.0
    """Share of the training up to which the generator learns by maximum likelihood alone."""
    anneal_to: float = 0.0
    """Share of the training from which on it is fully adversarial (0: from the start, as in the paper)."""
    temperature: float = 1.0
    """Of the Gumbel-softmax: low is nearer to the samples and noisier. Samples themselves are drawn at 1."""
    entropy_weight: float = weight(0.0)
    """Reward for the generator's entropy, per masked token and nat: against collapse to a few tokens."""


class Objective(interface.Objective):
    """Discriminator: minimises lambda * RTD. Generator: weight 1 - a on MLM, a on the discriminator's loss,
    which it maximises.

    reinforce: the reward R of a sample is the discriminator's loss at its position; the gradient is (R - b) *
        grad log p(sample). The baseline b = -log sigmoid(w . h) is a head on the generator's states, fitted
        to R by cross-entropy. As the paper, this takes the discriminator's judgement of a position to depend
        on no other replacement.
    gumbel: the discriminator reads the sample's embedding, and its gradient there, reversed, goes to the
        generator through the Gumbel-softmax mixture of embeddings (Jang et al. 2017). The noise is drawn
        given the sample (Maddison et al. 2014), so that the forward pass is that of the exact sample; like
        dropout it comes from the generator that the loop seeds at each micro-batch.

    Departures: the baseline does not train the generator's encoder (the paper does not say); all masked
    slots' logits are held at once. The logged `mlm` and `adversarial` are the plain values; the schedule acts
    on their gradients.
    """

    source = "Clark et al. 2020, ELECTRA, section 3.3 and appendix F"
    feedback = True
    config: Config

    def __init__(self, config: Config, **world: Any) -> None:
        super().__init__(config, **world)
        if not 0 <= config.anneal_from <= config.anneal_to <= 1:
            raise ConfigError(
                f"from {config.anneal_from} to {config.anneal_to} is not a part of the training",
                key="objective.anneal_to",
            )
        check_positive(config, ("temperature", "discriminator_weight", "mask_fraction"), "objective.")

    @property
    def weights(self) -> dict[str, float]:
        config = self.config
        trains_mlm = config.anneal_to > 0 or config.mlm_weight > 0
        weights = {"mlm": float(trains_mlm), "rtd": config.discriminator_weight}
        if config.gradient == "reinforce":
            weights |= {"adversarial": config.adversarial_weight, "baseline": 1.0}
        return weights | ({"entropy": config.entropy_weight} if config.entropy_weight else {})

    def heads(self, networks: Networks) -> Mapping[str, nn.Module]:
        assert networks.auxiliary is not None
        return (
            {"baseline": nn.Linear(networks.auxiliary.hidden_size, 1)}
            if self.config.gradient == "reinforce"
            else {}
        )

    def sequence_flops(self, networks: Networks, length: int) -> float:
        total = super().sequence_flops(networks, length)
        if self.config.gradient == "gumbel":  # mixtures of embeddings, and back
            total += 2 * self.masked_share * length * 2 * self.vocab_size * networks.main.embedding_size
        return total

    def corrupt(self, batch: Batch, seed: int, progress: float) -> Corrupted:
        counted = dict.fromkeys(self.weights, True) | {"rtd": False}
        return replace(masking.mask_for(self, batch, seed, progress, counted=counted), progress=progress)

    def adversity(self, progress: float) -> float:
        """a: 0 while the generator learns by maximum likelihood, 1 when fully adversarial."""
        first, last = self.config.anneal_from, self.config.anneal_to
        return (
            min(max((progress - first) / (last - first), 0.0), 1.0)
            if first < last
            else float(progress >= last)
        )

    def forward(self, pair: Pair, corrupted: Corrupted) -> Outcome:
        generator, discriminator, config = pair.auxiliary, pair.main, self.config
        assert generator is not None and isinstance(discriminator, Discriminator)
        slots, targets, a = corrupted.masked_positions, corrupted.targets, self.adversity(corrupted.progress)

        states = generator.encoder(corrupted.masked_ids, corrupted.position_ids, corrupted.piece_ids).flatten(
            0, 1
        )[slots]
        log_p = generator.logits(states).float().log_softmax(-1)
        sampled = vocabulary.sample(log_p.detach().exp(), corrupted.uniforms)
        ids = replacing.put(corrupted, sampled)
        mlm = -log_p.gather(1, targets[:, None]).sum()
        entropy = -(log_p.exp() * log_p).sum(-1)

        variation = PLAIN
        if config.gradient == "gumbel":
            # Per masked token, where the discriminator's own loss is lambda times a mean over all tokens.
            fraction = masking.scheduled(config.mask_fraction, config.final_mask_fraction, corrupted.progress)
            force = a * config.adversarial_weight / (config.discriminator_weight * fraction)
            table = discriminator.encoder.token_table()
            mixtures = ((log_p + gumbel_given(log_p.detach(), sampled)) / config.temperature).softmax(
                -1
            ) @ table.detach()
            # zero, with the gradient of the mixtures, reversed
            nothing = force * (mixtures.detach() - mixtures)
            variation = Added(slots, nothing)
        judged = judging.judge(discriminator, corrupted, ids, variation)

        losses = {"mlm": with_gradient(mlm, 1 - a * (1 - config.mlm_weight)), "rtd": judged.loss()}
        if config.gradient == "reinforce":
            reward = judged.losses()[slots].detach()
            baseline_logits = pair.heads["baseline"](states.detach()).float().squeeze(-1)
            losses["adversarial"] = with_gradient(
                reinforce(log_p, sampled, reward, F.softplus(-baseline_logits).detach()), a
            )
            losses["baseline"] = F.binary_cross_entropy_with_logits(
                baseline_logits, torch.exp(-reward), reduction="sum"
            )
        if config.entropy_weight:
            losses["entropy"] = -entropy.sum()
        observed = {
            "guessed": log_p.argmax(-1) == targets,
            "sample_correct": sampled == targets,
            "sampled": sampled,
        }
        return Outcome(losses, observed | {"entropy": entropy.detach()} | judged.observed())


class Added(Variation):
    """Vectors [M, E] added to the embeddings at the masked slots [M] of the flattened batch."""

    def __init__(self, slots_M: Tensor, vectors_ME: Tensor) -> None:
        self.slots_M, self.vectors_ME = slots_M, vectors_ME

    def embed(self, words_BTE: Tensor) -> Tensor:
        added = self.vectors_ME.to(words_BTE.dtype)
        return words_BTE.flatten(0, 1).index_add(0, self.slots_M, added).view_as(words_BTE)


def with_gradient(loss: Tensor, factor: float) -> Tensor:
    """The loss as it is, its gradient times `factor`."""
    return factor * loss + (1 - factor) * loss.detach()


def reinforce(log_p_MV: Tensor, sampled_M: Tensor, reward_M: Tensor, baseline_M: Tensor) -> Tensor:
    """A loss of value minus the reward with REINFORCE's gradient (Williams 1992), summed over the slots."""
    surrogate = -((reward_M - baseline_M) * log_p_MV.gather(1, sampled_M[:, None]).squeeze(1)).sum()
    return surrogate - surrogate.detach() - reward_M.sum()


def gumbel_given(log_p_MV: Tensor, sampled_M: Tensor) -> Tensor:
    """Gumbel noise [M, V], drawn given that log p + noise is largest at the sample (Maddison et al. 2014).

    The largest sum is a Gumbel variable whatever it is that wins; the others follow theirs, cut off at it.
    """
    waits = torch.empty_like(log_p_MV).exponential_()
    winner = waits.gather(1, sampled_M[:, None])
    others = -torch.log(waits / log_p_MV.exp().clamp_min(torch.finfo(log_p_MV.dtype).tiny) + winner)
    return others.scatter(1, sampled_M[:, None], -torch.log(winner)) - log_p_MV
