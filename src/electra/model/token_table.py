"""A token table that learns on top of another network's: gradient-disentangled embedding sharing.

He, Gao & Chen 2021 (DeBERTaV3), section 3.2: the discriminator's embeddings are E_D = stop_gradient(E_G) +
E_delta, with E_delta zero at first. So the discriminator profits from the generator's embeddings, and its
gradient does not pull at them.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class DisentangledTable(nn.Module):
    """Takes the place of an `nn.Embedding` (paper's encoder) or `TokenTable` (modern one)."""

    def __init__(self, source: nn.Module) -> None:
        super().__init__()
        self._source = (source,)  # in a tuple: its weight is the generator's parameter, not this network's
        self.delta = nn.Parameter(torch.zeros_like(self.source_weight()))

    def source_weight(self) -> Tensor:
        """The generator's table [V, E], as a constant."""
        weight = self._source[0].weight
        assert isinstance(weight, Tensor)
        return weight.detach()

    @property
    def weight(self) -> Tensor:
        return self.source_weight() + self.delta

    def table(self) -> Tensor:
        return self.weight

    def forward(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.weight)

    @torch.no_grad()
    def become(self, table: Tensor) -> None:
        """Choose the delta that makes the sum `table`."""
        self.delta.copy_(table.to(self.delta.device) - self.source_weight())
