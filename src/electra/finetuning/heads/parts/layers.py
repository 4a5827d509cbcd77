"""The plain heads.

A classifier reads one vector of the text: the state at [CLS] (`cls`); the `mean` over all tokens, special
ones included, padding excluded, as with `classifier_pooling = "mean"` in ModernBERT; the maximum over them
(`max`); or the `last` of them. ElectraForSequenceClassification supports [CLS] only, so with another pooling
the encoder is saved with the head in a separate file.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from electra.artifacts.model import Pooling
from electra.finetuning.heads.parts.contract import Head
from electra.finetuning.windows.features import Batch
from electra.model.sizes import EncoderConfig


class ElectraClassifier(Head):
    """Dropout, dense, gelu, dropout, output on the pooled text: ELECTRA's classifier."""

    def __init__(self, config: EncoderConfig, num_outputs: int, pooling: Pooling = "cls") -> None:
        super().__init__(config, num_outputs, pooling)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    @override
    def forward(self, hidden_BTD: Tensor, batch: Batch) -> Tensor:
        x_BD = self.drop(self.pool(hidden_BTD, batch))
        return torch.as_tensor(self.output(self.drop(F.gelu(self.dense(x_BD)))))


class ModernClassifier(Head):
    """Dense, gelu, norm, dropout, output on the pooled text: ModernBERT's classifier."""

    def __init__(self, config: EncoderConfig, num_outputs: int, pooling: Pooling = "cls") -> None:
        super().__init__(config, num_outputs, pooling)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.norm_eps, bias=False)

    @override
    def forward(self, hidden_BTD: Tensor, batch: Batch) -> Tensor:
        x = hidden_BTD if self.per_token else self.pool(hidden_BTD, batch)
        return torch.as_tensor(self.output(self.drop(self.norm(F.gelu(self.dense(x))))))


class ModernTokens(ModernClassifier):
    """The same layers on every token: ModernBERT's tagger and reader."""

    per_token = True


class LinearClassifier(Head):
    """Dropout and output on the pooled text."""

    @override
    def forward(self, hidden_BTD: Tensor, batch: Batch) -> Tensor:
        return torch.as_tensor(self.output(self.drop(self.pool(hidden_BTD, batch))))


class LinearTagger(Head):
    """Dropout and output on every token: ELECTRA's tagger."""

    per_token = True

    @override
    def forward(self, hidden_BTD: Tensor, batch: Batch) -> Tensor:
        return torch.as_tensor(self.output(self.drop(hidden_BTD)))


class LinearReader(Head):
    """One matrix on every token, for start and end: ELECTRA's reader, which has no dropout of its own."""

    per_token = True

    @override
    def forward(self, hidden_BTD: Tensor, batch: Batch) -> Tensor:
        return torch.as_tensor(self.output(hidden_BTD))


class VectorHead(Head):
    """The vector of each text [B, D], as `electra embed` computes it: pooling without parameters."""

    def __init__(self, pooling: Pooling) -> None:
        nn.Module.__init__(self)
        self.pooling = pooling

    @override
    def forward(self, hidden_BTD: Tensor, batch: Batch) -> Tensor:
        return self.pool(hidden_BTD, batch)
