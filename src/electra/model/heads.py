"""What sits on an encoder in pre-training: the generator's token predictions and the discriminator's
judgement.

Shapes: N any number of leading positions, D hidden, E embedding, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from electra.model.sizes import EncoderConfig


class GeneratorHead(nn.Module):
    """dense -> gelu -> norm -> the token table, transposed, plus a bias (BERT's head at embedding size).

    tied: else its output layer is a table of its own, as in some published models; never in those made here.
    """

    def __init__(self, config: EncoderConfig, *, tied: bool = True) -> None:
        super().__init__()
        modern = config.architecture == "modern"
        self.dense = nn.Linear(config.hidden_size, config.embedding_size, bias=not modern)
        self.norm = nn.LayerNorm(config.embedding_size, eps=config.norm_eps, bias=not modern)
        shape = config.vocab_size, config.embedding_size
        self.weight = None if tied else nn.Parameter(torch.empty(shape))
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, hidden_ND: Tensor, table_VE: Tensor) -> Tensor:
        """Logits [N, V]."""
        weight_VE = table_VE if self.weight is None else self.weight
        return F.linear(self.norm(F.gelu(self.dense(hidden_ND))), weight_VE, self.bias)


class DiscriminatorHead(nn.Module):
    """dense -> gelu -> one logit: log-odds that the token was replaced."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        modern = config.architecture == "modern"
        self.dense = nn.Linear(config.hidden_size, config.hidden_size, bias=not modern)
        # transformers' ModernBertForTokenClassification normalises before its classifier; ELECTRA's head does
        # not.
        self.norm = (
            nn.LayerNorm(config.hidden_size, eps=config.norm_eps, bias=False) if modern else nn.Identity()
        )
        self.prediction = nn.Linear(config.hidden_size, 1)

    def forward(self, hidden_ND: Tensor) -> Tensor:
        """Logits [N]."""
        logits: Tensor = self.prediction(self.norm(F.gelu(self.dense(hidden_ND)))).squeeze(-1)
        return logits
