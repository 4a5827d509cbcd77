"""Distillation: a masked language model learns from a frozen one what it makes of the same masked text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from electra.model.networks import Network, Networks
from electra.model.pair import Generator, Pair
from electra.model.sizes import EncoderConfig
from electra.objectives.parts import masking
from electra.objectives.parts.interface import CorruptedBatch, Outcome


@dataclass(frozen=True)
class Config(masking.Options):
    teacher: str = ""
    """The masked language model to learn from."""


class Objective(masking.MaskingObjective):
    """KL on the teacher's probabilities at the masked slots, and the cosine of its states at every token."""

    main = "generator"
    auxiliary = False
    token_losses = ("cosine",)
    source = "Hinton et al. 2015; Sanh et al. 2019"
    config: Config

    @property
    def weights(self) -> dict[str, float]:
        return {"kl": 1.0, "cosine": 1.0}

    def extra_networks(self, main: EncoderConfig) -> Sequence[Network]:
        return (Network("teacher", "frozen", source=self.config.teacher),)

    def heads(self, networks: Networks) -> Mapping[str, nn.Module]:
        teacher = next(row.config for row in networks.rows if row.name == "teacher")
        return {"states": nn.Linear(networks.main.hidden_size, teacher.hidden_size)}

    def forward(self, pair: Pair, corrupted: CorruptedBatch) -> Outcome:
        student, teacher = pair.main, pair.frozen["teacher"]
        assert isinstance(student, Generator) and isinstance(teacher, Generator)
        read = (corrupted.masked_ids, corrupted.position_ids, corrupted.document_ids)
        slots, real = corrupted.masked_positions, corrupted.is_token().flatten()
        hidden = student.encoder(*read).flatten(0, 1)
        with torch.no_grad():
            reference = teacher.encoder(*read).flatten(0, 1)
            target = teacher.logits(reference[slots]).float().log_softmax(-1)
        logits = student.logits(hidden[slots]).float()
        kl = F.kl_div(logits.log_softmax(-1), target, reduction="sum", log_target=True)
        cosine = 1 - F.cosine_similarity(pair.heads["states"](hidden).float(), reference.float(), dim=-1)
        top1_correct = logits.argmax(-1) == corrupted.targets
        return Outcome({"kl": kl, "cosine": cosine[real].sum()}, {"top1_correct": top1_correct})
