"""Text vectors (bi-encoders): each text is encoded on its own, and similarity is the cosine of two vectors.

`SimilarPairs` trains on scored pairs: CoSENT (Su 2022), a softmax over all pairs of a batch that are ranked
in the wrong order. `ContrastedTexts` needs no scores: InfoNCE (van den Oord et al. 2018), in which a text
must identify its partner among those of the whole batch. The partner is the other text of its pair, or the
same text with different dropout (SimCSE: Gao, Yao, Chen 2021).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from typing_extensions import override

from electra.data.rows import read_lines
from electra.data.table_files import TABLES, split_name
from electra.finetuning.labelled.examples import Example, Split
from electra.finetuning.metrics.scores import Score
from electra.finetuning.tasks.parts.task import HeadKind, Outputs
from electra.finetuning.tasks.parts.text_regression import TextRegression
from electra.finetuning.windows.features import Tokens, Windows
from electra.foundation.errors import DataError

TEXT_FILE = ".txt"


def normalised_pairs(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Splits alternating vectors [2N, D] into the first and the second of each pair [N, D], of length 1."""
    pairs_N2D = F.normalize(vectors.float(), dim=-1).reshape(-1, 2, vectors.shape[-1])
    return pairs_N2D[:, 0], pairs_N2D[:, 1]


@dataclass(frozen=True, kw_only=True)
class TextVectors(TextRegression):
    """A task with two windows per example, one for each text, whose prediction is their cosine."""

    head: ClassVar[HeadKind] = "vectors"
    loss_of_batch: ClassVar[bool] = True

    temperature: float = 0.05  # cosines are divided by it before the softmax

    def featurize(
        self, examples: Sequence[Example], tokens: Tokens, max_length: int, train: bool = False
    ) -> Windows:
        """Returns two windows for each example; a text without a partner is its own partner."""
        texts = [text for example in examples for text in (example.texts[0], example.texts[-1])]
        encoded = tokens.join([texts], max_length)
        truncated = [cut for _, _, cut in encoded]
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
        known = all(example.gold is not None for example in examples)
        return [self.target(example) for example in examples for _ in range(2)] if known else None

    @override
    def output_scale(self) -> tuple[float, float]:
        return 1.0, 0.0

    def predict(self, outputs: Outputs, windows: Windows, examples: Sequence[Example]) -> list[Any]:
        """Returns arrays [1], the cosine of each pair."""
        vectors = np.stack(outputs).astype(np.float64)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
        return list((vectors[::2] * vectors[1::2]).sum(-1, keepdims=True))

    def shown_gold(self, example: Example) -> None:
        """Returns None: cosines are compared with the order of all scores, not with single ones."""


@dataclass(frozen=True, kw_only=True)
class SimilarPairs(TextVectors):
    """Trains cosines to have the order of the pairs' scores."""

    def loss(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, float]:
        """Returns the CoSENT loss of vectors [2N, D] and scores [2N], both pair by pair."""
        first_ND, second_ND = normalised_pairs(logits)
        scaled_N, gold_N = (first_ND * second_ND).sum(-1) / self.temperature, targets[::2]
        # For two pairs, by how much the one with the lower gold score is ahead.
        ahead_NN = (scaled_N[None, :] - scaled_N[:, None]).masked_fill(
            gold_N[:, None] <= gold_N[None, :], float("-inf")
        )
        return torch.logsumexp(F.pad(ahead_NN.flatten(), (1, 0)), 0), 1


@dataclass(frozen=True, kw_only=True)
class ContrastedTexts(TextVectors):
    """Trains on single texts or pairs of related texts. Scores are only used in dev files."""

    formats: tuple[str, ...] = (*TABLES, TEXT_FILE)

    @override
    def read(self, path: Path, labelled: bool = True) -> Split:
        if split_name(path)[1] != TEXT_FILE:
            return super().read(path, labelled=False)
        lines = [(number, line.strip()) for number, line in read_lines(path)]
        examples = tuple(
            Example(str(number), f"{path}:{number}", (line,), row={"text": line})
            for number, line in lines
            if line
        )
        if not examples:
            raise DataError("no texts", where=path)
        return Split(examples)

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
        """Returns the InfoNCE loss of vectors [2N, D], texts and partners alternating."""
        first_ND, second_ND = normalised_pairs(logits)
        scores_NN = first_ND @ second_ND.T / self.temperature
        own_N = torch.arange(len(scores_NN), device=scores_NN.device)
        return F.cross_entropy(scores_NN, own_N, reduction="sum"), len(own_N)

    @override
    def score(self, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, Score]:
        if any(example.gold is None for example in examples):
            return {name: Score(None, "these texts have no scores") for name in self.metrics}
        return super().score(predictions, examples)
