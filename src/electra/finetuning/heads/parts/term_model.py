"""The sparse part of the hybrid heads: a linear model of the terms that occur in a text or a pair.

A term is an integer; the head decides which terms a text has. The high bits of a term are its kind, such as
"in both texts of a pair". The weight of a term that occurs is its inverse document frequency
log((1 + texts) / (1 + texts with the term)) + 1; within a text, the weights of each kind are scaled to unit
length (Salton & Buckley 1988). The model is fitted before the network is trained, and is
not trained further. In training, a text's logits are those of the fit without the text's fold (Wolpert 1992:
stacked generalization), because a model fitted to its label would leave the network nothing to learn. Shapes:
B texts, N training texts, K terms, O outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from electra.foundation.arrays import Ints

MIN_TEXTS = 2  # terms that occur in fewer training texts are ignored
KIND_SHIFT = 60  # the position of the lowest bit of a term's kind
KINDS = 4
Terms = npt.NDArray[np.int64]  # the terms of a text: unique, ascending


class TermModel(nn.Module):
    """Maps the terms of texts to logits. Saved weights use the names of its buffers."""

    known: Tensor  # the terms, ascending [K]
    rarity: Tensor  # their inverse document frequencies [K]
    weight: Tensor  # [O, K]
    held_out: Tensor  # the held-out logits of the training texts [N, O]; not saved

    def __init__(self, num_outputs: int) -> None:
        super().__init__()
        self.register_buffer("known", torch.zeros(0, dtype=torch.int64))
        self.register_buffer("rarity", torch.zeros(0))
        self.register_buffer("weight", torch.zeros(num_outputs, 0))
        self.register_buffer("held_out", torch.zeros(0, num_outputs), persistent=False)

    def forward(self, texts: Sequence[Terms]) -> Tensor:
        """Returns the logits of each text [B, O]."""
        row, column, value = self._weigh(texts)
        device = self.weight.device
        contributions = (
            self.weight.T[torch.from_numpy(column).to(device)] * torch.from_numpy(value).to(device)[:, None]
        )
        logits = contributions.new_zeros(len(texts), len(self.weight))
        return logits.index_add_(0, torch.from_numpy(row).to(device), contributions).float()

    def held_out_logits(self, indices: Ints) -> Tensor:
        """Returns the held-out logits [B, O] of the training texts with these indices."""
        return self.held_out[torch.from_numpy(indices).to(self.held_out.device)]

    def fit_vocabulary(self, texts: Sequence[Terms]) -> Any:
        """Chooses the terms, and returns their weights in the training texts as a CSR matrix [N, K]."""
        from scipy.sparse import csr_array

        terms, counts = np.unique(np.concatenate(texts), return_counts=True)
        known, known_counts = terms[counts >= MIN_TEXTS], counts[counts >= MIN_TEXTS]
        rarity = np.log((1 + len(texts)) / (1 + known_counts)) + 1
        device = self.weight.device
        self.known = torch.from_numpy(known).to(device)
        self.rarity = torch.from_numpy(rarity).float().to(device)
        row, column, value = self._weigh(texts)
        return csr_array((value, (row, column)), shape=(len(texts), len(known)))

    def set_weights(self, weight_OK: npt.NDArray[np.float64], held_out_NO: npt.NDArray[np.float64]) -> None:
        """Stores the fitted weights and the held-out logits of the training texts."""
        device = self.weight.device
        self.weight = torch.from_numpy(weight_OK).float().to(device)
        self.held_out = torch.from_numpy(held_out_NO).float().to(device)

    def _weigh(self, texts: Sequence[Terms]) -> tuple[Ints, Ints, npt.NDArray[np.float64]]:
        """Returns (text indices, term indices, weights) of the known terms in the texts."""
        known, rarity = self.known.cpu().numpy(), self.rarity.cpu().double().numpy()
        row = np.repeat(np.arange(len(texts)), [len(terms) for terms in texts])
        terms = np.concatenate(texts)
        column = np.searchsorted(known, terms)
        is_known = np.append(known, -1)[column] == terms
        row, column = row[is_known], column[is_known]
        value = rarity[column]
        text_and_kind = row * KINDS + (known[column] >> KIND_SHIFT)
        length = np.sqrt(np.bincount(text_and_kind, value**2, len(texts) * KINDS))
        return row, column, value / length[text_and_kind]

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Loads the weights of any number of terms. Raises ValueError if they are inconsistent."""
        current_values = {"known": self.known, "rarity": self.rarity, "weight": self.weight}
        known, rarity, weight = (state.get(prefix + name, value) for name, value in current_values.items())
        shapes = ((len(known),), (len(known),), (len(self.weight), len(known))) if known.dim() else None
        if (tuple(known.shape), tuple(rarity.shape), tuple(weight.shape)) != shapes:
            raise ValueError("the shapes of the terms, their IDFs and their weights do not match")
        if known.dtype != torch.int64 or (known[1:] <= known[:-1]).any() or not (rarity > 0).all():
            raise ValueError("the terms are not ascending integers with positive IDFs")
        for name, value in zip(current_values, (known, rarity, weight), strict=True):
            setattr(self, name, torch.zeros_like(value, device=self.weight.device))
        super()._load_from_state_dict(state, prefix, *rest)


def sorted_unique(terms: Terms) -> Terms:
    """Returns each term once, in ascending order. Terms must not be negative."""
    terms = np.sort(terms)
    return terms[np.diff(terms, prepend=-1) > 0]  # a hundred times as fast as np.unique


def with_kind(kind: int, terms: Terms) -> Terms:
    """Returns the terms with their kind, a number below `KINDS`, set to `kind`."""
    return terms & ((1 << KIND_SHIFT) - 1) | (kind << KIND_SHIFT)
