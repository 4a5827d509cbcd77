"""The head `compare`, for pairs of texts: the usual one, plus a linear answer on how far the texts agree.

A cross-encoder of a few million parameters has to learn from a task's labels which tokens of one text return
in the other, and with some thousand examples it does so badly: counting words beats it. Here that is given
(parts/counting.py). Numbers of a pair, in `FEATURES`: which share of each text's tokens, and of its pairs of
neighbours, the other text has too; how near each token is to the nearest one of the other text (Khattab &
Zaharia 2020), by the token table and by the encoder's output; the log ratio of their lengths. Shares and
means are also weighted by how rare a token is in the training texts. The numbers of `OVERLAP` count words,
characters and their order.

Which tokens they are matters as well ("not" in one text alone, a date in both: Ji & Eisenstein 2013). Terms
of a pair are the tokens that only the first text has, only the second, one of the two, whichever, and both.
Shapes: B pairs, T tokens, D hidden, K features.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from electra.finetuning.heads.parts.contract import HeadShape
from electra.finetuning.heads.parts.counting import CountingFactory, CountingHead
from electra.finetuning.heads.parts.overlap import OVERLAP, overlap
from electra.finetuning.heads.parts.term_answer import Terms, of_kind, once
from electra.finetuning.heads.transformers import HEAD as USUAL
from electra.finetuning.windows.features import Batch, Ids
from electra.foundation.arrays import Floats

SHARES = ("tokens in the other", "pairs in the other", "near by table", "near by encoder")
FEATURES = tuple(
    f"{what}, {text}{weighted}"
    for what in SHARES
    for text in ("first", "second")
    for weighted in ("", ", weighted")
) + ("log ratio of lengths", *OVERLAP)
LEAST_DEVIATION = 0.01  # of shares and cosines
FIRST, SECOND, EITHER, BOTH = range(4)  # kinds of terms


class CompareHead(CountingHead):
    strengths: ClassVar[tuple[float, ...]] = (0.01, 0.03, 0.1, 0.3, 1.0)

    def __init__(self, usual: nn.Module, vocab_size: int, num_outputs: int) -> None:
        super().__init__(usual, len(FEATURES), num_outputs)
        self.rarity: Tensor
        self.between: Tensor
        self.register_buffer("rarity", torch.ones(vocab_size))
        self.register_buffer("between", torch.zeros(vocab_size, dtype=torch.bool))

    def numbers(self, hidden_BTD: Tensor, batch: Batch, table_VE: Tensor) -> Tensor:
        """How far the texts agree [B, K]."""
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

    def know(self, windows: Iterable[Ids], between: Iterable[int]) -> None:
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

    def scale(self, numbers_NK: Floats) -> Floats:
        """A share that hardly differs among the training pairs, by rounding alone at worst, is no scale."""
        deviation: Floats = numbers_NK.std(0).clip(LEAST_DEVIATION)
        return deviation

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Heads saved without the numbers of `OVERLAP`, or without terms, give them no weight."""
        name = f"{prefix}wide.weight"
        if (saved := state.get(name)) is not None and saved.shape[1] == len(FEATURES) - len(OVERLAP):
            state[name] = F.pad(saved, (0, len(OVERLAP)))
        for part, value in self.counted.state_dict(prefix=f"{prefix}counted.").items():
            state.setdefault(part, state.pop(part.replace("counted", "differing"), value))
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


class Compare(CountingFactory):
    name, texts = "compare", 2
    purpose = "for pairs of texts"
    instead = "Use it with a task of pairs: `task` pair, regression, mrpc, stsb, qqp, mnli, qnli, rte"
    epochs = 1.0  # a second pass over some thousand pairs undoes what counting gave

    def build(self, shape: HeadShape) -> CountingHead:
        return CompareHead(USUAL.build(shape), shape.config.vocab_size, shape.num_outputs)


HEAD = Compare()
