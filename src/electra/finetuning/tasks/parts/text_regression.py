"""Regression: predicts a number for a text or a pair of texts.

Numbers are scaled to [0, 1] and fitted by squared error, as in the published code. The last layer of the
saved model reverses the scaling, so that it predicts in the data's unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.nn import functional as F
from typing_extensions import override

from electra.finetuning.labelled.examples import Example
from electra.finetuning.metrics.scores import METRICS, Score
from electra.finetuning.tasks.parts.task import Cell, Outputs, file_of
from electra.finetuning.tasks.parts.text_task import Prediction, TextTask, is_placeholder, single_answer
from electra.finetuning.windows.features import Windows
from electra.foundation.errors import DataError


@dataclass(frozen=True, kw_only=True)
class TextRegression(TextTask):
    """Predicts a number for a text or a pair of texts, as an array [1] in the data's unit."""

    has_classes: ClassVar[bool] = False

    scale: tuple[float, float] | None = None  # the lowest and highest number; None: as in the training data

    @property
    @override
    def label_names(self) -> tuple[str, ...]:
        return ("score",)

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and highest number; (0, 1) before the task is fitted."""
        return self.scale or (0.0, 1.0)

    @override
    def gold(self, value: Any, where: str) -> str | None:
        answer = single_answer(value, where)
        is_missing = is_placeholder(answer) and self.scale is not None and self.scale[0] > -1
        return None if is_missing else answer

    @override
    def fit(self, examples: Sequence[Example]) -> TextRegression:
        numbers = [self.gold_number(example) for example in examples]
        low, high = self.scale or (min(numbers), max(numbers))
        if low == high:
            problem = f"every example has the number {low:g}: nothing to learn"
            raise DataError(problem, where=file_of(examples))
        return replace(self, scale=(low, high))

    def rebuilt(self, labels: tuple[str, ...], config: Mapping[str, Any]) -> TextRegression:
        """Returns the task without scaling, because a saved model predicts in the data's unit."""
        return replace(self, scale=(0.0, 1.0))

    @override
    def config_values(self, scores: Mapping[str, Any]) -> dict[str, Any]:
        return {"problem_type": "regression"}

    def gold_number(self, example: Example) -> float:
        """Returns the gold answer as a number. Raises DataError if it is not a finite number."""
        try:
            number = float(example.gold)
        except (TypeError, ValueError):
            number = np.nan
        if not np.isfinite(number):
            fix = "Write only a number, or check `label_column`"
            if "," in str(example.gold):
                fix = "Write 1234.5, with a decimal point and without thousands separators"
            raise DataError(f"{example.gold!r} is not a finite number", where=example.where, fix=fix)
        return number

    @override
    def shown_gold(self, example: Example) -> float | None:
        return self.gold_number(example)

    @override
    def target(self, example: Example) -> npt.NDArray[np.float32]:
        low, high = self.bounds
        return np.array((self.gold_number(example) - low) / (high - low), np.float32)

    @override
    def loss(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, float]:
        return F.mse_loss(logits.squeeze(-1).float(), targets, reduction="sum"), len(targets)

    @override
    def output_scale(self) -> tuple[float, float]:
        low, high = self.bounds
        return high - low, low

    def predict(self, outputs: Outputs, windows: Windows, examples: Sequence[Example]) -> list[Any]:
        """Returns a number in the data's unit for each example, as an array [1]."""
        factor, offset = self.output_scale()
        return list(np.stack(outputs).astype(np.float64) * factor + offset)

    @override
    def score(self, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, Score]:
        predicted, gold = np.stack(predictions)[:, 0], np.array([*map(self.gold_number, examples)])
        return {name: METRICS[name](predicted, gold) for name in self.metrics}

    @override
    def table(self, predictions: Sequence[Any], examples: Sequence[Example]) -> list[tuple[Cell, ...]]:
        answers = [(e.id, float(p[0])) for e, p in zip(examples, predictions, strict=True)]
        return [("id", "score"), *answers]

    @override
    def answer(self, prediction: Prediction) -> str:
        return format(float(prediction[0]), ".9g")

    @override
    def submitted_answer(self, prediction: Prediction) -> str:
        return format(float(np.clip(prediction[0], *self.bounds)), ".3f")
