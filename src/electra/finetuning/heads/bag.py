"""The head `bag`, for single texts: the usual one, plus a linear answer on which words are there.

With some thousand labelled texts a bag of words is hard to beat for a network of a few million parameters,
which has to find out from the same labels which words matter. Here that is given (parts/counting.py), and the
network learns what is left: word order, negation, words that the training texts lack.

The terms are the tokens and the pairs of neighbouring tokens. The mean of the encoder's states stands beside
them, so that words which the training texts lack count by those they are like. Shapes: B texts, N training
texts, T tokens, D hidden.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from electra.finetuning.heads.parts.contract import HeadShape
from electra.finetuning.heads.parts.counting import CountingFactory, CountingHead
from electra.finetuning.heads.parts.term_answer import Terms, once
from electra.finetuning.heads.transformers import HEAD as USUAL
from electra.finetuning.windows.features import Batch
from electra.foundation.arrays import Floats

LEAST_DEVIATION = 0.3  # as a share of the states' root mean square
VECTOR = 0.3  # in the fit, the root mean square length of a text's mean state; its terms have length 1


class BagHead(CountingHead):
    strengths: ClassVar[tuple[float, ...]] = (0.3, 1.0, 3.0, 10.0, 30.0)

    def __init__(self, usual: nn.Module, vocab_size: int, hidden_size: int, num_outputs: int) -> None:
        super().__init__(usual, hidden_size, num_outputs)
        self.vocab_size = vocab_size

    def numbers(self, hidden_BTD: Tensor, batch: Batch, table_VE: Tensor) -> Tensor:
        """The mean state of each text [B, D]."""
        if batch.piece_ids is None:
            return hidden_BTD.float().mean(1)
        real_BT1 = (batch.piece_ids >= 0).unsqueeze(-1).float()
        return (hidden_BTD.float() * real_BT1).sum(1) / real_BT1.sum(1)

    def terms(self, batch: Batch) -> list[Terms]:
        """The tokens, and the pairs of neighbours."""
        rows = batch.input_ids.cpu().numpy()
        lengths = [len(row) for row in rows]
        if batch.piece_ids is not None:
            lengths = (batch.piece_ids >= 0).sum(1).tolist()
        texts = [row[:length] for row, length in zip(rows, lengths, strict=True)]
        pairs = [(ids[:-1] + 1) * self.vocab_size + ids[1:] for ids in texts]
        return [once(np.concatenate(both).astype(np.int64)) for both in zip(texts, pairs, strict=True)]

    def scale(self, numbers_NK: Floats) -> Floats:
        """Deviations far below the states' own size are no scale: tuning moves the states by more."""
        least = LEAST_DEVIATION * np.sqrt(np.square(numbers_NK).mean()) + 1e-6
        scale: Floats = numbers_NK.std(0).clip(least) * (numbers_NK.shape[1] ** 0.5 / VECTOR)
        return scale

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Older heads have their terms under names of their own, and give the mean state no weight."""
        if (bias := state.pop(f"{prefix}bias", None)) is not None:
            state[f"{prefix}wide.weight"] = torch.zeros_like(self.wide.weight)
            state[f"{prefix}wide.bias"] = bias
        for old, new in (("terms", "known"), ("rarity", "rarity"), ("weight", "weight")):
            if prefix + old in state:
                state[f"{prefix}counted.{new}"] = state.pop(prefix + old)
        super()._load_from_state_dict(state, prefix, *rest)


class Bag(CountingFactory):
    name, texts = "bag", 1
    purpose = "for single texts"
    instead = "For pairs of texts use `head` compare"

    def build(self, shape: HeadShape) -> CountingHead:
        config = shape.config
        return BagHead(USUAL.build(shape), config.vocab_size, config.hidden_size, shape.num_outputs)


HEAD = Bag()
