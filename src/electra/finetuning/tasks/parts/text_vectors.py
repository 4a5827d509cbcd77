"""Vectors of texts, trained so that alike texts have alike vectors: each text is read by itself, and two are
as alike as the cosine of their vectors.

`SimilarPairs` learns from scored pairs: CoSENT (Su 2022), a softmax over all pairs of a batch that are in the
wrong order. `ContrastedTexts` needs no scores: InfoNCE (van den Oord et al. 2018), where a text finds its
partner among all partners of the batch. The partner is the other text of its pair, or the same text under
other dropout (SimCSE: Gao, Yao, Chen 2021).
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

from electra.data.rows import TABLES, read_lines, split_name
from electra.finetuning.labelled.examples import Example, Split
from electra.finetuning.metrics.scores import Score
from electra.finetuning.tasks.parts.task import HeadKind, Outputs
from electra.finetuning.tasks.parts.text_regression import TextRegression
from electra.finetuning.windows.features import Tokens, Windows
from electra.foundation.errors import DataError

LINES = ".txt"


def halves(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Of pairs in turn [2N, D] the first and the second ones [N, D], of length 1."""
    pairs_N2D = F.normalize(vectors.float(), dim=-1).reshape(-1, 2, vectors.shape[-1])
    return pairs_N2D[:, 0], pairs_N2D[:, 1]


@dataclass(frozen=True, kw_only=True)
class TextVectors(TextRegression):
    """Two windows an example, one for each text; its prediction is their cosine."""

    head: ClassVar[HeadKind] = "vectors"
    loss_of_batch: ClassVar[bool] = True

    temperature: float = 0.05  # cosines are divided by it before the softmax

    def featurize(
        self, examples: Sequence[Example], tokens: Tokens, max_length: int, train: bool = False
    ) -> Windows:
        """A text without a partner is its own."""
        texts = [text for example in examples for text in (example.texts[0], example.texts[-1])]
        joined = tokens.join([texts], max_length)
        cut = [one or other for one, other in zip(*[iter(cut for _, _, cut in joined)] * 2, strict=True)]
        return Windows(
            input_ids=[ids for ids, _, _ in joined],
            token_type_ids=[types for _, types, _ in joined],
            example=np.repeat(np.arange(len(examples)), 2),
            targets=self.targets(examples),
            group=2,
            truncated=sum(cut),
        )

    def targets(self, examples: Sequence[Example]) -> list[Any] | None:
        known = all(example.gold is not None for example in examples)
        return [self.target(example) for example in examples for _ in range(2)] if known else None

    def output_scale(self) -> tuple[float, float]:
        return 1.0, 0.0

    def predict(self, outputs: Outputs, windows: Windows, examples: Sequence[Example]) -> list[Any]:
        """[cosine]"""
        vectors = np.stack(outputs).astype(np.float64)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
        return list((vectors[::2] * vectors[1::2]).sum(-1, keepdims=True))

    def gold_told(self, example: Example) -> None:
        """What a cosine can be held against is the order of all scores, not one of them."""


@dataclass(frozen=True, kw_only=True)
class SimilarPairs(TextVectors):
    """Scored pairs: the higher the score, the higher the cosine shall be."""

    def loss(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, float]:
        """logits [2N, D], targets [2N]: pair by pair."""
        first_ND, second_ND = halves(logits)
        scaled_N, gold_N = (first_ND * second_ND).sum(-1) / self.temperature, targets[::2]
        # of two pairs, how far the one with the lower score is ahead
        ahead_NN = (scaled_N[None, :] - scaled_N[:, None]).masked_fill(
            gold_N[:, None] <= gold_N[None, :], float("-inf")
        )
        return torch.logsumexp(F.pad(ahead_NN.flatten(), (1, 0)), 0), 1


@dataclass(frozen=True, kw_only=True)
class ContrastedTexts(TextVectors):
    """Texts alone, or pairs that belong together. Scores are read in dev files only."""

    formats: tuple[str, ...] = (*TABLES, LINES)

    def read(self, path: Path, labelled: bool = True) -> Split:
        if split_name(path)[1] != LINES:
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

    def fit(self, examples: Sequence[Example]) -> ContrastedTexts:
        if len(examples) < 2:
            raise DataError("a single text: nothing to tell it from", where=examples[0].where)
        return self

    def rebuilt(self, labels: tuple[str, ...], config: Mapping[str, Any]) -> ContrastedTexts:
        return self

    def targets(self, examples: Sequence[Example]) -> list[Any] | None:
        return [np.float32(0)] * (2 * len(examples))

    def loss(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, float]:
        """logits [2N, D]: text and partner in turn."""
        first_ND, second_ND = halves(logits)
        scores_NN = first_ND @ second_ND.T / self.temperature
        own_N = torch.arange(len(scores_NN), device=scores_NN.device)
        return F.cross_entropy(scores_NN, own_N, reduction="sum"), len(own_N)

    def score(self, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, Score]:
        if any(example.gold is None for example in examples):
            return {name: Score(None, "these texts have no scores") for name in self.metrics}
        return super().score(predictions, examples)
