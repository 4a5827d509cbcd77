"""A custom task: how many stars does a review give?

    electra finetune runs/mine --task examples/star_ratings.py --data reviews/ --out runs/stars
    electra predict runs/stars new.csv --task examples/star_ratings.py --out stars.tsv

reviews/ contains train and dev files (csv, tsv, jsonl or parquet) with a column `text` or `review` and a
column `stars` or `rating`. The labels have an order, which classification ignores; regression would also
assume equal steps between them. Here the loss spreads a part of each label over its neighbours. The primary
metric is Cohen's kappa with quadratic weights, so an error of two stars costs four times as much as an error
of one.

The file of a task defines `TASK`. `tests/examples/test_example_files.py` shows how to run electra's own tests
on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from electra.finetuning.labelled.examples import Example
from electra.finetuning.score.metrics import Score, accuracy, mae
from electra.finetuning.text_answers import TextClassification


@dataclass(frozen=True, kw_only=True)
class OrderedClasses(TextClassification):
    """Classes in the order of `labels` (soft ordinal labels: Diaz and Marathe 2019)."""

    sharpness: float = 2.0  # each step away from the label gets exp(-sharpness) times the weight

    def loss(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, float]:
        """Returns the sum and the count of the loss; the trainer divides once, over all micro-batches."""
        classes = torch.arange(logits.shape[-1], device=logits.device)
        soft = torch.softmax(-self.sharpness * (classes - targets[:, None]).abs().float(), dim=-1)
        return -(soft * torch.log_softmax(logits.float(), dim=-1)).sum(), float(len(targets))

    def score(self, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, Score]:
        """Scores the probabilities that `TextClassification.predict` returns."""
        predicted = np.stack(predictions).argmax(-1)
        gold = np.array([self.gold_class(example) for example in examples])
        return {
            "quadratic_kappa": quadratic_kappa(predicted, gold),
            "mae": mae(predicted, gold),
            "accuracy": accuracy(predicted, gold),
        }


def quadratic_kappa(predicted: Any, gold: Any) -> Score:
    """Returns 1 minus the ratio of the squared error to that of shuffled predictions (Cohen 1968)."""
    chance = float(((predicted[:, None] - gold[None, :]) ** 2).mean())
    if chance == 0:
        return Score(None, "data and predictions have one and the same label")
    return Score(1 - float(((predicted - gold) ** 2).mean()) / chance)


TASK = OrderedClasses(
    name="star_ratings",
    version=1,  # raise it whenever a change alters a number
    source="your own reviews",
    metrics=("quadratic_kappa", "mae", "accuracy"),  # the first compares seeds and epochs
    texts=(("text",), ("review",)),  # the columns that are looked for, in this order
    label=("stars", "rating"),
    labels=("1", "2", "3", "4", "5"),
    max_length=256,
)
