"""Pre-training heads: the generator's token predictions and the discriminator's log-odds.

Shape suffixes: B rows, T tokens in a row, N any leading dimensions, D hidden, E embedding, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from electra.model.sizes import Architecture, EncoderConfig


class GeneratorHead(nn.Module):
    """Dense -> gelu -> norm -> output layer: BERT's MLM head, at the embedding size.

    Args:
        config: The encoder's configuration.
        tied: Whether the output weights are the encoder's token embeddings. Some published models have
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
        self.norm = (
            nn.LayerNorm(config.hidden_size, eps=config.norm_eps, bias=False) if modern else nn.Identity()
        )
        self.prediction = nn.Linear(config.hidden_size, 1)

    def forward(self, hidden_BTD: Tensor, position_ids_BT: Tensor | None = None) -> Tensor:
        """Returns logits [B, T]. Only `ContextHead` uses `position_ids_BT`, positions within documents."""
        logits: Tensor = self.prediction(self.norm(F.gelu(self.dense(hidden_BTD)))).squeeze(-1)
        return logits


class ContextHead(DiscriminatorHead):
    """DeBERTa's head: hidden state + the document's [CLS] state -> norm -> dense -> gelu -> one logit."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.norm_eps)

    @override
    def forward(self, hidden_BTD: Tensor, position_ids_BT: Tensor | None = None) -> Tensor:
        cls_BTD = hidden_BTD[:, :1]
        if position_ids_BT is not None:
            cls_index_BT = torch.arange(hidden_BTD.shape[1], device=hidden_BTD.device) - position_ids_BT
            cls_BTD = hidden_BTD.gather(1, cls_index_BT[..., None].expand_as(hidden_BTD))
        states = F.gelu(self.dense(self.norm(hidden_BTD + cls_BTD)))
        return torch.as_tensor(self.prediction(states).squeeze(-1))


HEADS: dict[Architecture, Callable[[EncoderConfig], DiscriminatorHead]] = {
    "electra": DiscriminatorHead,
    "modern": DiscriminatorHead,
    "deberta": ContextHead,
}
