"""The head `bag`, for single texts: the usual one, plus a linear answer on which words are there.

With some thousand labelled texts a bag of words is hard to beat for a network of a few million parameters,
which has to find out from the same labels which words matter. Here that is given, and the network learns
what is left: word order, negation, words that the training texts lack.

Terms are the tokens, and the pairs of neighbouring tokens, that are in at least two training texts. Each of
a text's terms counts once, by its rarity log((1 + texts) / (1 + texts with it)) + 1, and each text has length
1 (Salton & Buckley 1988). The linear answer is fitted first, with the strength that cross-validation finds
best, and stays. In training, a text is answered by the fit to the folds that it is not in (Wolpert 1992:
stacked generalization), as an answer that knew the label would leave nothing to learn. The usual head starts
at zero. Shapes: B texts, N training texts, T tokens, K terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from electra.finetuning.features import Batch, Windows
from electra.finetuning.linear_fit import Loss, fit_by_folds

LEAST = 2  # training texts that a term is in
STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0)  # of the fit: the inverse of the penalty on squared weights
Codes = npt.NDArray[np.int64]


class BagHead(nn.Module):
    per_token = False
    terms: Tensor  # sorted [K]: a token as its id, a pair as (first + 1) * vocabulary + second
    rarity: Tensor  # [K]
    weight: Tensor  # [outputs, K]
    bias: Tensor  # [outputs]
    held_out: Tensor  # answers to the training texts of a fit without them [texts, outputs]; not saved

    def __init__(self, usual: nn.Module, vocab_size: int, num_outputs: int) -> None:
        super().__init__()
        self.usual, self.vocab_size = usual, vocab_size
        self.register_buffer("terms", torch.zeros(0, dtype=torch.int64))
        self.register_buffer("rarity", torch.zeros(0))
        self.register_buffer("weight", torch.zeros(num_outputs, 0))
        self.register_buffer("bias", torch.zeros(num_outputs))
        self.register_buffer("held_out", torch.zeros(0, num_outputs), persistent=False)

    def forward(self, hidden_BTD: Tensor, batch: Batch) -> Tensor:
        usual: Tensor = self.usual(hidden_BTD, batch)
        return usual.float() + self.counted(batch)

    def counted(self, batch: Batch) -> Tensor:
        """The linear answer [B, outputs]."""
        if self.training:
            return self.held_out[torch.from_numpy(batch.index).to(self.held_out.device)]
        rows = batch.input_ids.cpu().numpy()
        lengths = [len(row) for row in rows]
        if batch.piece_ids is not None:
            lengths = (batch.piece_ids >= 0).sum(1).tolist()
        texts = [row[:length] for row, length in zip(rows, lengths, strict=True)]
        row, column, value = self._found(texts, self.terms.cpu().numpy(), self.rarity.cpu().numpy())
        where = self.weight.device
        parts = self.weight.T[torch.from_numpy(column).to(where)] * torch.from_numpy(value).to(where)[:, None]
        answers = parts.new_zeros(len(texts), len(self.bias)).index_add_(
            0, torch.from_numpy(row).to(where), parts
        )
        return answers.float() + self.bias

    def fit(self, windows: Windows, loss: Loss) -> None:
        """Choose terms and strength, and fit, to the training texts; the usual head adds nothing yet."""
        from scipy.sparse import csr_array

        assert windows.targets is not None, "training data have answers"
        texts = windows.input_ids
        found, counts = np.unique(np.concatenate([self._codes(ids) for ids in texts]), return_counts=True)
        terms, among = found[counts >= LEAST], counts[counts >= LEAST]
        rarity = np.log((1 + len(texts)) / (1 + among)) + 1
        row, column, value = self._found(texts, terms, rarity)
        x_NK = csr_array((value, (row, column)), shape=(len(texts), len(terms)))
        targets = torch.from_numpy(np.stack(windows.targets))
        answer, held_out = fit_by_folds(x_NK, targets, loss, len(self.bias), STRENGTHS)
        device = self.bias.device
        self.terms = torch.from_numpy(terms).to(device)
        self.rarity, self.weight, self.bias, self.held_out = (
            torch.from_numpy(values).float().to(device)
            for values in (rarity, answer[:, :-1], answer[:, -1], held_out)
        )
        with torch.no_grad():
            for name in ("output.weight", "output.bias"):
                self.usual.get_parameter(name).zero_()

    def _codes(self, ids: Codes) -> Codes:
        """A text's tokens and pairs of neighbours, each once, ascending."""
        codes = np.concatenate([ids, (ids[:-1] + 1) * self.vocab_size + ids[1:]]).astype(np.int64)
        codes.sort()
        return codes[np.diff(codes, prepend=-1) > 0]  # numpy's unique takes a hundred times as long

    def _found(
        self, texts: Sequence[Codes], terms: Codes, rarity: npt.NDArray[Any]
    ) -> tuple[Codes, Codes, npt.NDArray[np.float64]]:
        """The known terms in the texts: which text, which term, and its weight there."""
        found = [self._codes(ids) for ids in texts]
        row = np.repeat(np.arange(len(texts)), [len(codes) for codes in found])
        codes = np.concatenate(found)
        column = np.searchsorted(terms, codes)
        known = np.append(terms, -1)[column] == codes
        row, column = row[known], column[known]
        value = rarity[column].astype(np.float64)
        length = np.sqrt(np.bincount(row, value**2, len(texts)))
        return row, column, value / length[row]

    def rescale(self, factor: float, offset: float) -> None:
        """Answer in another unit: the outputs times `factor`, plus `offset`."""
        output = self.usual.get_submodule("output")
        for value in (output.get_parameter("weight"), output.get_parameter("bias"), self.weight, self.bias):
            value.mul_(factor)
        self.bias.add_(offset)

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        """There are as many terms as the saved head has."""
        for name in ("terms", "rarity", "weight"):
            if (saved := state.get(prefix + name)) is not None:
                setattr(self, name, torch.zeros_like(saved, device=self.bias.device))
        super()._load_from_state_dict(state, prefix, *rest)
