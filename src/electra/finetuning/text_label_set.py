"""Multi-label classification: one text or two -> any number of labels, each decided by itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from electra.errors import DataError
from electra.finetuning.features import Windows
from electra.finetuning.metrics import METRICS, Score
from electra.finetuning.task import Outputs, counted_labels, file_of
from electra.finetuning.text_task import MISSING, LabelledText, Prediction, natural
from electra.labelled.examples import Example

MULTI_LABEL_METRICS = ("f1_micro", "f1_macro", "accuracy")
_BETWEEN = re.compile(r"[,;|]")  # labels in one cell


@dataclass(frozen=True, kw_only=True)
class MultiLabelClassification(LabelledText):
    def gold(self, value: Any, where: str) -> tuple[str, ...] | None:
        if isinstance(value, str) and value.strip().lower() in MISSING:
            value = None
        several = _listed(value) if isinstance(value, str) else value
        if several is not None and not isinstance(several, list):
            raise DataError(f"{value!r} is not a list of labels", where=where)
        return None if several is None else tuple(sorted({str(name).strip() for name in several} - {""}))

    def fit(self, examples: Sequence[Example]) -> MultiLabelClassification:
        found = sorted({name for example in examples for name in example.gold}, key=natural)
        fitted = replace(self, labels=self.labels or tuple(found))
        if len(found) < 2:
            what = "fewer than two labels: nothing to learn"
            raise DataError(what, where=file_of(examples), fix="Check `label_column`")
        counts = np.stack([fitted.target(example) for example in examples]).sum(0)
        one_sided = (counts == 0) | (counts == len(examples))  # nothing to balance
        # Each is the weight of a label's positive side.
        weights = np.where(one_sided, 1.0, (len(examples) - counts) / np.maximum(counts, 1))
        return replace(fitted, weights=tuple(map(float, weights)) if self.balanced else ())

    def config_values(self, scores: Mapping[str, Any]) -> dict[str, Any]:
        return {"problem_type": "multi_label_classification"}

    def rebuilt(self, labels: tuple[str, ...], config: Mapping[str, Any]) -> MultiLabelClassification:
        return replace(self, labels=labels)

    def knows(self, example: Example) -> bool:
        """ "None is right" is an answer of single rows, not of a whole file."""
        return bool(example.gold) and not self.unlearned(example)

    def unlearned(self, example: Example) -> tuple[str, ...]:
        return tuple(name for name in example.gold if name not in self.labels)

    def gold_told(self, example: Example) -> str:
        return "|".join(sorted(example.gold, key=lambda name: (*self.labels, name).index(name)))

    def label_counts(self, examples: Sequence[Example]) -> dict[str, int]:
        return counted_labels(self.labels, (name for example in examples for name in example.gold))

    def target(self, example: Example) -> npt.NDArray[np.float32]:
        """1 for each label that is right."""
        return np.array([label in example.gold for label in self.labels], np.float32)

    def loss(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, float]:
        weights = logits.new_tensor(self.weights, dtype=torch.float32) if self.weights else None
        loss = F.binary_cross_entropy_with_logits(
            logits.float(), targets, pos_weight=weights, reduction="sum"
        )
        return loss, targets.numel()

    def predict(self, outputs: Outputs, windows: Windows, examples: Sequence[Example]) -> list[Any]:
        """Probabilities [labels], each its own."""
        return list(1 / (1 + np.exp(-np.stack(outputs).astype(np.float64))))

    def score(self, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, Score]:
        predicted, gold = np.stack(predictions) > 0.5, np.stack([*map(self.target, examples)]) > 0.5
        if missed := sorted({name for example in examples for name in self.unlearned(example)}):
            extra = np.array([[name in example.gold for name in missed] for example in examples])
            predicted, gold = np.hstack([predicted, np.zeros_like(extra)]), np.hstack([gold, extra])
        return {name: METRICS[name](predicted, gold) for name in self.metrics}

    def answer(self, prediction: Prediction) -> str:
        """The labels with "|" between."""
        return "|".join(label for label, p in zip(self.labels, prediction, strict=True) if p > 0.5)


def _listed(cell: str) -> list[Any]:
    """Labels with commas between, or a list as Python and JSON write it."""
    if cell.strip().startswith("["):
        try:
            listed = ast.literal_eval(cell.strip())
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            listed = None
        if isinstance(listed, list):
            return listed
    return list(_BETWEEN.split(cell))
