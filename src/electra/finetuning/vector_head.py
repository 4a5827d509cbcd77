"""What stands on the encoder where the answer is a vector of the text: its pooling, and no parameter."""

from __future__ import annotations

from torch import Tensor, nn

from electra.exchange.pooling import Pooling
from electra.finetuning.features import Batch
from electra.finetuning.heads import Head


class VectorHead(Head):
    """One vector [B, D] of each text: that of `electra embed`."""

    def __init__(self, pooling: Pooling) -> None:
        nn.Module.__init__(self)
        self.pooling = pooling

    def forward(self, hidden_BTD: Tensor, batch: Batch) -> Tensor:
        return self.pool(hidden_BTD, batch)
