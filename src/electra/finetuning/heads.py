"""The heads that stand on the encoder in fine-tuning, but for the paper's own reader (joint_head.py).

A head takes the encoder's output [B, T, D] and the batch, and gives logits: [B, outputs], or [B, T, outputs]
where `per_token`. A classifier reads one vector of the text: the one at [CLS] (`cls`); the `mean` over all
tokens, special ones included, padding excluded, which is what `classifier_pooling = "mean"` means in
ModernBERT; the largest numbers among them (`max`); or the `last` of them. ElectraForSequenceClassification
knows [CLS] only, so the others are saved as an encoder with the head beside it.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from electra.exchange.pooling import Pooling
from electra.finetuning.features import NO_TARGET, Batch
from electra.foundation.errors import ModelError
from electra.model.dropout import dropout
from electra.model.sizes import EncoderConfig


class Head(nn.Module):
    """What every head has: dropout and a last layer named `output` (its names in a saved folder are in
    interop/names.py).
    """

    per_token = False

    def __init__(self, config: EncoderConfig, num_outputs: int, pooling: Pooling = "cls") -> None:
        super().__init__()
        self.rate, self.pooling = config.dropout, pooling
        self.output = nn.Linear(config.hidden_size, num_outputs)

    def drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.rate, self.training)

    def pool(self, hidden_BTD: Tensor, batch: Batch) -> Tensor:
        """One vector of each text."""
        if self.pooling == "cls":
            return hidden_BTD[:, 0]
        pieces = torch.zeros_like(batch.input_ids) if batch.piece_ids is None else batch.piece_ids
        real_BT1 = (pieces >= 0).unsqueeze(-1)
        if self.pooling == "max":
            return hidden_BTD.masked_fill(~real_BT1, -torch.inf).amax(1)
        if self.pooling == "last":
            return hidden_BTD[torch.arange(len(hidden_BTD)), real_BT1.sum(1).squeeze(-1) - 1]
        if batch.piece_ids is None:
            return hidden_BTD.mean(1)
        return (hidden_BTD * real_BT1).sum(1) / real_BT1.sum(1)

    def rescale(self, factor: float, offset: float) -> None:
        """Answer in another unit: the outputs times `factor`, plus `offset`."""
        self.output.weight.mul_(factor)
        self.output.bias.mul_(factor).add_(offset)


class ElectraClassifier(Head):
    """dropout -> dense -> gelu -> dropout -> output, on [CLS]."""

    def __init__(self, config: EncoderConfig, num_outputs: int, pooling: Pooling = "cls") -> None:
        super().__init__(config, num_outputs, pooling)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, hidden_BTD: Tensor, batch: Batch) -> Tensor:
        x_BD = self.drop(self.pool(hidden_BTD, batch))
        return torch.as_tensor(self.output(self.drop(F.gelu(self.dense(x_BD)))))


class ModernClassifier(Head):
    """dense -> gelu -> norm -> dropout -> output, on the pooled text."""

    def __init__(self, config: EncoderConfig, num_outputs: int, pooling: Pooling = "cls") -> None:
        super().__init__(config, num_outputs, pooling)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.norm_eps, bias=False)

    def forward(self, hidden_BTD: Tensor, batch: Batch) -> Tensor:
        x = hidden_BTD if self.per_token else self.pool(hidden_BTD, batch)
        return torch.as_tensor(self.output(self.drop(self.norm(F.gelu(self.dense(x))))))


class ModernTokens(ModernClassifier):
    """The same on every token: the tagger and the reader of ModernBERT."""

    per_token = True


class LinearClassifier(Head):
    """dropout -> output, on the pooled text."""

    def forward(self, hidden_BTD: Tensor, batch: Batch) -> Tensor:
        return torch.as_tensor(self.output(self.drop(self.pool(hidden_BTD, batch))))


class LinearTagger(Head):
    """dropout -> output on every token: ELECTRA's tagger."""

    per_token = True

    def forward(self, hidden_BTD: Tensor, batch: Batch) -> Tensor:
        return torch.as_tensor(self.output(self.drop(hidden_BTD)))


class LinearReader(Head):
    """One matrix on every token, start and end: ELECTRA's reader, which has no dropout of its own."""

    per_token = True

    def forward(self, hidden_BTD: Tensor, batch: Batch) -> Tensor:
        return torch.as_tensor(self.output(hidden_BTD))


class CandidateHead(nn.Module):
    """The discriminator's own head, with no new parameter: the mean log-odds [B] that the tokens of a
    candidate were replaced. These are the tokens with a target.
    """

    per_token = False

    def __init__(self, own: nn.Module | None) -> None:
        super().__init__()
        if own is None:
            raise ModelError("prompting needs a discriminator")
        self.own = copy.deepcopy(own)

    def forward(self, hidden_BTD: Tensor, batch: Batch) -> Tensor:
        assert batch.targets is not None, "candidates are known by their targets"
        there_BT = batch.targets != NO_TARGET
        logits_BT: Tensor = self.own(hidden_BTD)
        return (logits_BT.float() * there_BT).sum(1) / there_BT.sum(1)
