"""Distillation: a student learns a frozen teacher's states and replaced token detection together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from electra.data.corpus.batches import Batch
from electra.foundation.config import weight
from electra.foundation.errors import ConfigError
from electra.model.hidden import LayerStates
from electra.model.networks import Network, Networks
from electra.model.pair import Discriminator, Pair
from electra.model.sizes import EncoderConfig
from electra.objectives.parts import replacing
from electra.objectives.parts.interface import CorruptedBatch, Outcome


@dataclass(frozen=True)
class Config(replacing.NoisyOptions):
    """Options of the objective `distil`."""

    teacher: str = ""
    """Encoder to learn from: a run, a model folder or a hub name."""
    states_weight: float = weight(50.0)
    """Weight of 1 - cosine between student and teacher states, averaged over tokens and over the student's
    layers, each with the teacher layer at the same relative depth.
    """
    vectors_weight: float = weight(50.0)
    """Weight of 1 - cosine between the student's and the teacher's text vectors: the teacher's own, as in
    electra embed (pooling, dense layers).
    """
    discriminator_weight: float = weight(50.0)
    """Lambda: weight of replaced token detection. 0: no detection, no generator, no replacements."""


class Objective(replacing.NoisyObjective):
    """Loss = MLM + lambda * RTD + weighted distances to the teacher's states and text vectors.

    The teacher reads the student's input, replacements included, so that the student learns its function and
    need not guess the original. States of equal width are compared directly, others through a learned
    projection of the student's. A text is a document, or the part of it that lies in a row; its vector is
    made of the states of its tokens, special ones included, as the teacher's folder says
    (sentence-transformers), or is their mean.
    """

    token_losses = ("rtd", "states", "vectors")
    source = "Sanh et al. 2019, DistilBERT (states); Clark et al. 2020, ELECTRA"
    config: Config

    def __init__(self, config: Config, **context: Any) -> None:
        super().__init__(config, **context)
        self.auxiliary = config.discriminator_weight > 0
        if not self.teacher_weights:
            problem = "must not be 0 if vectors_weight is 0 too: nothing would be distilled"
            fix = "Set one of the two above 0, or train without a teacher: electra pretrain"
            raise ConfigError(problem, key="objective.states_weight", fix=fix)

    @property
    def teacher_weights(self) -> dict[str, float]:
        """The weights of the distances to the teacher that are not 0."""
        distances = {"states": self.config.states_weight, "vectors": self.config.vectors_weight}
        return {name: weight for name, weight in distances.items() if weight}

    @property
    @override
    def weights(self) -> dict[str, float]:
        detection = {"mlm": 1.0, "rtd": self.config.discriminator_weight}
        return (detection if self.auxiliary else {}) | self.teacher_weights

    @override
    def extra_networks(self, main: EncoderConfig) -> Sequence[Network]:
        return (Network("teacher", "frozen", head="encoder", source=self.config.teacher),)

    @override
    def heads(self, networks: Networks) -> Mapping[str, nn.Module]:
        """Returns a projection `depth_N` for each layer of the student; {} if the widths are equal."""
        student, width = networks.main, _teacher(networks).hidden_size
        if student.hidden_size == width:
            return {}
        return {f"depth_{depth}": nn.Linear(student.hidden_size, width) for depth in range(1, student.num_layers + 1)}

    @override
    def sequence_flops(self, networks: Networks, length: int) -> float:
        """Adds the projections to the teacher's width."""
        student, width, config = networks.main, _teacher(networks).hidden_size, self.config
        total = super().sequence_flops(networks, length)
        if student.hidden_size != width:
            # the states of each layer, and those of the last one again for the vectors
            projections = student.num_layers * bool(config.states_weight) + bool(config.vectors_weight)
            total += 2 * projections * 2 * student.hidden_size * width * length
        return total

    @override
    def corrupt(self, batch: Batch, seed: int, progress: float) -> CorruptedBatch:
        masked = super().corrupt(batch, seed, progress)
        if "vectors" in self.weights:
            masked.counts["vectors"] = int((batch.document_ids.max(axis=1) + 1).sum())
        if not self.auxiliary:
            return masked
        drawn = self.draw_noise(batch, seed)[masked.masked_positions]
        return replacing.NoisyBatch(**vars(masked), noise=drawn)

    @override
    def forward(self, pair: Pair, corrupted: CorruptedBatch) -> Outcome:
        student, teacher = pair.main, pair.frozen["teacher"]
        assert isinstance(student, Discriminator)
        real = corrupted.is_token().flatten()
        losses: dict[str, Tensor] = {}
        observed: dict[str, Tensor] = {}
        ids = corrupted.input_ids
        if self.auxiliary:
            assert pair.auxiliary is not None and isinstance(corrupted, replacing.NoisyBatch)
            replaced = replacing.replace(pair.auxiliary, corrupted, self.config, corrupted.noise)
            ids, losses["mlm"] = replaced.ids, replaced.mlm
            observed = replaced.observed(corrupted)

        layout = (corrupted.position_ids, corrupted.document_ids)
        student_states, teacher_states = LayerStates(), LayerStates()
        student_last = student.encoder(ids, *layout, variation=student_states)
        with torch.no_grad():
            teacher_last = teacher.encoder(ids, *layout, variation=teacher_states)
        # in the modern encoder, `observe` gets the last states before the final norm
        student_states.layers[-1], teacher_states.layers[-1] = student_last, teacher_last

        if self.auxiliary:
            is_replaced = (ids != corrupted.input_ids).flatten()[real]
            logits = student.logits(student_last).float().flatten()[real]
            losses["rtd"] = F.binary_cross_entropy_with_logits(logits, is_replaced.float(), reduction="sum")
            observed |= {"replaced_logits": logits.detach(), "replaced": is_replaced}
        num_layers, teacher_layers = student.encoder.config.num_layers, teacher.encoder.config.num_layers
        if "states" in self.teacher_weights:
            sums = []
            for depth in range(1, num_layers + 1):
                target = teacher_states.layers[-(-depth * teacher_layers // num_layers)]
                projected = _project(pair, depth, student_states.layers[depth])
                sums.append(_cosine_distance(projected, target).flatten()[real].sum())
            losses["states"] = torch.stack(sums).mean()
        if "vectors" in self.teacher_weights:
            text_index = _text_index(corrupted).flatten()[real]
            states = (_project(pair, num_layers, student_last), teacher_last)
            vectors = (self._text_vectors(each.flatten(0, 1)[real], text_index) for each in states)
            losses["vectors"] = _cosine_distance(*vectors).sum()
        return Outcome(losses, observed)

    def _text_vectors(self, states_ND: Tensor, text_N: Tensor) -> Tensor:
        """Returns each text's vector in float32, or with its direction; `text_N` ascends."""
        _, index_N, counts = torch.unique(text_N, return_inverse=True, return_counts=True)
        ends, states_ND = counts.cumsum(0), states_ND.float()
        if self.pooling in ("cls", "last"):
            pooled = states_ND[ends - counts if self.pooling == "cls" else ends - 1]
        else:
            pooled = states_ND.new_zeros(len(counts), states_ND.shape[1])
            if self.pooling == "max":
                index_ND = index_N[:, None].expand_as(states_ND)
                pooled = pooled.scatter_reduce(0, index_ND, states_ND, "amax", include_self=False)
            else:
                pooled = pooled.index_add(0, index_N, states_ND)  # has the direction of the mean
        if self.after_pooling is None:
            return pooled
        return self.after_pooling(pooled / counts[:, None] if self.pooling == "mean" else pooled)


def _teacher(networks: Networks) -> EncoderConfig:
    return next(row.config for row in networks.rows if row.name == "teacher")


def _project(pair: Pair, depth: int, states: Tensor) -> Tensor:
    name = f"depth_{depth}"
    return pair.heads[name](states) if name in pair.heads else states  # type: ignore[no-any-return]


def _cosine_distance(a: Tensor, b: Tensor) -> Tensor:
    return 1 - F.cosine_similarity(a.float(), b.float(), dim=-1)


def _text_index(corrupted: CorruptedBatch) -> Tensor:
    """Returns the id of each token's text [B, T], unique within the batch; meaningless at padding."""
    B, T = corrupted.input_ids.shape
    row_offsets = torch.arange(B, device=corrupted.input_ids.device)[:, None] * T
    if corrupted.document_ids is None:
        return row_offsets.expand(B, T)
    return row_offsets + corrupted.document_ids
