"""The head `bag`, for single texts: the usual one, plus a linear answer on which words are there.

With some thousand labelled texts a bag of words is hard to beat for a network of a few million parameters,
which has to find out from the same labels which words matter. Here that is given, and the network learns
what is left: word order, negation, words that the training texts lack.

The terms (term_answer.py) are the tokens and the pairs of neighbouring tokens. The usual head starts at zero.
Shapes: B texts, T tokens, D hidden.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from electra.finetuning.features import Batch, Ids, Windows
from electra.finetuning.linear_fit import Loss, fit_by_folds
from electra.finetuning.term_answer import TermAnswer, Terms, once

STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0)  # of the fit: the inverse of the penalty on squared weights


class BagHead(nn.Module):
    per_token = False
    bias: Tensor  # of the linear answer [outputs]

    def __init__(self, usual: nn.Module, vocab_size: int, num_outputs: int) -> None:
        super().__init__()
        self.usual, self.vocab_size = usual, vocab_size
        self.counted = TermAnswer(num_outputs)
        self.register_buffer("bias", torch.zeros(num_outputs))

    def forward(self, hidden_BTD: Tensor, batch: Batch) -> Tensor:
        usual: Tensor = self.usual(hidden_BTD, batch)
        if self.training:
            return usual.float() + self.counted.held_out_of(batch.index)
        rows = batch.input_ids.cpu().numpy()
        lengths = [len(row) for row in rows]
        if batch.piece_ids is not None:
            lengths = (batch.piece_ids >= 0).sum(1).tolist()
        texts = [row[:length] for row, length in zip(rows, lengths, strict=True)]
        counted: Tensor = self.counted([self.terms(ids) for ids in texts])
        return usual.float() + counted + self.bias

    def terms(self, ids: Ids) -> Terms:
        """The tokens, and the pairs of neighbours."""
        return once(np.concatenate([ids, (ids[:-1] + 1) * self.vocab_size + ids[1:]]).astype(np.int64))

    def fit(self, windows: Windows, loss: Loss) -> None:
        """Choose terms and strength, and fit, to the training texts; the usual head adds nothing yet."""
        assert windows.targets is not None, "training data have answers"
        x_NK = self.counted.learn([self.terms(ids) for ids in windows.input_ids])
        targets = torch.from_numpy(np.stack(windows.targets))
        answer, held_out = fit_by_folds(
            x_NK, targets, loss, len(self.bias), STRENGTHS, groups=windows.example
        )
        self.counted.answer_by(answer[:, :-1], held_out)
        self.bias.copy_(torch.from_numpy(answer[:, -1]))
        with torch.no_grad():
            for name in ("output.weight", "output.bias"):
                self.usual.get_parameter(name).zero_()

    def rescale(self, factor: float, offset: float) -> None:
        """Answer in another unit: the outputs times `factor`, plus `offset`."""
        output = self.usual.get_submodule("output")
        for value in (output.get_parameter("weight"), output.get_parameter("bias"), self.counted.weight):
            value.mul_(factor)
        self.bias.mul_(factor).add_(offset)

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Older heads have their terms under names of their own."""
        for old, new in (("terms", "known"), ("rarity", "rarity"), ("weight", "weight")):
            if prefix + old in state:
                state[f"{prefix}counted.{new}"] = state.pop(prefix + old)
        super()._load_from_state_dict(state, prefix, *rest)
