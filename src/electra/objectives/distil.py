"""Distillation: a student learns the states of a frozen teacher, and beside them replaced token detection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from electra.data.batches import Batch
from electra.foundation.config import share, weight
from electra.foundation.errors import ConfigError
from electra.model.attention import attention_mask
from electra.model.encoder import Encoder, Variation
from electra.model.networks import Network, Networks
from electra.model.pair import Discriminator, Pair
from electra.model.sizes import EncoderConfig
from electra.objectives.parts import interface, masking, noise, replacing
from electra.objectives.parts.interface import Corrupted, Outcome

RELATION_HEADS = (
    12  # of MiniLM's relations, whatever heads the networks have; fewer where those do not divide
)


@dataclass(frozen=True)
class Config(replacing.Options):
    teacher: str = ""
    """The encoder to learn from: a run, a model folder or a hub name."""
    teacher_reads: Literal["same", "original"] = "same"
    """The text that the student reads, replacements included; or the original."""
    states_weight: float = weight(50.0)
    """Weight of 1 - cosine between the networks' states at a token, over all tokens."""
    states_layers: Literal["last", "all"] = "all"
    """Which states: those of the last layer; or of every layer of the student, and of the layers of the
    teacher that are as deep in proportion.
    """
    vectors_weight: float = weight(50.0)
    """Weight of 1 - cosine between the means of a text's last states: its vector."""
    relations_weight: float = weight(0.0)
    """Weight of the divergence between MiniLM's relations: how the queries, keys and values of the last layer
    resemble each other within a text.
    """
    discriminator_weight: float = weight(50.0)
    """Lambda: weight of replaced token detection. 0: no detection, no generator, and no replacements."""
    noise_share: float = share(0.0, evaluated=0.0)
    """Share of the replacements that are drawn from the tokens' frequencies to the power 3/4 instead of the
    generator, which seldom writes a word that is quite out of place.
    """


class Objective(interface.Objective):
    """Loss = MLM + lambda * RTD + weighted distances to the teacher's states, text vectors and relations.

    By default the teacher reads what the student reads, so that the student learns its function and need not
    guess the original. States of networks of one width are compared as they are, others through a learned
    projection of the student's. A text is a document, or the part of one that stands in a row; its vector is
    the mean over all of its tokens, special ones included, as sentence-transformers takes it. Relations are
    those of MiniLM's second version (queries with queries, keys with keys, values with values), of the last
    layers. Departure from it: states are learned beside them.
    """

    source = "Sanh et al. 2019 (states); Wang et al. 2020, 2021, MiniLM (relations); Clark et al. 2020"
    config: Config

    def __init__(self, config: Config, **world: Any) -> None:
        super().__init__(config, **world)
        self.auxiliary = config.discriminator_weight > 0
        if not any(self.taught.values()):
            what = "the teacher teaches nothing: the weights of states, vectors and relations are 0"
            raise ConfigError(what, key="objective.states_weight", fix="Use `objective.name=rtd`, or set one")
        if config.noise_share and self.statistics is None:
            raise ConfigError("noise needs the training text", key="objective.noise_share")

    @property
    def taught(self) -> dict[str, float]:
        config = self.config
        told = {
            "states": config.states_weight,
            "vectors": config.vectors_weight,
            "relations": config.relations_weight,
        }
        return {name: weight for name, weight in told.items() if weight}

    @property
    def weights(self) -> dict[str, float]:
        detection = {"mlm": 1.0, "rtd": self.config.discriminator_weight}
        return (detection if self.auxiliary else {}) | self.taught

    def others(self, main: EncoderConfig) -> Sequence[Network]:
        return (Network("teacher", "frozen", head="encoder", source=self.config.teacher),)

    def heads(self, networks: Networks) -> Mapping[str, nn.Module]:
        mine, theirs = networks.main, _teacher(networks)
        if mine.hidden_size == theirs.hidden_size:
            return {}
        return {
            f"depth_{depth}": nn.Linear(mine.hidden_size, theirs.hidden_size)
            for depth, _ in _depths(mine, theirs, self.config.states_layers)
        }

    @cached_property
    def frequencies(self) -> replacing.Noise:
        return noise.frequencies(self)

    def corrupt(self, batch: Batch, seed: int, progress: float) -> Corrupted:
        counted = dict.fromkeys(self.weights, False) | ({"mlm": True} if self.auxiliary else {})
        masked = masking.mask_for(self, batch, seed, progress, counted=counted)
        if "vectors" in counted:
            masked.counts["vectors"] = int((batch.piece_ids.max(axis=1) + 1).sum())
        drawn = noise.draw(self, batch, seed) if self.auxiliary else None
        return masked if drawn is None else noise.Noisy(**vars(masked), noise=drawn[masked.masked_positions])

    def forward(self, pair: Pair, corrupted: Corrupted) -> Outcome:
        student, teacher, config = pair.main, pair.frozen["teacher"], self.config
        assert isinstance(student, Discriminator)
        real = corrupted.real().flatten()
        losses: dict[str, Tensor] = {}
        observed: dict[str, Tensor] = {}
        ids = corrupted.input_ids
        if self.auxiliary:
            assert pair.auxiliary is not None
            replaced = noise.replace(pair.auxiliary, corrupted, config)
            ids, losses["mlm"] = replaced.ids, replaced.mlm
            observed = {"guessed": replaced.guessed, **replaced.observed(corrupted)}

        where = (corrupted.position_ids, corrupted.piece_ids)
        mine, theirs = Watch(), Watch()
        last = student.encoder(ids, *where, variation=mine)
        with torch.no_grad():
            read = ids if config.teacher_reads == "same" else corrupted.input_ids
            wanted = teacher.encoder(read, *where, variation=theirs)
        mine.states[-1], theirs.states[-1] = last, wanted  # modern: normalised once more

        if self.auxiliary:
            is_replaced = (ids != corrupted.input_ids).flatten()[real]
            logits = student.logits(last, corrupted.position_ids).float().flatten()[real]
            losses["rtd"] = F.binary_cross_entropy_with_logits(logits, is_replaced.float(), reduction="sum")
            observed |= {"replaced_logits": logits.detach(), "replaced": is_replaced}
        shapes = student.encoder.config, teacher.encoder.config
        if "states" in self.taught:
            depths = _depths(*shapes, config.states_layers)
            apart = [
                _apart(_seen(pair, depth, mine.states[depth]), theirs.states[other]).flatten()[real].sum()
                for depth, other in depths
            ]
            losses["states"] = torch.stack(apart).mean()
        if "vectors" in self.taught:
            text = _texts(corrupted).flatten()[real]
            seen = _seen(pair, shapes[0].num_layers, last)
            vectors = (_sums(states.flatten(0, 1)[real], text) for states in (seen, wanted))
            losses["vectors"] = _apart(*vectors).sum()
        if "relations" in self.taught:
            mask = attention_mask(corrupted.piece_ids)
            with torch.no_grad():
                goal = _projected(teacher.encoder, theirs)
            losses["relations"] = _divergence(_projected(student.encoder, mine), goal, mask, corrupted.real())
        return Outcome(losses, observed)


class Watch(Variation):
    """Keeps the states of every depth of one pass."""

    def __init__(self) -> None:
        self.states: list[Tensor] = []

    def see(self, states_BTD: Tensor) -> None:
        self.states.append(states_BTD)


def _teacher(networks: Networks) -> EncoderConfig:
    return next(row.config for row in networks.rows if row.name == "teacher")


def _depths(mine: EncoderConfig, theirs: EncoderConfig, which: str) -> list[tuple[int, int]]:
    """Layers of the student, counted from 1, and those of the teacher whose states they learn."""
    last = mine.num_layers
    first = last if which == "last" else 1
    return [(depth, -(-depth * theirs.num_layers // last)) for depth in range(first, last + 1)]


def _seen(pair: Pair, depth: int, states: Tensor) -> Tensor:
    """The student's states as they are compared with the teacher's."""
    name = f"depth_{depth}"
    return pair.heads[name](states) if name in pair.heads else states  # type: ignore[no-any-return]


def _apart(mine: Tensor, theirs: Tensor) -> Tensor:
    return 1 - F.cosine_similarity(mine.float(), theirs.float(), dim=-1)


def _texts(corrupted: Corrupted) -> Tensor:
    """The number of the text [B, T] that each token belongs to, counted over the batch."""
    B, T = corrupted.input_ids.shape
    rows = torch.arange(B, device=corrupted.input_ids.device)[:, None] * T
    return rows.expand(B, T) if corrupted.piece_ids is None else rows + corrupted.piece_ids


def _sums(states_ND: Tensor, text_N: Tensor) -> Tensor:
    """The sum of each text's states [texts, D]: as long as its vector is not, and pointing the same way."""
    _, place_N = torch.unique(text_N, return_inverse=True)
    sums = states_ND.new_zeros((int(place_N.max()) + 1, states_ND.shape[1]), dtype=torch.float32)
    return sums.index_add(0, place_N, states_ND.float())


def _projected(encoder: Encoder, watch: Watch) -> Tensor:
    """Queries, keys and values of the last layer [3, B, T, D]."""
    last = encoder.config.num_layers - 1
    qkv = encoder.queries_keys_values(last, watch.states[last])
    return torch.stack(qkv.chunk(3, dim=-1))


def _divergence(mine: Tensor, theirs: Tensor, mask: Tensor | None, real: Tensor) -> Tensor:
    """KL between the relations, summed over tokens, a mean over heads and over queries, keys and values."""
    heads = next(n for n in range(RELATION_HEADS, 0, -1) if mine.shape[-1] % n == theirs.shape[-1] % n == 0)

    def relations(x: Tensor) -> Tensor:
        x = x.view(*x.shape[:-1], heads, -1).transpose(2, 3).float()  # [3, B, H, T, K]
        scores = x @ x.transpose(-1, -2) / x.shape[-1] ** 0.5
        scores = scores if mask is None else scores.masked_fill(~mask, -1e9)
        return torch.log_softmax(scores, -1)

    with torch.no_grad():
        wanted = relations(theirs)
    each = F.kl_div(relations(mine), wanted, reduction="none", log_target=True).sum(-1)  # [3, B, H, T]
    return each.mean(dim=(0, 2))[real].sum()
