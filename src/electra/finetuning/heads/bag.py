"""The head `bag`, for single texts: a hybrid of the standard head and a linear model of n-grams.

With a few thousand labelled texts, a network of a few million parameters rarely beats a bag of words, because
it must learn from the same labels which words matter. Here a linear model learns that (parts/hybrid.py), and
the network learns the rest: word order, negation, words absent from the training texts.

The terms are the tokens and the bigrams of tokens. The linear model also reads the mean of the encoder's
states, so that words absent from the training texts are treated like similar words. Shapes: B texts, N
training texts, T tokens, D hidden size, K features.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import override

from electra.finetuning.heads.parts.contract import HeadShape
from electra.finetuning.heads.parts.hybrid import HybridFactory, HybridHead
from electra.finetuning.heads.parts.term_model import Terms, sorted_unique
from electra.finetuning.heads.transformers import HEAD as STANDARD
from electra.finetuning.windows.features import Batch
from electra.foundation.arrays import Floats

MIN_DEVIATION = 0.3  # the lowest deviation of a feature, as a fraction of the states' root mean square
VECTOR_LENGTH = 0.3  # a text's mean state has this RMS length in the fit; its terms have length 1


class BagHead(HybridHead):
    """The standard head plus a linear model of unigrams, bigrams and the mean state [D]."""

    strengths: ClassVar[tuple[float, ...]] = (0.3, 1.0, 3.0, 10.0, 30.0)

    def __init__(self, standard: nn.Module, vocab_size: int, hidden_size: int, num_outputs: int) -> None:
        super().__init__(standard, hidden_size, num_outputs)
        self.vocab_size = vocab_size

    def compute_features(self, hidden_BTD: Tensor, batch: Batch, table_VE: Tensor) -> Tensor:
        """Returns the mean state of each text [B, D]."""
        if batch.document_ids is None:
            return hidden_BTD.float().mean(1)
        real_BT1 = (batch.document_ids >= 0).unsqueeze(-1).float()
        return (hidden_BTD.float() * real_BT1).sum(1) / real_BT1.sum(1)

    def extract_terms(self, batch: Batch) -> list[Terms]:
        """Returns the tokens and bigrams of each text."""
        rows = batch.input_ids.cpu().numpy()
        lengths = [len(row) for row in rows]
        if batch.document_ids is not None:
            lengths = (batch.document_ids >= 0).sum(1).tolist()
        texts = [row[:length] for row, length in zip(rows, lengths, strict=True)]
        bigrams = [(ids[:-1] + 1) * self.vocab_size + ids[1:] for ids in texts]
        return [
            sorted_unique(np.concatenate(ids_and_bigrams).astype(np.int64))
            for ids_and_bigrams in zip(texts, bigrams, strict=True)
        ]

    def feature_scale(self, features_NK: Floats) -> Floats:
        """Returns the divisor of each feature [K]: its standard deviation, bounded below and scaled.

        The scale gives a text's mean state the length `VECTOR_LENGTH`. The bound is needed because
        fine-tuning moves the states by more than very small deviations.
        """
        min_deviation = MIN_DEVIATION * np.sqrt(np.square(features_NK).mean()) + 1e-6
        scale: Floats = features_NK.std(0).clip(min_deviation) * (features_NK.shape[1] ** 0.5 / VECTOR_LENGTH)
        return scale

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Also loads heads of older versions, which name terms differently and have no weights for states."""
        if (bias := state.pop(f"{prefix}bias", None)) is not None:
            state[f"{prefix}wide.weight"] = torch.zeros_like(self.wide.weight)
            state[f"{prefix}wide.bias"] = bias
        for old, new in (("terms", "known"), ("rarity", "rarity"), ("weight", "weight")):
            if prefix + old in state:
                state[f"{prefix}counted.{new}"] = state.pop(prefix + old)
        super()._load_from_state_dict(state, prefix, *rest)


class Bag(HybridFactory):
    """Builds `BagHead`."""

    name, texts = "bag", 1
    purpose = "for single texts"
    instead = "For pairs of texts use `head` compare"

    @override
    def build(self, shape: HeadShape) -> HybridHead:
        config = shape.config
        return BagHead(STANDARD.build(shape), config.vocab_size, config.hidden_size, shape.num_outputs)


HEAD = Bag()
