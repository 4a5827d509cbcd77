"""What takes the place of a token table: one that builds on another network's, one that trains a few rows."""

from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override


class DisentangledTable(nn.Module):
    """Gradient-disentangled sharing: another network's token table plus a learned difference.

    He, Gao & Chen 2021 (DeBERTaV3), section 3.2: the discriminator's embeddings are E_D = stop_gradient(E_G)
    + E_delta, with E_delta initially zero. The discriminator thus uses the generator's embeddings without
    its gradients reaching them.
    """

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


class UsedRows(nn.Module):
    """The rows [U, E] of an `nn.Embedding` that the training data uses, while they are trained.

    The other rows have neither gradients nor an optimizer's state and stay as they are, weight decay
    included. Fine-tuning thus costs what its texts need, whatever the size of the vocabulary.
    """

    def __init__(self, words: nn.Embedding, ids: Tensor) -> None:
        super().__init__()
        self._words = (words,)  # in a tuple, so that it is no submodule
        self.used = ids.to(words.weight.device)
        self.place = torch.zeros(len(words.weight), dtype=torch.long, device=self.used.device)
        self.place[self.used] = torch.arange(len(ids), device=self.used.device)
        pad = words.padding_idx
        self.padding = int(self.place[pad]) if pad is not None and bool((ids == pad).any()) else None
        self.rows = nn.Parameter(words.weight.detach()[self.used])

    @property
    def weight(self) -> Tensor:
        """The whole table [V, E], as of an `nn.Embedding`; gradients reach the used rows."""
        return self._words[0].weight.detach().index_copy(0, self.used, self.rows)

    def forward(self, ids: Tensor) -> Tensor:
        """Returns embeddings [..., E] of ids [...]; in training, all must be among the used ones."""
        if self.training:
            return F.embedding(self.place[ids], self.rows, self.padding)
        return self._words[0](ids)  # type: ignore[no-any-return]

    @override
    def train(self, mode: bool = True) -> Self:
        if not mode:
            self.whole()
        return super().train(mode)

    @torch.no_grad()
    def whole(self) -> nn.Embedding:
        """Returns the whole table, with the rows as they are now."""
        self._words[0].weight[self.used] = self.rows
        return self._words[0]
