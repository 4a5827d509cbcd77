"""A linear answer on which of many terms each text has, or each pair of texts: what the heads `bag` and
`compare` count by.

A term is a number; which ones a text has is the head's affair. Each counts once, by its rarity
log((1 + texts) / (1 + texts with it)) + 1, and each text's terms of a kind have length 1 (Salton & Buckley
1988). The answer is fitted before the network is trained, and stays. In training, a text is answered by the
fit to the folds that it is not in (Wolpert 1992: stacked generalization), as an answer that knew the label
would leave nothing to learn. Shapes: B texts, N training texts, K terms, O outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

LEAST = 2  # training texts that a term is in
KIND = 60  # the bits from here on are a term's kind
KINDS = 4
Terms = npt.NDArray[np.int64]  # of a text, each once, ascending


class TermAnswer(nn.Module):
    known: Tensor  # the terms, ascending [K]
    rarity: Tensor  # [K]
    weight: Tensor  # [O, K]
    held_out: Tensor  # answers to the training texts of fits without them [N, O]; not saved

    def __init__(self, num_outputs: int) -> None:
        super().__init__()
        self.register_buffer("known", torch.zeros(0, dtype=torch.int64))
        self.register_buffer("rarity", torch.zeros(0))
        self.register_buffer("weight", torch.zeros(num_outputs, 0))
        self.register_buffer("held_out", torch.zeros(0, num_outputs), persistent=False)

    def forward(self, texts: Sequence[Terms]) -> Tensor:
        """The answer to each text [B, O], by its terms."""
        row, column, value = self._found(texts)
        where = self.weight.device
        parts = self.weight.T[torch.from_numpy(column).to(where)] * torch.from_numpy(value).to(where)[:, None]
        answers = parts.new_zeros(len(texts), len(self.weight))
        return answers.index_add_(0, torch.from_numpy(row).to(where), parts).float()

    def held_out_of(self, windows: npt.NDArray[np.int64]) -> Tensor:
        """The answers to training texts, by their numbers."""
        return self.held_out[torch.from_numpy(windows).to(self.held_out.device)]

    def learn(self, texts: Sequence[Terms]) -> Any:
        """Choose the terms; the training texts as a matrix of them [N, K], in CSR form."""
        from scipy.sparse import csr_array

        found, counts = np.unique(np.concatenate(texts), return_counts=True)
        known, among = found[counts >= LEAST], counts[counts >= LEAST]
        rarity = np.log((1 + len(texts)) / (1 + among)) + 1
        device = self.weight.device
        self.known = torch.from_numpy(known).to(device)
        self.rarity = torch.from_numpy(rarity).float().to(device)
        row, column, value = self._found(texts)
        return csr_array((value, (row, column)), shape=(len(texts), len(known)))

    def answer_by(self, weight_OK: npt.NDArray[np.float64], held_out_NO: npt.NDArray[np.float64]) -> None:
        device = self.weight.device
        self.weight = torch.from_numpy(weight_OK).float().to(device)
        self.held_out = torch.from_numpy(held_out_NO).float().to(device)

    def _found(self, texts: Sequence[Terms]) -> tuple[Terms, Terms, npt.NDArray[np.float64]]:
        """The known terms in the texts: which text, which term, and its weight there."""
        known, rarity = self.known.cpu().numpy(), self.rarity.cpu().double().numpy()
        row = np.repeat(np.arange(len(texts)), [len(terms) for terms in texts])
        terms = np.concatenate(texts)
        column = np.searchsorted(known, terms)
        there = np.append(known, -1)[column] == terms
        row, column = row[there], column[there]
        value = rarity[column]
        part = row * KINDS + (known[column] >> KIND)
        length = np.sqrt(np.bincount(part, value**2, len(texts) * KINDS))
        return row, column, value / length[part]

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        """There are as many terms as the saved head has. Raises ValueError where it is no such head."""
        own = {"known": self.known, "rarity": self.rarity, "weight": self.weight}
        known, rarity, weight = (state.get(prefix + name, value) for name, value in own.items())
        shapes = ((len(known),), (len(known),), (len(self.weight), len(known))) if known.dim() else None
        if (tuple(known.shape), tuple(rarity.shape), tuple(weight.shape)) != shapes:
            raise ValueError("terms, rarities and weights do not fit")
        if known.dtype != torch.int64 or (known[1:] <= known[:-1]).any() or not (rarity > 0).all():
            raise ValueError("no terms in their order")
        for name, value in zip(own, (known, rarity, weight), strict=True):
            setattr(self, name, torch.zeros_like(value, device=self.weight.device))
        super()._load_from_state_dict(state, prefix, *rest)


def once(terms: Terms) -> Terms:
    """Each term once, ascending."""
    terms = np.sort(terms)
    return terms[np.diff(terms, prepend=-1) > 0]  # numpy's unique takes a hundred times as long


def of_kind(kind: int, terms: Terms) -> Terms:
    """The same numbers as terms of another kind; KINDS there are."""
    return terms & ((1 << KIND) - 1) | (kind << KIND)
