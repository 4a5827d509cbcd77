"""Electric: an energy-based cloze model, trained by noise-contrastive estimation (Clark et al. 2020b, EMNLP).

    electra pretrain texts/ --out runs/mine --objective.name examples/electric.py

The energy E(x, t) of a token is an unnormalised -log p(x_t | the rest). A single pass gives the energies of
all tokens, and the negative of their sum is a pseudo-log-likelihood of the text; a masked language model
needs a pass per token to compute one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from typing_extensions import override

from electra.data.corpus.batches import Batch
from electra.foundation.config import share, weight
from electra.foundation.errors import ConfigError
from electra.model import flops
from electra.model.encoder import ElectraEncoder, Variation
from electra.model.heads import GeneratorHead
from electra.model.modern import ModernEncoder, ProjectedTable
from electra.model.networks import Networks
from electra.model.pair import Discriminator, Pair, build_encoder
from electra.model.sizes import EncoderConfig, generator_config
from electra.objectives.parts import interface, masking, replacing, vocabulary
from electra.objectives.parts.interface import CorruptedBatch, Outcome


@dataclass(frozen=True)
class Config:
    """Options of the objective `electric`."""

    mask_fraction: float = share(0.15)
    """Fraction of each row's non-special tokens to replace by noise (the paper's k / n)."""
    final_mask_fraction: float | None = share(None)
    """Fraction at the end of training, if it changes linearly (default: constant)."""
    nce_weight: float = weight(1.0)
    """Weight of the energy model's loss; the noise model's loss weighs 1."""
    tower_width: float = 0.25
    """Hidden size of each of the noise model's towers, as a fraction of the energy model's."""


class OneSidedAttention(Variation):
    """Restricts attention to the token itself and the tokens on one side.

    Args:
        left: True for the tokens before it (causal), False for those after it.
    """

    def __init__(self, left: bool) -> None:
        self.left = left

    @override
    def limit_attention(self, mask_B1TT: Tensor | None, input_ids_BT: Tensor) -> Tensor:
        length = input_ids_BT.shape[1]
        square = torch.ones(length, length, dtype=torch.bool, device=input_ids_BT.device)
        side = (square.tril() if self.left else square.triu())[None, None]
        return side if mask_B1TT is None else mask_B1TT & side


class Towers(nn.Module):
    """The noise model, two one-sided encoders: q(x_t | the rest) = softmax(W [left(t - 1), right(t + 1)]).

    Args:
        full: The shape of the energy model.
        width: Hidden size of each tower, as a fraction of the energy model's.
    """

    def __init__(self, full: EncoderConfig, width: float) -> None:
        super().__init__()
        config = generator_config(full, width, 1.0)
        self.config = config
        self.left, self.right = build_encoder(config), build_encoder(config)
        for tower in (self.left, self.right):
            if isinstance(tower, ModernEncoder) and config.hidden_size != full.hidden_size:
                table = nn.Embedding(full.vocab_size, full.hidden_size)
                tower.tokens = ProjectedTable(table, config.hidden_size)
        self.head = GeneratorHead(replace(config, hidden_size=2 * config.hidden_size))

    def forward(self, input_ids: Tensor, position_ids: Tensor | None, document_ids: Tensor | None) -> Tensor:
        """Returns [B, T, 2D]: left(t - 1) and right(t + 1) at position t, zeros beyond the row's ends."""
        left, right = (
            tower(input_ids, position_ids, document_ids, variation=OneSidedAttention(tower is self.left))
            for tower in (self.left, self.right)
        )
        return torch.cat([F.pad(left[:, :-1], (0, 0, 1, 0)), F.pad(right[:, 1:], (0, 0, 0, 1))], dim=-1)

    def log_p(self, context_ND: Tensor) -> Tensor:
        """Returns log q of every token, float32 [N, V], given N positions of the result of `forward`."""
        logits: Tensor = self.head(context_ND, self.left.token_table())
        return logits.float().log_softmax(-1)

    def cross_entropy(self, context_ND: Tensor, targets_N: Tensor) -> Tensor:
        """Returns -log q of each target [N], in chunks that the backward pass recomputes."""
        size = vocabulary.slots_per_chunk(self.config.vocab_size, context_ND.device.type)

        def chunk_cross_entropy(context: Tensor, targets: Tensor) -> Tensor:
            return -self.log_p(context).gather(1, targets[:, None]).squeeze(1)

        chunks = zip(torch.split(context_ND, size), torch.split(targets_N, size), strict=True)
        return torch.cat(
            [checkpoint(chunk_cross_entropy, *chunk, use_reentrant=False, preserve_rng_state=False) for chunk in chunks]
        )


class Objective(interface.Objective):
    """Trains a noise model by maximum likelihood, and an energy model to tell noise from data.

    The paper's Algorithm 1:

        P(noise) = k q / (k q + (n - k) exp(-E)) = sigmoid(E + log q + log(k / (n - k)))

    with log q at every position. A position counts as noise wherever a sample was inserted, even if the
    sample equals the original token.

    Departures from the published code: neither loss counts [CLS] and [SEP], which are never replaced and say
    nothing about p; the towers' states are shifted with zeros (there they wrap around the row); k / n is the
    recipe's instead of each row's. The towers share the token embeddings with the energy model, whatever
    model.sharing says. The exported discriminator outputs energies.
    """

    auxiliary = False
    output = "energy"
    source = "Clark et al. 2020b, Pre-Training Transformers as Energy-Based Cloze Models"
    config: Config

    def __init__(self, config: Config, **context: object) -> None:
        super().__init__(config, **context)  # type: ignore[arg-type]
        for name in ("mask_fraction", "final_mask_fraction"):
            fraction = getattr(config, name)
            if fraction is not None and not 0 < fraction < 1:
                raise ConfigError(f"must be above 0 and below 1, not {fraction}", key=f"objective.{name}")

    @property
    @override
    def weights(self) -> dict[str, float]:
        return {"mlm": 1.0, "nce": self.config.nce_weight}

    @override
    def heads(self, networks: Networks) -> Mapping[str, nn.Module]:
        return {"towers": Towers(networks.main, self.config.tower_width)}

    @override
    def tie_weights(self, pair: Pair) -> None:
        """Ties the towers' token embeddings to those of the energy model."""
        towers, full = pair.heads["towers"], pair.main
        assert isinstance(towers, Towers)
        for tower in (towers.left, towers.right):
            if isinstance(tower, ElectraEncoder) and isinstance(full.encoder, ElectraEncoder):
                tower.embeddings.words = full.encoder.embeddings.words
            elif isinstance(tower, ModernEncoder) and isinstance(full.encoder, ModernEncoder):
                source = full.encoder.tokens
                assert isinstance(source, nn.Embedding)
                if isinstance(tower.tokens, ProjectedTable):
                    tower.tokens.source, weight = source, tower.tokens.projection.weight
                    with torch.no_grad():  # so that the projection preserves the scale of the source table
                        weight.mul_(weight.shape[1] ** -0.5 / weight.std())
                else:
                    tower.tokens = source

    @override
    def sequence_flops(self, networks: Networks, length: int) -> float:
        """Adds two towers and their output layer, which the backward pass runs again."""
        full, tower = networks.main, generator_config(networks.main, self.config.tower_width, 1.0)
        tower_flops = 2 * (
            tower.num_layers * flops.layer_flops(tower, length) + flops.input_flops(tower, length, dense_lookup=True)
        )
        output_flops = flops.generator_head_flops(replace(tower, hidden_size=2 * tower.hidden_size), length, 1.0)
        return (
            flops.sequence_flops(None, full, length)
            + 2 * (tower_flops + output_flops)
            + (1 + self.mean_mask_fraction) * output_flops
        )

    @override
    def corrupt(self, batch: Batch, seed: int, progress: float) -> CorruptedBatch:
        """Chooses the positions of the noise. Nothing is masked: no tower sees the token that it predicts."""
        corrupted = masking.mask_batch(
            self,
            batch,
            seed,
            fraction=self.noise_fraction(progress),
            counted={},
        )
        num_candidates = int(self.candidates(corrupted).sum())
        return replace(corrupted, counts=dict.fromkeys(self.weights, num_candidates), progress=progress)

    def noise_fraction(self, progress: float) -> float:
        """Returns k / n at this fraction of the training."""
        return masking.scheduled(self.config.mask_fraction, self.config.final_mask_fraction, progress)

    def candidates(self, corrupted: CorruptedBatch) -> Tensor:
        """Returns bool [B, T]: True at tokens of the text, False at padding, [CLS] and [SEP]."""
        edge_ids = torch.tensor([self.specials["cls"], self.specials["sep"]], device=corrupted.input_ids.device)
        return corrupted.is_token() & ~torch.isin(corrupted.input_ids, edge_ids)

    @override
    def forward(self, pair: Pair, corrupted: CorruptedBatch) -> Outcome:
        towers, discriminator = pair.heads["towers"], pair.main
        assert isinstance(towers, Towers) and isinstance(discriminator, Discriminator)
        layout = (corrupted.position_ids, corrupted.document_ids)
        slots, targets = corrupted.masked_positions, corrupted.targets
        candidates = self.candidates(corrupted).flatten()

        context = towers(corrupted.input_ids, *layout).flatten(0, 1)
        cross_entropy = towers.cross_entropy(context[candidates], corrupted.input_ids.flatten()[candidates])
        with torch.no_grad():
            log_p = towers.log_p(context[slots])
            sampled = vocabulary.sample(log_p.exp(), corrupted.uniforms)
            log_q = torch.zeros_like(candidates, dtype=torch.float32).masked_scatter(candidates, -cross_entropy)
            log_q = log_q.index_copy(0, slots, log_p.gather(1, sampled[:, None]).squeeze(1))
            is_noise = torch.zeros_like(candidates).index_fill(0, slots, True)

        hidden = discriminator.encoder(replacing.insert_samples(corrupted, sampled), *layout)
        fraction = self.noise_fraction(corrupted.progress)
        energies = discriminator.logits(hidden).float().flatten()
        logits = noise_logits(energies, log_q, fraction)[candidates]
        is_noise = is_noise[candidates]
        nce = F.binary_cross_entropy_with_logits(logits, is_noise.float(), reduction="sum")
        observed = {
            "top1_correct": log_p.argmax(-1) == targets,
            "sample_correct": sampled == targets,
            "sampled": sampled,
        }
        return Outcome(
            {"mlm": cross_entropy.sum(), "nce": nce},
            observed | {"replaced_logits": logits.detach(), "replaced": is_noise},
        )


def noise_logits(energies: Tensor, log_q: Tensor, fraction: float) -> Tensor:
    """Returns the log-odds [N] that each token is noise.

    Args:
        energies: E of each token [N].
        log_q: Log-probability of each token under the noise model [N].
        fraction: k / n, the fraction of tokens that are noise.
    """
    return energies + log_q + math.log(fraction / (1 - fraction))
