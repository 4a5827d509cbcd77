"""Distillation: a student learns a frozen teacher's states and replaced token detection together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from electra.data.batches import Batch
from electra.foundation.config import weight
from electra.foundation.errors import ConfigError
from electra.model.attention import attention_mask
from electra.model.encoder import Encoder
from electra.model.hidden import LayerStates
from electra.model.networks import Network, Networks
from electra.model.pair import Discriminator, Pair
from electra.model.sizes import EncoderConfig
from electra.objectives.parts import replacing
from electra.objectives.parts.interface import CorruptedBatch, Outcome

# Relation heads in MiniLM, however many attention heads there are; fewer if 12 does not divide both widths.
RELATION_HEADS = 12


@dataclass(frozen=True)
class Config(replacing.NoisyOptions):
    """Options of the objective `distil`."""

    teacher: str = ""
    """Encoder to learn from: a run, a model folder or a hub name."""
    teacher_reads: Literal["same", "original"] = "same"
    """Teacher's input. same: the student's input, including replacements; original: the original text."""
    states_weight: float = weight(50.0)
    """Weight of 1 - cosine between student and teacher states, averaged over tokens."""
    states_layers: Literal["last", "all"] = "all"
    """Layers whose states are compared. last: the last layer; all: every student layer, with the teacher
    layer at the same relative depth.
    """
    vectors_weight: float = weight(50.0)
    """Weight of 1 - cosine between the student's and the teacher's text vectors: the teacher's own, as in
    electra embed (pooling, dense layers).
    """
    relations_weight: float = weight(0.0)
    """Weight of MiniLM's relation loss: the divergence between the student's and the teacher's query-query,
    key-key and value-value attention in their last layers.
    """
    discriminator_weight: float = weight(50.0)
    """Lambda: weight of replaced token detection. 0: no detection, no generator, no replacements."""


class Objective(replacing.NoisyObjective):
    """Loss = MLM + lambda * RTD + weighted distances to the teacher's states, text vectors and relations.

    By default the teacher reads the student's input, so that the student learns its function and need not
    guess the original. States of equal width are compared directly, others through a learned projection of
    the student's. A text is a document, or the part of it that lies in a row; its vector is made of the
    states of its tokens, special ones included, as the teacher's folder says (sentence-transformers), or is
    their mean. Relations are those of MiniLM's second version, in the last layers: queries with queries, keys
    with keys, values with values. Departure from MiniLM: states are learned in addition.
    """

    token_losses = ("rtd", "states", "vectors", "relations")
    source = "Sanh et al. 2019 (states); Wang et al. 2020, 2021, MiniLM (relations); Clark et al. 2020"
    config: Config

    def __init__(self, config: Config, **context: Any) -> None:
        super().__init__(config, **context)
        self.auxiliary = config.discriminator_weight > 0
        if not self.teacher_weights:
            raise ConfigError(
                "must not be 0 if vectors_weight and relations_weight are 0 too: nothing would be distilled",
                key="objective.states_weight",
                fix="Set one of the three above 0, or train without a teacher: electra pretrain",
            )

    @property
    def teacher_weights(self) -> dict[str, float]:
        """The weights of the distances to the teacher that are not 0."""
        names = ("states", "vectors", "relations")
        return {name: weight for name in names if (weight := getattr(self.config, f"{name}_weight"))}

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
        """Returns a projection `depth_N` for each compared layer; {} if the widths are equal."""
        student = networks.main
        teacher = next(row.config for row in networks.rows if row.name == "teacher")
        if student.hidden_size == teacher.hidden_size:
            return {}
        return {
            f"depth_{depth}": nn.Linear(student.hidden_size, teacher.hidden_size)
            for depth, _ in _paired_layers(student, teacher, self.config.states_layers)
        }

    @override
    def sequence_flops(self, networks: Networks, length: int) -> float:
        """Adds the projections to the teacher's width, and what the relations compute of both networks."""
        rows = {row.name: row.config for row in networks.rows}
        student, teacher, config = networks.main, rows["teacher"], self.config
        total = super().sequence_flops(networks, length)
        if student.hidden_size != teacher.hidden_size:
            # the states of each compared layer, and those of the last one again for the vectors
            projections = len(_paired_layers(student, teacher, config.states_layers))
            projections = projections * bool(config.states_weight) + bool(config.vectors_weight)
            total += 2 * projections * 2 * student.hidden_size * teacher.hidden_size * length
        if config.relations_weight:
            for shape, passes in ((student, 2), (teacher, 1)):  # the teacher only runs forward
                again = 2 * shape.hidden_size**2  # queries, keys and values are computed once more
                total += passes * 3 * (again + 2 * shape.hidden_size * length) * length
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
        student, teacher, config = pair.main, pair.frozen["teacher"], self.config
        assert isinstance(student, Discriminator)
        real = corrupted.is_token().flatten()
        losses: dict[str, Tensor] = {}
        observed: dict[str, Tensor] = {}
        ids = corrupted.input_ids
        if self.auxiliary:
            assert pair.auxiliary is not None and isinstance(corrupted, replacing.NoisyBatch)
            replaced = replacing.replace(pair.auxiliary, corrupted, config, corrupted.noise)
            ids, losses["mlm"] = replaced.ids, replaced.mlm
            observed = {"top1_correct": replaced.top1_correct, **replaced.observed(corrupted)}

        layout = (corrupted.position_ids, corrupted.document_ids)
        student_states, teacher_states = LayerStates(), LayerStates()
        student_last = student.encoder(ids, *layout, variation=student_states)
        with torch.no_grad():
            teacher_ids = ids if config.teacher_reads == "same" else corrupted.input_ids
            teacher_last = teacher.encoder(teacher_ids, *layout, variation=teacher_states)
        # in the modern encoder, `observe` gets the last states before the final norm
        student_states.layers[-1], teacher_states.layers[-1] = student_last, teacher_last

        if self.auxiliary:
            is_replaced = (ids != corrupted.input_ids).flatten()[real]
            logits = student.logits(student_last).float().flatten()[real]
            losses["rtd"] = F.binary_cross_entropy_with_logits(logits, is_replaced.float(), reduction="sum")
            observed |= {"replaced_logits": logits.detach(), "replaced": is_replaced}
        shapes = student.encoder.config, teacher.encoder.config
        if "states" in self.teacher_weights:
            distances = [
                _cosine_distance(
                    _project(pair, depth, student_states.layers[depth]), teacher_states.layers[teacher_depth]
                )
                for depth, teacher_depth in _paired_layers(*shapes, config.states_layers)
            ]
            sums = [distance.flatten()[real].sum() for distance in distances]
            losses["states"] = torch.stack(sums).mean()
        if "vectors" in self.teacher_weights:
            text_index = _text_index(corrupted).flatten()[real]
            projected = _project(pair, shapes[0].num_layers, student_last)
            vectors = (
                self._text_vectors(states.flatten(0, 1)[real], text_index)
                for states in (projected, teacher_last)
            )
            losses["vectors"] = _cosine_distance(*vectors).sum()
        if "relations" in self.teacher_weights:
            mask = attention_mask(corrupted.document_ids)
            with torch.no_grad():
                target = _last_qkv(teacher.encoder, teacher_states)
            qkv = _last_qkv(student.encoder, student_states)
            losses["relations"] = _relation_divergence(qkv, target, mask, corrupted.is_token())
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


def _paired_layers(
    student: EncoderConfig, teacher: EncoderConfig, states_layers: str
) -> list[tuple[int, int]]:
    """Returns pairs (student layer, teacher layer) at the same relative depth, counted from 1."""
    num_layers = student.num_layers
    first_depth = num_layers if states_layers == "last" else 1
    return [
        (depth, -(-depth * teacher.num_layers // num_layers)) for depth in range(first_depth, num_layers + 1)
    ]


def _project(pair: Pair, depth: int, states: Tensor) -> Tensor:
    """Returns the student's states at the teacher's width; unchanged if the widths are equal."""
    name = f"depth_{depth}"
    return pair.heads[name](states) if name in pair.heads else states  # type: ignore[no-any-return]


def _cosine_distance(a: Tensor, b: Tensor) -> Tensor:
    return 1 - F.cosine_similarity(a.float(), b.float(), dim=-1)


def _text_index(corrupted: CorruptedBatch) -> Tensor:
    """Returns the id of each token's text [B, T], unique within the batch; meaningless at padding."""
    B, T = corrupted.input_ids.shape
    row_offsets = torch.arange(B, device=corrupted.input_ids.device)[:, None] * T
    return (
        row_offsets.expand(B, T) if corrupted.document_ids is None else row_offsets + corrupted.document_ids
    )


def _last_qkv(encoder: Encoder, states: LayerStates) -> Tensor:
    """Returns the queries, keys and values of the last layer [3, B, T, D]."""
    last_layer = encoder.config.num_layers - 1
    qkv = encoder.queries_keys_values(last_layer, states.layers[last_layer])
    return torch.stack(qkv.chunk(3, dim=-1))


def _relation_divergence(student: Tensor, teacher: Tensor, mask: Tensor | None, real: Tensor) -> Tensor:
    """Returns KL(teacher || student) of the relations, summed over tokens.

    For each token it is the mean over heads and over queries, keys and values. `student` and `teacher` are
    [3, B, T, D].
    """
    widths = student.shape[-1], teacher.shape[-1]
    heads = next(n for n in range(RELATION_HEADS, 0, -1) if all(width % n == 0 for width in widths))

    def relations(x: Tensor) -> Tensor:
        x = x.view(*x.shape[:-1], heads, -1).transpose(2, 3).float()  # [3, B, H, T, K]
        scores = x @ x.transpose(-1, -2) / x.shape[-1] ** 0.5
        scores = scores if mask is None else scores.masked_fill(~mask, -1e9)
        return torch.log_softmax(scores, -1)

    with torch.no_grad():
        target = relations(teacher)
    divergence = F.kl_div(relations(student), target, reduction="none", log_target=True).sum(
        -1
    )  # [3, B, H, T]
    return divergence.mean(dim=(0, 2))[real].sum()
