"""Text vectors (bi-encoders): each text is encoded separately; similarity is the cosine of two vectors.

`SimilarPairs` trains on scored pairs with CoSENT (Su 2022), whose loss compares every two pairs in a batch
that have different scores. `ContrastedTexts` needs no scores: InfoNCE (van den Oord et al. 2018) identifies
the partner of a text among all texts of the batch. The partner is the other text of a pair, or the same text
with different dropout (SimCSE: Gao, Yao, Chen 2021).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from typing_extensions import override

from electra.data.table_files import TABLES, Data, extension_of
from electra.data.tables import Table
from electra.finetuning.labelled.examples import Example, Split, read_texts
from electra.finetuning.metrics.scores import Score
from electra.finetuning.tasks.parts.task import HeadKind, Outputs
from electra.finetuning.tasks.parts.text_regression import TextRegression
from electra.finetuning.windows.features import Tokens, Windows
from electra.foundation.errors import DataError

TEXT_ENDING = ".txt"


def normalised_pairs(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Splits vectors [2N, D] of N pairs into unit vectors of their first and their second texts [N, D]."""
    pairs_N2D = F.normalize(vectors.float(), dim=-1).reshape(-1, 2, vectors.shape[-1])
    return pairs_N2D[:, 0], pairs_N2D[:, 1]


@dataclass(frozen=True, kw_only=True)
class TextVectors(TextRegression):
    """Predicts the cosine of two texts' vectors; each example has two windows, one for each text."""

    head: ClassVar[HeadKind] = "vectors"
    loss_of_batch: ClassVar[bool] = True

    temperature: float = 0.05  # the divisor of cosines in the loss

    def featurize(
        self, examples: Sequence[Example], tokens: Tokens, max_length: int, train: bool = False
    ) -> Windows:
        """Returns two windows for each example; a text without a partner is its own partner."""
        texts = [text for example in examples for text in (example.texts[0], example.texts[-1])]
        encoded = tokens.join([texts], max_length)
        truncated = [is_truncated for _, _, is_truncated in encoded]
        return Windows(
            input_ids=[ids for ids, _, _ in encoded],
            token_type_ids=[types for _, types, _ in encoded],
            example=np.repeat(np.arange(len(examples)), 2),
            targets=self.targets(examples),
            group=2,
            truncated=sum(map(max, truncated[::2], truncated[1::2])),
        )

    def targets(self, examples: Sequence[Example]) -> list[Any] | None:
        """Returns the target of each window; None if an example has no score."""
        has_scores = all(example.gold is not None for example in examples)
        return [self.target(example) for example in examples for _ in range(2)] if has_scores else None

    @override
    def output_scale(self) -> tuple[float, float]:
        return 1.0, 0.0

    def predict(self, outputs: Outputs, windows: Windows, examples: Sequence[Example]) -> list[Any]:
        """Returns the cosine of each pair, as an array [1]."""
        vectors = np.stack(outputs).astype(np.float64)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
        return list((vectors[::2] * vectors[1::2]).sum(-1, keepdims=True))

    def shown_gold(self, example: Example) -> None:
        """Returns None, because scores and cosines have different units."""


@dataclass(frozen=True, kw_only=True)
class SimilarPairs(TextVectors):
    """Trains vectors whose cosines rank pairs in the order of their scores."""

    def loss(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, float]:
        """Returns the CoSENT loss of a batch, and 1, because it is not a sum over pairs.

        Args:
            logits: vectors [2N, D], those of a pair one after the other.
            targets: the pair's score for each vector [2N].
        """
        first_ND, second_ND = normalised_pairs(logits)
        scaled_N, gold_N = (first_ND * second_ND).sum(-1) / self.temperature, targets[::2]
        # [i, j]: by how much pair j's scaled cosine exceeds that of pair i, whose gold score is higher; -inf
        # for other pairs.
        excess_NN = (scaled_N[None, :] - scaled_N[:, None]).masked_fill(
            gold_N[:, None] <= gold_N[None, :], float("-inf")
        )
        return torch.logsumexp(F.pad(excess_NN.flatten(), (1, 0)), 0), 1


@dataclass(frozen=True, kw_only=True)
class ContrastedTexts(TextVectors):
    """Trains vectors on texts or pairs of related texts; scores are used only for evaluation."""

    formats: tuple[str, ...] = (*TABLES, TEXT_ENDING)

    @override
    def read(self, path: Data, labelled: bool = True) -> Split:
        if extension_of(path) != TEXT_ENDING:
            return super().read(path, labelled=False)
        return Split(read_texts(path))

    @override
    def answer_getter(self, table: Table, labelled: bool) -> tuple[str, Callable[[Mapping[str, Any]], Any]]:
        """As in the base class; a table of single texts has no scores, whatever its other columns are."""
        names = next((names for names in self.texts if None not in map(table.find_column, names)), ())
        return ("", lambda row: None) if len(names) == 1 else super().answer_getter(table, labelled)

    @override
    def fit(self, examples: Sequence[Example]) -> ContrastedTexts:
        if len(examples) < 2:
            raise DataError("at least two texts are needed", where=examples[0].where)
        return self

    @override
    def rebuilt(self, labels: tuple[str, ...], config: Mapping[str, Any]) -> ContrastedTexts:
        return self

    @override
    def targets(self, examples: Sequence[Example]) -> list[Any] | None:
        return [np.float32(0)] * (2 * len(examples))

    def loss(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, float]:
        """Returns the sum of the InfoNCE losses of N pairs, and N.

        `logits` are vectors [2N, D], in which texts and their partners alternate; `targets` are not used.
        """
        first_ND, second_ND = normalised_pairs(logits)
        scores_NN = first_ND @ second_ND.T / self.temperature
        partner_N = torch.arange(len(scores_NN), device=scores_NN.device)
        return F.cross_entropy(scores_NN, partner_N, reduction="sum"), len(partner_N)

    @override
    def score(self, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, Score]:
        if any(example.gold is None for example in examples):
            return {name: Score(None, "these texts have no scores") for name in self.metrics}
        return super().score(predictions, examples)
