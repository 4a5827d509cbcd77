"""Gradient-disentangled embedding sharing: another network's token table plus a learned difference.

He, Gao & Chen 2021 (DeBERTaV3), section 3.2: the discriminator's embeddings are E_D = stop_gradient(E_G) +
E_delta, with E_delta initially zero. The discriminator thus uses the generator's embeddings without its
gradients reaching them.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class DisentangledTable(nn.Module):
    """Takes the place of an `nn.Embedding`."""

    def __init__(self, source: nn.Module) -> None:
        super().__init__()
        self._source = (source,)  # in a tuple, so that it is no submodule: it belongs to the generator
        self.delta = nn.Parameter(torch.zeros_like(self.source_weight()))

    def source_weight(self) -> Tensor:
        """Returns the generator's table [V, E], detached."""
        weight = self._source[0].weight
        assert isinstance(weight, Tensor)
        return weight.detach()

    @property
    def weight(self) -> Tensor:
        """The sum [V, E], named as in `nn.Embedding`."""
        return self.source_weight() + self.delta

    def forward(self, ids: Tensor) -> Tensor:
        """Returns embeddings [..., E] of ids [...]."""
        return F.embedding(ids, self.weight)

    @torch.no_grad()
    def set_table(self, table: Tensor) -> None:
        """Sets the difference so that the sum equals `table` [V, E]."""
        self.delta.copy_(table.to(self.delta.device) - self.source_weight())
