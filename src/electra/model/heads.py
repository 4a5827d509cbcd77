"""Pre-training heads: the generator's token predictions and the discriminator's log-odds.

Shape suffixes: B rows, T tokens in a row, N any leading dimensions, D hidden, E embedding, V vocabulary.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from electra.model.sizes import EncoderConfig


class GeneratorHead(nn.Module):
    """Dense -> gelu -> norm -> output layer: BERT's MLM head, at the embedding size.

    If it is `tied`, the output weights are the encoder's token embeddings. Some published models have
    separate ones; models trained here never do.
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
        """Returns logits [N, V]. `table_VE` is the encoder's token embedding matrix."""
        weight_VE = table_VE if self.weight is None else self.weight
        return F.linear(self.norm(F.gelu(self.dense(hidden_ND))), weight_VE, self.bias)


class DiscriminatorHead(nn.Module):
    """Dense -> gelu -> one logit: log-odds that the token was replaced."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        modern = config.architecture == "modern"
        self.dense = nn.Linear(config.hidden_size, config.hidden_size, bias=not modern)
        # ModernBertForTokenClassification of transformers has a norm here; ELECTRA's head has none.
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.norm_eps, bias=False) if modern else nn.Identity()
        self.prediction = nn.Linear(config.hidden_size, 1)

    def forward(self, hidden_BTD: Tensor) -> Tensor:
        """Returns logits [B, T]."""
        logits: Tensor = self.prediction(self.norm(F.gelu(self.dense(hidden_BTD)))).squeeze(-1)
        return logits
