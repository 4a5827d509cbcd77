"""Classification: one text or two -> one of several labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from electra.finetuning.labelled.examples import Example
from electra.finetuning.metrics.scores import METRICS, Score
from electra.finetuning.settings import TaskOptions
from electra.finetuning.tasks.parts.answers import OFTEN_MISSING, label_key, spellings
from electra.finetuning.tasks.parts.losses import balanced_weights, cross_entropy
from electra.finetuning.tasks.parts.task import Outputs, Task, counted_labels, file_of, label_numbers, softmax
from electra.finetuning.tasks.parts.text_label_set import MULTI_LABEL_METRICS, MultiLabelClassification
from electra.finetuning.tasks.parts.text_regression import TextRegression
from electra.finetuning.tasks.parts.text_task import (
    LabelledText,
    Prediction,
    TextTask,
    is_placeholder,
    natural,
    single,
)
from electra.finetuning.windows.features import NO_TARGET, Windows
from electra.foundation.errors import DataError, nearest


@dataclass(frozen=True, kw_only=True)
class TextClassification(LabelledText):
    # A file may also give a class's number; not where the labels were found, in an order of our own.
    numbered: bool = True
    submit_numbers: bool = False  # GLUE's server wants the class's number, not its name

    def configured(self, options: TaskOptions) -> TextTask:
        if options.multi_label and not self.labels:
            named = options.label_column
            columns = () if isinstance(named, str | None) else tuple(named)
            single = replace(options, multi_label=False, label_column=None if columns else named)
            task = MultiLabelClassification.like(self.with_options(single), metrics=MULTI_LABEL_METRICS)
            return replace(task, label=columns, each_label=True) if columns else task
        return self.with_options(options)

    def gold(self, value: Any, where: str) -> str | None:
        answer = single(value, where)
        absent = is_placeholder(answer) and self.labels and answer not in self.labels
        return None if absent else answer

    def settled(self, golds: list[Any]) -> tuple[list[Any], tuple[str, ...]]:
        kept, notes = spellings(golds)
        named = Counter(gold for gold in golds if gold in OFTEN_MISSING and not self.labels)
        if named:
            shown = ", ".join(f"{name!r} ({count})" for name, count in named.items())
            notes += (f"read as labels, not as marks of missing answers: {shown}",)
        if self._by_number() and all(isinstance(label_key(gold), Decimal) for gold in golds):
            read = ", ".join(f"{number} as {name}" for number, name in enumerate(self.labels))
            notes += (f"its answers are numbers, read as the task's labels: {read}",)
        return [kept[gold] for gold in golds], notes

    def _by_number(self) -> bool:
        """Whether a file may give a class's number."""
        return self.numbered and bool(self.labels) and not any(map(str.isdecimal, self.labels))

    def fit(self, examples: Sequence[Example]) -> TextClassification:
        found = sorted(set(spellings([str(e.gold) for e in examples])[0].values()), key=natural)
        labels = self.labels or tuple(found)
        fitted = replace(self, labels=labels, numbered=self.numbered and bool(self.labels))
        classes = [fitted.gold_class(example) for example in examples]
        if len(set(classes)) < 2:
            what = f"every example has the label {found[0]!r}: nothing to learn"
            raise DataError(what, where=file_of(examples), fix="Check `label_column`")
        return replace(fitted, weights=balanced_weights(classes, len(labels)) if self.balanced else ())

    def rebuilt(self, labels: tuple[str, ...], config: Mapping[str, Any]) -> Task:
        """Of whichever kind the saved model is: `electra predict` begins with this one."""
        problem = config.get("problem_type")
        if problem == "regression" or len(labels) == 1:
            return TextRegression.like(self, scale=(0.0, 1.0))
        if problem == "multi_label_classification":
            return MultiLabelClassification.like(self, labels=labels, metrics=MULTI_LABEL_METRICS)
        return replace(self, labels=labels)

    def config_values(self, scores: Mapping[str, Any]) -> dict[str, Any]:
        return {"problem_type": "single_label_classification"}

    def gold_class(self, example: Example) -> int:
        gold = str(example.gold)
        if (place := self.place(gold)) is not None:
            return place
        number = label_key(gold)
        if self._by_number() and isinstance(number, Decimal) and number in range(len(self.labels)):
            return int(number)
        raise DataError(f"unknown label {gold!r}", where=example.where, fix=nearest(gold, list(self.labels)))

    def unlearned(self, example: Example) -> tuple[str, ...]:
        return () if self.numbered or self.place(str(example.gold)) is not None else (str(example.gold),)

    def gold_told(self, example: Example) -> str:
        return str(example.gold) if self.unlearned(example) else self.labels[self.gold_class(example)]

    def label_counts(self, examples: Sequence[Example]) -> dict[str, int]:
        return counted_labels(self.labels, map(self.gold_told, examples))

    def target(self, example: Example) -> npt.NDArray[np.int64]:
        return np.array(NO_TARGET if self.unlearned(example) else self.gold_class(example), np.int64)

    def knows(self, example: Example) -> bool:
        return not self.unlearned(example) and super().knows(example)

    def loss(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, float]:
        return cross_entropy(logits, targets, self.weights)

    def predict(self, outputs: Outputs, windows: Windows, examples: Sequence[Example]) -> list[Any]:
        """Probabilities [classes]."""
        return list(softmax(np.stack(outputs)))

    def score(self, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, Score]:
        told = [self.gold_told(example) for example in examples]
        number = label_numbers(self.labels, told)
        predicted, gold = np.stack(predictions).argmax(-1), np.array([number[label] for label in told])
        return {name: METRICS[name](predicted, gold) for name in self.metrics}

    def answer(self, prediction: Prediction) -> str:
        return self.labels[int(prediction.argmax())]

    def submitted(self, prediction: Prediction) -> str:
        return str(int(prediction.argmax())) if self.submit_numbers else self.answer(prediction)
