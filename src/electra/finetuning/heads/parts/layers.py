"""The plain heads. A classifier reads one vector of the text: the one at [CLS] (`cls`); the `mean` over all
tokens, special ones included, padding excluded, which is what `classifier_pooling = "mean"` means in
ModernBERT; the largest numbers among them (`max`); or the `last` of them. ElectraForSequenceClassification
knows [CLS] only, so the others are saved as an encoder with the head beside it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from electra.artifacts.model import Pooling
from electra.finetuning.heads.parts.contract import Head
from electra.finetuning.windows.features import Batch
from electra.model.sizes import EncoderConfig


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


class VectorHead(Head):
    """One vector [B, D] of each text, that of `electra embed`: pooling, and no parameter."""

    def __init__(self, pooling: Pooling) -> None:
        nn.Module.__init__(self)
        self.pooling = pooling

    def forward(self, hidden_BTD: Tensor, batch: Batch) -> Tensor:
        return self.pool(hidden_BTD, batch)
