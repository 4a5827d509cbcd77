"""Single-label classification of a text or a pair of texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from torch import Tensor
from typing_extensions import override

from electra.finetuning.labelled.examples import Example
from electra.finetuning.metrics.scores import METRICS, Score
from electra.finetuning.settings import TaskOptions
from electra.finetuning.tasks.parts.answers import label_key, spellings
from electra.finetuning.tasks.parts.losses import balanced_weights, cross_entropy
from electra.finetuning.tasks.parts.task import Outputs, Task, file_of, index_labels, softmax, tally_labels
from electra.finetuning.tasks.parts.text_label_set import MULTI_LABEL_METRICS, MultiLabelClassification
from electra.finetuning.tasks.parts.text_regression import TextRegression
from electra.finetuning.tasks.parts.text_task import (
    LabelledText,
    Prediction,
    TextTask,
    is_placeholder,
    natural_sort_key,
    single_answer,
)
from electra.finetuning.windows.features import NO_TARGET, Windows
from electra.foundation.errors import DataError, nearest


@dataclass(frozen=True, kw_only=True)
class TextClassification(LabelledText):
    """Assigns one of several labels to a text or a pair of texts; predicts probabilities [classes]."""

    outputs_are_logits: ClassVar[bool] = True

    accepts_indices: bool = True  # whether files may have class indices; False if `labels` come from the data
    submit_numbers: bool = False  # whether GLUE's server expects class indices, not names

    @override
    def configured(self, options: TaskOptions) -> TextTask:
        if options.multi_label and not self.labels:
            label_column = options.label_column
            columns = () if isinstance(label_column, str | None) else tuple(label_column)
            shared_options = replace(
                options, multi_label=False, label_column=None if columns else label_column
            )
            task = MultiLabelClassification.like(
                self.with_options(shared_options), metrics=MULTI_LABEL_METRICS
            )
            return replace(task, label=columns, each_label=True) if columns else task
        return self.with_options(options)

    @override
    def gold(self, value: Any, where: str) -> str | None:
        answer = single_answer(value, where)
        is_missing = is_placeholder(answer) and self.labels and answer not in self.labels
        return None if is_missing else answer

    @override
    def normalise_golds(self, golds: list[Any]) -> tuple[list[Any], tuple[str, ...]]:
        spelling_of, notes = spellings(golds)
        are_numbers = all(isinstance(label_key(gold), Decimal) for gold in golds)
        if self._accepts_numbers() and are_numbers:
            mapping = ", ".join(f"{index} as {name}" for index, name in enumerate(self.labels))
            notes += (f"answers are numbers, read as the task's labels: {mapping}",)
        return [spelling_of[gold] for gold in golds], notes

    def _accepts_numbers(self) -> bool:
        """Whether files may have class indices instead of names."""
        return self.accepts_indices and bool(self.labels) and not any(map(str.isdecimal, self.labels))

    @override
    def fit(self, examples: Sequence[Example]) -> TextClassification:
        names = sorted(set(spellings([str(e.gold) for e in examples])[0].values()), key=natural_sort_key)
        labels = self.labels or tuple(names)
        fitted = replace(self, labels=labels, accepts_indices=self.accepts_indices and bool(self.labels))
        classes = [fitted.gold_class(example) for example in examples]
        if len(set(classes)) < 2:
            problem = f"every example has the label {names[0]!r}: nothing to learn"
            raise DataError(problem, where=file_of(examples), fix="Check `label_column`")
        return replace(fitted, weights=balanced_weights(classes, len(labels)) if self.balanced else ())

    def rebuilt(self, labels: tuple[str, ...], config: Mapping[str, Any]) -> Task:
        """Returns the task of a saved model: regression, multi-label or this class.

        The `problem_type` in its config.json decides; a model with one output predicts a number.
        """
        problem_type = config.get("problem_type")
        if problem_type == "regression" or len(labels) == 1:
            return TextRegression.like(self, scale=(0.0, 1.0))
        if problem_type == "multi_label_classification":
            return MultiLabelClassification.like(self, labels=labels, metrics=MULTI_LABEL_METRICS)
        return replace(self, labels=labels)

    @override
    def config_values(self, scores: Mapping[str, Any]) -> dict[str, Any]:
        return {"problem_type": "single_label_classification"}

    def gold_class(self, example: Example) -> int:
        """Returns the index of the gold label. Raises DataError if the label is unknown."""
        gold = str(example.gold)
        if (index := self.label_index(gold)) is not None:
            return index
        number = label_key(gold)
        if self._accepts_numbers() and isinstance(number, Decimal) and number in range(len(self.labels)):
            return int(number)
        raise DataError(f"unknown label {gold!r}", where=example.where, fix=nearest(gold, list(self.labels)))

    @override
    def unseen_labels(self, example: Example) -> tuple[str, ...]:
        return (
            ()
            if self.accepts_indices or self.label_index(str(example.gold)) is not None
            else (str(example.gold),)
        )

    @override
    def shown_gold(self, example: Example) -> str:
        return str(example.gold) if self.unseen_labels(example) else self.labels[self.gold_class(example)]

    @override
    def label_counts(self, examples: Sequence[Example]) -> dict[str, int]:
        return tally_labels(self.labels, map(self.shown_gold, examples))

    @override
    def target(self, example: Example) -> npt.NDArray[np.int64]:
        return np.array(NO_TARGET if self.unseen_labels(example) else self.gold_class(example), np.int64)

    @override
    def can_score(self, example: Example) -> bool:
        return not self.unseen_labels(example) and super().can_score(example)

    @override
    def loss(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, float]:
        return cross_entropy(logits, targets, self.weights)

    def predict(self, outputs: Outputs, windows: Windows, examples: Sequence[Example]) -> list[Any]:
        """Returns a probability vector [classes] for each example."""
        return list(softmax(np.stack(outputs)))

    @override
    def score(self, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, Score]:
        gold_names = [self.shown_gold(example) for example in examples]
        index_of = index_labels(self.labels, gold_names)
        predicted, gold = np.stack(predictions).argmax(-1), np.array([index_of[name] for name in gold_names])
        return {name: METRICS[name](predicted, gold) for name in self.metrics}

    @override
    def answer(self, prediction: Prediction) -> str:
        return self.labels[int(prediction.argmax())]

    @override
    def submitted_answer(self, prediction: Prediction) -> str:
        return str(int(prediction.argmax())) if self.submit_numbers else self.answer(prediction)
