"""The head `compare`, for pairs of texts: the usual one, plus a linear answer on how far the texts agree.

A cross-encoder of a few million parameters has to learn from a task's labels which tokens of one text return
in the other, and with some thousand examples it does so badly: counting words beats it. Here that is given.
Numbers of a pair, in `FEATURES`: which share of each text's tokens, and of its pairs of neighbours, the other
text has too; how near each token is to the nearest one of the other text (Khattab & Zaharia 2020), by the
token table and by the encoder's output; the log ratio of their lengths. Shares and means are also weighted by
how rare a token is in the training texts. The numbers of `OVERLAP` count words, characters and their order.

Which tokens they are matters as well ("not" in one text alone, a date in both: Ji & Eisenstein 2013). Terms
of a pair (term_answer.py) are the tokens that only the first text has, only the second, one of the two,
whichever, and both.

The linear answer is fitted first, on the pre-trained encoder as it is, and the usual head starts at zero:
then both are tuned with the encoder, and so is what they compare (Kumar et al. 2022: probe, then tune; Cheng
et al. 2016: wide and deep). The terms' part stays. Shapes: B pairs, T tokens, D hidden, K features.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from electra.finetuning.features import Batch, Ids
from electra.finetuning.linear_fit import Beside, Loss, fit_by_folds
from electra.finetuning.overlap import OVERLAP, overlap
from electra.finetuning.term_answer import TermAnswer, Terms, of_kind, once

SHARES = ("tokens in the other", "pairs in the other", "near by table", "near by encoder")
FEATURES = tuple(
    f"{what}, {text}{weighted}"
    for what in SHARES
    for text in ("first", "second")
    for weighted in ("", ", weighted")
) + ("log ratio of lengths", *OVERLAP)
COMPARING_EPOCHS = 1.0  # by default: a second pass over some thousand pairs undoes what counting gave
STRENGTHS = (0.01, 0.03, 0.1, 0.3, 1.0)  # of the linear fit, whose features have deviation 1
FIRST, SECOND, EITHER, BOTH = range(4)  # kinds of terms


class CompareHead(nn.Module):
    per_token = False

    def __init__(self, usual: nn.Module, vocab_size: int, num_outputs: int) -> None:
        super().__init__()
        self.usual = usual
        self.wide = nn.Linear(len(FEATURES), num_outputs)
        self.differing = TermAnswer(num_outputs)
        self.rarity: Tensor
        self.between: Tensor
        self.register_buffer("rarity", torch.ones(vocab_size))
        self.register_buffer("between", torch.zeros(vocab_size, dtype=torch.bool))

    def forward(self, hidden_BTD: Tensor, batch: Batch, table_VE: Tensor) -> Tensor:
        usual: Tensor = self.usual(hidden_BTD, batch)
        if self.training:
            differing = self.differing.held_out_of(batch.index)
        else:
            differing = self.differing(self.terms(batch))
        compared = F.linear(self.compare(hidden_BTD, batch, table_VE), *self.linear())
        return usual.float() + compared + differing

    def linear(self) -> tuple[Tensor, Tensor]:
        return self.wide.weight.float(), self.wide.bias.float()

    def compare(self, hidden_BTD: Tensor, batch: Batch, table_VE: Tensor) -> Tensor:
        """[B, K] in fp32."""
        ids_BT = batch.input_ids
        first_BT, second_BT = self.texts(batch)
        across_BTT = _across(first_BT, second_BT)
        rarity_BT = self.rarity[ids_BT]
        words_BTE = F.embedding(ids_BT, table_VE - table_VE.mean(0))
        found = [
            (_returns(ids_BT, across_BTT), first_BT, second_BT),
            self._neighbours(ids_BT, first_BT, second_BT),
            (_nearest(words_BTE, across_BTT), first_BT, second_BT),
            (_nearest(hidden_BTD, across_BTT), first_BT, second_BT),
        ]
        columns = [
            _mean(value_BT, of_BT * weight_BT)
            for value_BT, *texts in found
            for of_BT in texts
            for weight_BT in (torch.ones_like(rarity_BT), rarity_BT)
        ]
        lengths = [1 + of_BT.sum(1).float() for of_BT in (first_BT, second_BT)]
        counted = ids_BT.new_tensor([overlap(*texts) for texts in batch.texts], dtype=torch.float32)
        return torch.cat([torch.stack([*columns, torch.log(lengths[1] / lengths[0])], 1), counted], 1)

    def terms(self, batch: Batch) -> list[Terms]:
        """Of each pair: the tokens that only one text has, by which, and those that both have."""
        ids, *texts = (of.cpu().numpy() for of in (batch.input_ids, *self.texts(batch)))
        return [
            self._differing(row[first], row[second]) for row, first, second in zip(ids, *texts, strict=True)
        ]

    @staticmethod
    def _differing(first: Ids, second: Ids) -> Terms:
        first, second = once(first), once(second)
        kinds = {FIRST: np.setdiff1d(first, second, True), SECOND: np.setdiff1d(second, first, True)}
        kinds[EITHER] = once(np.concatenate(list(kinds.values())))
        kinds[BOTH] = np.intersect1d(first, second, True)
        return np.concatenate([of_kind(kind, tokens) for kind, tokens in kinds.items()])

    def texts(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Which tokens are the first text's and which the second's [B, T]: [CLS] and [SEP] stand between."""
        between_BT = self.between[batch.input_ids]
        ordinary_BT = ~between_BT
        if batch.piece_ids is not None:
            ordinary_BT = ordinary_BT & (batch.piece_ids >= 0)
        before_BT = between_BT.cumsum(1)
        return ordinary_BT & (before_BT <= 1), ordinary_BT & (before_BT > 1)

    @staticmethod
    def _neighbours(ids_BT: Tensor, first_BT: Tensor, second_BT: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The same for a token together with the next one."""
        both = [of_BT & F.pad(of_BT[:, 1:], (0, 1)) for of_BT in (first_BT, second_BT)]
        next_BT = F.pad(ids_BT[:, 1:], (0, 1))
        across_BTT = _across(*both) & (next_BT.unsqueeze(2) == next_BT.unsqueeze(1))
        return _returns(ids_BT, across_BTT), both[0], both[1]

    def know(self, windows: Iterable[npt.NDArray[np.int64]], between: Iterable[int]) -> None:
        """The tokens around and between the texts, and how rare the others are: the log of one over the share
        of training windows that have them, of mean 1.
        """
        seen, count = torch.zeros(len(self.rarity), dtype=torch.float64), 0
        for ids in windows:
            seen[np.unique(ids)] += 1
            count += 1
        rarity = torch.log((count + 1) / (seen + 0.5))
        self.rarity.copy_(rarity / rarity.mean())
        self.between[list(between)] = True

    def fit(
        self, features_NK: Tensor, terms: Sequence[Terms], targets: Tensor, loss: Loss, groups: Ids
    ) -> None:
        """Fit the linear answer to N training pairs; the usual head, whose last layer becomes zero, adds
        nothing yet.

        groups: [N] pairs of one number are the same example.
        """
        x_NK = features_NK.double().cpu().numpy()
        mean_K, deviation_K = x_NK.mean(0), x_NK.std(0).clip(1e-6)
        x_NK = (x_NK - mean_K) / deviation_K
        both = Beside(x_NK, self.differing.learn(terms))
        answer, held_out = fit_by_folds(both, targets, loss, len(self.wide.bias), STRENGTHS, groups=groups)
        ours = answer[:, : len(FEATURES)]
        weight, bias = ours / deviation_K, answer[:, -1]
        # What the folds without a pair say of it, less what is counted of it again at each step.
        self.differing.answer_by(answer[:, len(FEATURES) : -1], held_out - (x_NK @ ours.T + bias))
        with torch.no_grad():
            self.wide.weight.copy_(torch.from_numpy(weight))
            self.wide.bias.copy_(torch.from_numpy(bias - weight @ mean_K))
            for name in ("output.weight", "output.bias"):
                self.usual.get_parameter(name).zero_()

    def rescale(self, factor: float, offset: float) -> None:
        """Answer in another unit: the outputs times `factor`, plus `offset`."""
        for part in (self.usual.get_submodule("output"), self.wide):
            part.get_parameter("weight").mul_(factor)
            part.get_parameter("bias").mul_(factor)
        self.differing.weight.mul_(factor)
        self.wide.bias.add_(offset)

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Heads saved without the numbers of `OVERLAP`, or without terms, give them no weight."""
        name = f"{prefix}wide.weight"
        if (saved := state.get(name)) is not None and saved.shape[1] == len(FEATURES) - len(OVERLAP):
            state[name] = F.pad(saved, (0, len(OVERLAP)))
        for part, value in self.differing.state_dict(prefix=f"{prefix}differing.").items():
            state.setdefault(part, value)
        super()._load_from_state_dict(state, prefix, *rest)


def _across(first_BT: Tensor, second_BT: Tensor) -> Tensor:
    """[B, T, T]: whether one token is the first text's and the other the second's."""
    one_BTT = first_BT.unsqueeze(2) & second_BT.unsqueeze(1)
    return one_BTT | one_BTT.transpose(1, 2)


def _returns(ids_BT: Tensor, across_BTT: Tensor) -> Tensor:
    """1 where a token has its like in the other text."""
    return ((ids_BT.unsqueeze(2) == ids_BT.unsqueeze(1)) & across_BTT).any(2).float()


def _nearest(x_BTD: Tensor, across_BTT: Tensor) -> Tensor:
    """The cosine of a token and the nearest one of the other text [B, T]; -1 where there is none."""
    unit_BTD = F.normalize(x_BTD.float(), dim=-1)
    near_BTT: Tensor = unit_BTD @ unit_BTD.transpose(1, 2)
    return near_BTT.float().masked_fill(~across_BTT, -1.0).amax(2)


def _mean(value_BT: Tensor, weight_BT: Tensor) -> Tensor:
    return (value_BT * weight_BT).sum(1) / weight_BT.sum(1).clamp(min=math.ulp(1.0))
