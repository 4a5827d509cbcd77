"""Adversarial training: the generator learns to fool the discriminator (Clark et al. 2020, section 3.3).

Details are in the paper's appendix F. Two options are not in the paper, and we know of no published result:
annealing from maximum likelihood to the adversarial gradient (`anneal_from`, `anneal_to`), and Gumbel-softmax
instead of REINFORCE.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from electra.data.corpus.batches import Batch
from electra.foundation.config import check_positive, weight
from electra.foundation.errors import ConfigError
from electra.model.encoder import PLAIN, Variation
from electra.model.networks import Networks
from electra.model.pair import Discriminator, Pair
from electra.objectives.parts import masking, replacing, vocabulary
from electra.objectives.parts.detector_output import detect
from electra.objectives.parts.interface import CorruptedBatch, Outcome


@dataclass(frozen=True)
class Config(masking.MaskingOptions):
    """Options of the objective `adversarial`."""

    discriminator_weight: float = weight(50.0)
    """Lambda: weight of the discriminator's loss (paper appendix A)."""
    gradient: Literal["reinforce", "gumbel"] = "reinforce"
    """How the discriminator's loss reaches the generator. reinforce: as a reward, with a learned baseline;
    gumbel: through straight-through Gumbel-softmax samples.
    """
    adversarial_weight: float = weight(1.0)
    """Weight of the generator's adversarial loss per masked token; its MLM loss weighs 1."""
    mlm_weight: float = weight(0.0)
    """Weight of the generator's MLM loss once training is fully adversarial (paper: 0)."""
    anneal_from: float = 0.0
    """Fraction of training up to which the generator learns by maximum likelihood alone."""
    anneal_to: float = 0.0
    """Fraction of training from which it is fully adversarial (0: from the start, as in the paper)."""
    temperature: float = 1.0
    """Temperature of the Gumbel-softmax: a lower one is closer to the samples, but noisier. Samples are drawn
    at 1.
    """


class Objective(masking.MaskingObjective):
    """The discriminator minimises lambda * RTD; the generator maximises it.

    The generator's gradient is `a` times the adversarial one plus `1 - a` times that of its MLM loss, where
    `a` is `adversarial_share`.

    With `reinforce`, the reward R of a sample is the discriminator's loss at its position; the gradient is (R
    - b) * grad log p(sample). The baseline b = -log sigmoid(w . h) is a head on the generator's states,
    fitted to R by cross-entropy. Like the paper, this assumes that the discriminator's prediction at a
    position does not depend on other replacements.

    With `gumbel`, the discriminator reads the sample's embedding, and its gradient there, reversed, reaches
    the generator through the Gumbel-softmax mixture of embeddings (Jang et al. 2017). The noise is drawn
    given the sample (Maddison et al. 2014), so the forward pass is that of the exact sample; like dropout it
    comes from the random state that the loop seeds for each micro-batch.

    Departures: the baseline does not train the generator's encoder (the paper does not say); the logits of
    all masked positions are in memory at once. The logged `mlm` and `adversarial` are the plain values; the
    schedule scales only their gradients.
    """

    source = "Clark et al. 2020, ELECTRA, section 3.3 and appendix F"
    feedback = True
    config: Config

    def __init__(self, config: Config, **context: Any) -> None:
        super().__init__(config, **context)
        if not 0 <= config.anneal_from <= config.anneal_to <= 1:
            problem = f"must be between anneal_from ({config.anneal_from}) and 1, not {config.anneal_to}"
            raise ConfigError(problem, key="objective.anneal_to")
        check_positive(config, ("temperature", "discriminator_weight", "mask_fraction"), "objective.")

    @property
    @override
    def weights(self) -> dict[str, float]:
        config = self.config
        trains_mlm = config.anneal_to > 0 or config.mlm_weight > 0
        weights = {"mlm": float(trains_mlm), "rtd": config.discriminator_weight}
        if config.gradient == "reinforce":
            weights |= {"adversarial": config.adversarial_weight, "baseline": 1.0}
        return weights

    @override
    def heads(self, networks: Networks) -> Mapping[str, nn.Module]:
        assert networks.auxiliary is not None
        if self.config.gradient != "reinforce":
            return {}
        return {"baseline": nn.Linear(networks.auxiliary.hidden_size, 1)}

    @override
    def sequence_flops(self, networks: Networks, length: int) -> float:
        total = super().sequence_flops(networks, length)
        if self.config.gradient == "gumbel":  # mixtures of embeddings, forward and backward
            total += 2 * self.mean_mask_fraction * length * 2 * self.vocab_size * networks.main.embedding_size
        return total

    @override
    def corrupt(self, batch: Batch, seed: int, progress: float) -> CorruptedBatch:
        return replace(super().corrupt(batch, seed, progress), progress=progress)

    def adversarial_share(self, progress: float) -> float:
        """Returns `a`: 0 while the generator learns by maximum likelihood, 1 once it is fully adversarial."""
        start, end = self.config.anneal_from, self.config.anneal_to
        if start >= end:
            return float(progress >= end)
        return min(max((progress - start) / (end - start), 0.0), 1.0)

    @override
    def forward(self, pair: Pair, corrupted: CorruptedBatch) -> Outcome:
        generator, discriminator, config = pair.auxiliary, pair.main, self.config
        assert generator is not None and isinstance(discriminator, Discriminator)
        slots, targets = corrupted.masked_positions, corrupted.targets
        a = self.adversarial_share(corrupted.progress)

        states = corrupted.masked_states(generator)
        log_p = generator.logits(states).float().log_softmax(-1)
        sampled = vocabulary.sample(log_p.detach().exp(), corrupted.uniforms)
        ids = replacing.insert_samples(corrupted, sampled)
        mlm = -log_p.gather(1, targets[:, None]).sum()
        entropy = -(log_p.exp() * log_p).sum(-1)

        variation = PLAIN
        if config.gradient == "gumbel":
            # The adversarial weight is per masked token; the discriminator's loss is lambda times a mean over
            # all tokens.
            fraction = masking.scheduled(config.mask_fraction, config.final_mask_fraction, corrupted.progress)
            scale = a * config.adversarial_weight / (config.discriminator_weight * fraction)
            table = discriminator.encoder.token_table()
            noise = conditional_gumbel(log_p.detach(), sampled)
            mixtures = ((log_p + noise) / config.temperature).softmax(-1) @ table.detach()
            # Its value is zero; its gradient is the reversed gradient of the mixtures.
            reversed_gradient = scale * (mixtures.detach() - mixtures)
            variation = AddedVectors(slots, reversed_gradient)
        detection = detect(discriminator, corrupted, ids, variation)

        losses = {"mlm": with_gradient(mlm, 1 - a * (1 - config.mlm_weight)), "rtd": detection.loss()}
        if config.gradient == "reinforce":
            reward = detection.losses()[slots].detach()
            baseline_logits = pair.heads["baseline"](states.detach()).float().squeeze(-1)
            losses["adversarial"] = with_gradient(
                reinforce(log_p, sampled, reward, F.softplus(-baseline_logits).detach()), a
            )
            losses["baseline"] = F.binary_cross_entropy_with_logits(
                baseline_logits, torch.exp(-reward), reduction="sum"
            )
        observed = {"top1_correct": log_p.argmax(-1) == targets, "sample_correct": sampled == targets}
        observed["sampled"] = sampled
        return Outcome(losses, observed | {"entropy": entropy.detach()} | detection.observed())


class AddedVectors(Variation):
    """Adds vectors [M, E] to the embeddings at the masked slots [M] of the flattened batch."""

    def __init__(self, slots_M: Tensor, vectors_ME: Tensor) -> None:
        self.slots_M, self.vectors_ME = slots_M, vectors_ME

    @override
    def embed(self, words_BTE: Tensor) -> Tensor:
        added = self.vectors_ME.to(words_BTE.dtype)
        return words_BTE.flatten(0, 1).index_add(0, self.slots_M, added).view_as(words_BTE)


def with_gradient(loss: Tensor, factor: float) -> Tensor:
    """Returns the value of the loss, with its gradient multiplied by `factor`."""
    return factor * loss + (1 - factor) * loss.detach()


def reinforce(log_p_MV: Tensor, sampled_M: Tensor, reward_M: Tensor, baseline_M: Tensor) -> Tensor:
    """Returns minus the summed reward, with REINFORCE's gradient (Williams 1992).

    The reward is the discriminator's loss at each slot, and the baseline the expected reward, subtracted to
    reduce the variance; both are without gradient.
    """
    surrogate = -((reward_M - baseline_M) * log_p_MV.gather(1, sampled_M[:, None]).squeeze(1)).sum()
    return surrogate - surrogate.detach() - reward_M.sum()


def conditional_gumbel(log_p_MV: Tensor, sampled_M: Tensor) -> Tensor:
    """Draws Gumbel noise [M, V] given that log p + noise is largest at the sample.

    The largest sum is a Gumbel variable, whichever token has it; the other sums follow their own Gumbel
    distributions, truncated at it (Maddison et al. 2014).
    """
    waits = torch.empty_like(log_p_MV).exponential_()
    winner = waits.gather(1, sampled_M[:, None])
    others = -torch.log(waits / log_p_MV.exp().clamp_min(torch.finfo(log_p_MV.dtype).tiny) + winner)
    return others.scatter(1, sampled_M[:, None], -torch.log(winner)) - log_p_MV
