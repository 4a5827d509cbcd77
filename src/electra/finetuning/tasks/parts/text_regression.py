"""Regression: one text or two -> a number.

Numbers are scaled to [0, 1] and fitted by squared error, as in the reference. The scaling is undone in the
last layer of the saved model, so that it answers in the data's unit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.nn import functional as F

from electra.finetuning.labelled.examples import Example
from electra.finetuning.metrics.scores import METRICS, Score
from electra.finetuning.tasks.parts.task import Cell, Outputs, file_of
from electra.finetuning.tasks.parts.text_task import Prediction, TextTask, is_placeholder, single
from electra.finetuning.windows.features import Windows
from electra.foundation.errors import DataError

_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+")
_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3},[0-9]{3}")  # or a decimal comma, who knows


@dataclass(frozen=True, kw_only=True)
class TextRegression(TextTask):
    has_classes: ClassVar[bool] = False

    scale: tuple[float, float] | None = None  # lowest and highest; None = found in training data

    @property
    def label_names(self) -> tuple[str, ...]:
        return ("score",)

    @property
    def bounds(self) -> tuple[float, float]:
        return self.scale or (0.0, 1.0)

    def gold(self, value: Any, where: str) -> str | None:
        answer = single(value, where)
        absent = is_placeholder(answer) and self.scale is not None and self.scale[0] > -1
        return None if absent else answer

    def settled(self, golds: list[Any]) -> tuple[list[Any], tuple[str, ...]]:
        """Numbers with decimal commas as Python has them, where no other reading is possible."""
        commas = [gold for gold in golds if "," in gold]
        decimal = all(_COMMA.fullmatch(gold) for gold in commas) and not any("." in gold for gold in golds)
        if not commas or not decimal or all(_THOUSANDS.fullmatch(gold) for gold in commas):
            return golds, ()
        return [gold.replace(",", ".") for gold in golds], ("its numbers have decimal commas",)

    def fit(self, examples: Sequence[Example]) -> TextRegression:
        numbers = [self.gold_number(example) for example in examples]
        low, high = self.scale or (min(numbers), max(numbers))
        if low == high:
            what = f"every example has the number {low:g}: nothing to learn"
            raise DataError(what, where=file_of(examples))
        return replace(self, scale=(low, high))

    def rebuilt(self, labels: tuple[str, ...], config: Mapping[str, Any]) -> TextRegression:
        """A saved model answers in the data's unit, so nothing is left to scale."""
        return replace(self, scale=(0.0, 1.0))

    def config_values(self, scores: Mapping[str, Any]) -> dict[str, Any]:
        return {"problem_type": "regression"}

    def gold_number(self, example: Example) -> float:
        try:
            number = float(example.gold)
        except (TypeError, ValueError):
            number = np.nan
        if not np.isfinite(number):
            fix = "Check `label_column`"
            if "," in str(example.gold):
                fix = "Write 1234.5, with a point and without marks of thousands"
            raise DataError(f"{example.gold!r} is not a number", where=example.where, fix=fix)
        return number

    def gold_told(self, example: Example) -> float | None:
        return self.gold_number(example)

    def target(self, example: Example) -> npt.NDArray[np.float32]:
        low, high = self.bounds
        return np.array((self.gold_number(example) - low) / (high - low), np.float32)

    def loss(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, float]:
        return F.mse_loss(logits.squeeze(-1).float(), targets, reduction="sum"), len(targets)

    def output_scale(self) -> tuple[float, float]:
        low, high = self.bounds
        return high - low, low

    def predict(self, outputs: Outputs, windows: Windows, examples: Sequence[Example]) -> list[Any]:
        """[number] in the data's unit."""
        factor, offset = self.output_scale()
        return list(np.stack(outputs).astype(np.float64) * factor + offset)

    def score(self, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, Score]:
        predicted, gold = np.stack(predictions)[:, 0], np.array([*map(self.gold_number, examples)])
        return {name: METRICS[name](predicted, gold) for name in self.metrics}

    def table(self, predictions: Sequence[Any], examples: Sequence[Example]) -> list[tuple[Cell, ...]]:
        answers = [(e.id, float(p[0])) for e, p in zip(examples, predictions, strict=True)]
        return [("id", "score"), *answers]

    def answer(self, prediction: Prediction) -> str:
        return format(float(prediction[0]), ".9g")

    def submitted(self, prediction: Prediction) -> str:
        return format(float(np.clip(prediction[0], *self.bounds)), ".3f")
