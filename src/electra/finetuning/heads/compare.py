"""The head `compare`, for pairs of texts: a hybrid of the standard head and a linear model of their overlap.

A cross-encoder of a few million parameters must learn from a task's labels which tokens of one text occur in
the other. A few thousand examples are too few for that, and a model of word overlap scores higher. Here a
linear model supplies the overlap (parts/hybrid.py).

`FEATURES` lists the features of a pair: the proportions of each text's tokens and bigrams that occur in the
other text; the mean similarity of each text's tokens to the nearest token of the other text (Khattab &
Zaharia 2020), by token embeddings and by the encoder's output; the log ratio of the texts' lengths; and the
`OVERLAP_FEATURES`, which compare words, characters and word order. Proportions and similarities are also
included weighted by the rarity of the tokens in the training texts.

The tokens themselves matter as well ("not" in one text only, a date in both: Ji & Eisenstein 2013). The terms
of a pair are the tokens that occur only in the first text, only in the second, in exactly one of them, and in
both. Shapes: B pairs, T tokens, E embedding size, D hidden size, V vocabulary, K features.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from electra.finetuning.heads.parts.contract import HeadShape
from electra.finetuning.heads.parts.hybrid import HybridFactory, HybridHead
from electra.finetuning.heads.parts.overlap import OVERLAP_FEATURES, overlap
from electra.finetuning.heads.parts.term_model import Terms, sorted_unique, with_kind
from electra.finetuning.heads.transformers import HEAD as STANDARD
from electra.finetuning.windows.features import Batch, Ids
from electra.foundation.arrays import Floats

MEASURES = ("tokens in the other", "bigrams in the other", "similarity by embeddings", "similarity by states")
FEATURES = tuple(
    f"{measure}, {text}{weighted}"
    for measure in MEASURES
    for text in ("first", "second")
    for weighted in ("", ", weighted")
) + ("log ratio of lengths", *OVERLAP_FEATURES)
MIN_DEVIATION = 0.01  # the lowest standard deviation of a feature
FIRST, SECOND, EITHER, BOTH = range(4)  # kinds of terms; EITHER: in exactly one text


class CompareHead(HybridHead):
    """The standard head plus a linear model of `FEATURES` and of the tokens that differ."""

    strengths: ClassVar[tuple[float, ...]] = (0.01, 0.03, 0.1, 0.3, 1.0)

    def __init__(self, standard: nn.Module, vocab_size: int, num_outputs: int) -> None:
        super().__init__(standard, len(FEATURES), num_outputs)
        self.rarity: Tensor
        self.between: Tensor  # whether each token is a separator; saved weights use this name
        self.register_buffer("rarity", torch.ones(vocab_size))
        self.register_buffer("between", torch.zeros(vocab_size, dtype=torch.bool))

    def compute_features(self, hidden_BTD: Tensor, batch: Batch, table_VE: Tensor) -> Tensor:
        """Returns `FEATURES` of each pair [B, K]."""
        ids_BT = batch.input_ids
        first_BT, second_BT = self.text_masks(batch)
        across_BTT = _across(first_BT, second_BT)
        rarity_BT = self.rarity[ids_BT]
        words_BTE = F.embedding(ids_BT, table_VE - table_VE.mean(0))
        token_values = [  # a value for each token, and masks of the tokens of each text that have one
            (_occurs_across(ids_BT, across_BTT), first_BT, second_BT),
            self._bigrams(ids_BT, first_BT, second_BT),
            (_nearest(words_BTE, across_BTT), first_BT, second_BT),
            (_nearest(hidden_BTD, across_BTT), first_BT, second_BT),
        ]
        columns = [
            _mean(value_BT, mask_BT * weight_BT)
            for value_BT, *masks in token_values
            for mask_BT in masks
            for weight_BT in (torch.ones_like(rarity_BT), rarity_BT)
        ]
        lengths = [1 + mask_BT.sum(1).float() for mask_BT in (first_BT, second_BT)]
        overlaps = ids_BT.new_tensor([overlap(*texts) for texts in batch.texts], dtype=torch.float32)
        return torch.cat([torch.stack([*columns, torch.log(lengths[1] / lengths[0])], 1), overlaps], 1)

    def extract_terms(self, batch: Batch) -> list[Terms]:
        """Returns the terms of each pair: its tokens, marked by which of the texts they occur in."""
        ids, *masks = (tensor.cpu().numpy() for tensor in (batch.input_ids, *self.text_masks(batch)))
        return [
            self._compare(row[first], row[second]) for row, first, second in zip(ids, *masks, strict=True)
        ]

    @staticmethod
    def _compare(first: Ids, second: Ids) -> Terms:
        first, second = sorted_unique(first), sorted_unique(second)
        kinds = {FIRST: np.setdiff1d(first, second, True), SECOND: np.setdiff1d(second, first, True)}
        kinds[EITHER] = sorted_unique(np.concatenate(list(kinds.values())))
        kinds[BOTH] = np.intersect1d(first, second, True)
        return np.concatenate([with_kind(kind, tokens) for kind, tokens in kinds.items()])

    def text_masks(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Returns masks [B, T] of the tokens of the first and the second text, without special tokens."""
        separator_BT = self.between[batch.input_ids]
        ordinary_BT = ~separator_BT
        if batch.document_ids is not None:
            ordinary_BT = ordinary_BT & (batch.document_ids >= 0)
        num_before_BT = separator_BT.cumsum(1)
        return ordinary_BT & (num_before_BT <= 1), ordinary_BT & (num_before_BT > 1)

    @staticmethod
    def _bigrams(ids_BT: Tensor, first_BT: Tensor, second_BT: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns whether each token's bigram occurs in the other text (1 or 0), and masks of the bigrams.

        All are [B, T]; the bigram of a token is the token and the next one, and both must be in one text.
        """
        masks = [mask_BT & F.pad(mask_BT[:, 1:], (0, 1)) for mask_BT in (first_BT, second_BT)]
        next_BT = F.pad(ids_BT[:, 1:], (0, 1))
        across_BTT = _across(*masks) & (next_BT.unsqueeze(2) == next_BT.unsqueeze(1))
        return _occurs_across(ids_BT, across_BTT), masks[0], masks[1]

    def fit_statistics(self, windows: Iterable[Ids], separators: Iterable[int]) -> None:
        """Stores which tokens are separators, and the rarity of each token.

        A token's rarity is the log of the inverse of the proportion of training windows that contain it,
        scaled so that the mean is 1.
        """
        window_counts, num_windows = torch.zeros(len(self.rarity), dtype=torch.float64), 0
        for ids in windows:
            window_counts[np.unique(ids)] += 1
            num_windows += 1
        rarity = torch.log((num_windows + 1) / (window_counts + 0.5))
        self.rarity.copy_(rarity / rarity.mean())
        self.between[list(separators)] = True

    def feature_scale(self, features_NK: Floats) -> Floats:
        """Returns the standard deviations [K], bounded below because some are only rounding errors."""
        deviation: Floats = features_NK.std(0).clip(MIN_DEVIATION)
        return deviation

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Also loads heads of older versions; features and terms that they lack have zero weights."""
        weight_name = f"{prefix}wide.weight"
        saved_weight = state.get(weight_name)
        if saved_weight is not None and saved_weight.shape[1] == len(FEATURES) - len(OVERLAP_FEATURES):
            state[weight_name] = F.pad(saved_weight, (0, len(OVERLAP_FEATURES)))
        for name, value in self.counted.state_dict(prefix=f"{prefix}counted.").items():
            state.setdefault(name, state.pop(name.replace("counted", "differing"), value))
        super()._load_from_state_dict(state, prefix, *rest)


def _across(first_BT: Tensor, second_BT: Tensor) -> Tensor:
    """Returns the mask [B, T, T] of pairs of tokens from different texts."""
    forward_BTT = first_BT.unsqueeze(2) & second_BT.unsqueeze(1)
    return forward_BTT | forward_BTT.transpose(1, 2)


def _occurs_across(ids_BT: Tensor, across_BTT: Tensor) -> Tensor:
    """Returns 1 for each token that also occurs in the other text, else 0 [B, T]."""
    return ((ids_BT.unsqueeze(2) == ids_BT.unsqueeze(1)) & across_BTT).any(2).float()


def _nearest(x_BTD: Tensor, across_BTT: Tensor) -> Tensor:
    """Returns each token's highest cosine with a token of the other text [B, T]; -1 if there is none."""
    unit_BTD = F.normalize(x_BTD.float(), dim=-1)
    near_BTT: Tensor = unit_BTD @ unit_BTD.transpose(1, 2)
    return near_BTT.float().masked_fill(~across_BTT, -1.0).amax(2)


def _mean(value_BT: Tensor, weight_BT: Tensor) -> Tensor:
    return (value_BT * weight_BT).sum(1) / weight_BT.sum(1).clamp(min=math.ulp(1.0))


class Compare(HybridFactory):
    """Builds `CompareHead`."""

    name, texts = "compare", 2
    purpose = "for pairs of texts"
    instead = "Use it with a task of pairs: `task` pair, regression, mrpc, stsb, qqp, mnli, qnli, rte"
    epochs = 1.0  # a second epoch would undo the fit of the linear model

    @override
    def build(self, shape: HeadShape) -> HybridHead:
        return CompareHead(STANDARD.build(shape), shape.config.vocab_size, shape.num_outputs)


HEAD = Compare()
