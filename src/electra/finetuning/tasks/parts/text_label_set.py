"""Multi-label classification of a text or a pair of texts; each label is predicted independently."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F
from typing_extensions import override

from electra.data.tables import Table, get_field
from electra.finetuning.labelled.examples import Example
from electra.finetuning.metrics.scores import METRICS, Score
from electra.finetuning.tasks.parts.answers import (
    as_vectors,
    clean_answer,
    is_missing,
    parse_labels,
    spellings,
)
from electra.finetuning.tasks.parts.task import Outputs, file_of, tally_labels
from electra.finetuning.tasks.parts.text_task import LabelledText, Prediction, natural_sort_key
from electra.finetuning.windows.features import Windows
from electra.foundation.errors import DataError

MULTI_LABEL_METRICS = ("f1_micro", "f1_macro", "accuracy")


@dataclass(frozen=True, kw_only=True)
class MultiLabelClassification(LabelledText):
    """Assigns any number of labels to a text or a pair of texts; predicts probabilities [labels]."""

    outputs_are_logits: ClassVar[bool] = True

    each_label: bool = False  # whether `label` names a column of 0 and 1 per label, not one column of lists

    def absent(self, answer: Any) -> bool:
        """Whether an answer is missing; an empty cell means "no label"."""
        return answer != "" and super().absent(answer)

    def gold(self, value: Any, where: str) -> tuple[str, ...] | None:
        """Returns the labels of a cell as written; `normalise_golds` distinguishes vectors from names."""
        return tuple(name for name in parse_labels(value, where) if name)

    @override
    def normalise_golds(self, golds: list[Any]) -> tuple[list[Any], tuple[str, ...]]:
        if vectors := as_vectors(golds):
            width = len(vectors[0])
            names = self.labels if len(self.labels) == width else tuple(map(str, range(width)))
            rows = [tuple(name for name, flag in zip(names, row, strict=True) if flag) for row in vectors]
            return list(rows), (f"answers are vectors of {width} numbers: labels are named by position",)
        spelling_of, notes = spellings([name for gold in golds for name in gold])
        return [tuple(sorted({spelling_of[name] for name in gold})) for gold in golds], notes

    @override
    def answer_getter(self, table: Table, labelled: bool) -> tuple[str, Callable[[Mapping[str, Any]], Any]]:
        if not self.each_label or not self.label:
            return super().answer_getter(table, labelled)
        columns = {name: table.find_column(name) for name in self.label}
        if missing_columns := [name for name, column in columns.items() if column is None]:
            if labelled:
                raise table.missing_column(missing_columns[:1], "`label_column`")
            return "", lambda row: None

        def flags(row: Mapping[str, Any]) -> Any:
            cells = {name: clean_answer(get_field(row, str(column))) for name, column in columns.items()}
            return None if all(map(is_missing, cells.values())) else cells

        return " and ".join(columns), flags

    @override
    def fit(self, examples: Sequence[Example]) -> MultiLabelClassification:
        names = sorted({name for example in examples for name in example.gold}, key=natural_sort_key)
        fitted = replace(self, labels=self.labels or tuple(names))
        if len(names) < 2:
            problem = "fewer than two labels: nothing to learn"
            raise DataError(problem, where=file_of(examples), fix="Check `label_column`")
        counts = np.stack([fitted.target(example) for example in examples]).sum(0)
        is_constant = (counts == 0) | (counts == len(examples))  # all examples agree: nothing to balance
        # The factor of each label's loss in the examples that have it.
        weights = np.where(is_constant, 1.0, (len(examples) - counts) / np.maximum(counts, 1))
        return replace(fitted, weights=tuple(map(float, weights)) if self.balanced else ())

    @override
    def config_values(self, scores: Mapping[str, Any]) -> dict[str, Any]:
        return {"problem_type": "multi_label_classification"}

    @override
    def rebuilt(self, labels: tuple[str, ...], config: Mapping[str, Any]) -> MultiLabelClassification:
        return replace(self, labels=labels)

    def can_score(self, example: Example) -> bool:
        """Whether the example has labels, and all of them are known."""
        return bool(example.gold) and not self.unseen_labels(example)

    @override
    def unseen_labels(self, example: Example) -> tuple[str, ...]:
        return tuple(name for name in example.gold if self.label_index(name) is None)

    @override
    def shown_gold(self, example: Example) -> str:
        known_indices = sorted(
            index for name in example.gold if (index := self.label_index(name)) is not None
        )
        return "|".join([*(self.labels[index] for index in known_indices), *self.unseen_labels(example)])

    @override
    def label_counts(self, examples: Sequence[Example]) -> dict[str, int]:
        return tally_labels(self.labels, self._names(examples))

    def _names(self, examples: Sequence[Example]) -> Iterator[str]:
        for name in (name for example in examples for name in example.gold):
            index = self.label_index(name)
            yield name if index is None else self.labels[index]

    def target(self, example: Example) -> npt.NDArray[np.float32]:
        """Returns 1 for each gold label and 0 for the others [labels]."""
        gold = {self.label_index(name) for name in example.gold}
        return np.array([index in gold for index in range(len(self.labels))], np.float32)

    @override
    def loss(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, float]:
        weights = logits.new_tensor(self.weights, dtype=torch.float32) if self.weights else None
        loss = F.binary_cross_entropy_with_logits(
            logits.float(), targets, pos_weight=weights, reduction="sum"
        )
        return loss, targets.numel()

    def predict(self, outputs: Outputs, windows: Windows, examples: Sequence[Example]) -> list[Any]:
        """Returns independent probabilities [labels] for each example."""
        return list(1 / (1 + np.exp(-np.stack(outputs).astype(np.float64))))

    @override
    def score(self, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, Score]:
        predicted, gold = np.stack(predictions) > 0.5, np.stack([*map(self.target, examples)]) > 0.5
        if unseen_names := sorted({name for example in examples for name in self.unseen_labels(example)}):
            gold_unseen = np.array([[name in example.gold for name in unseen_names] for example in examples])
            predicted = np.hstack([predicted, np.zeros_like(gold_unseen)])
            gold = np.hstack([gold, gold_unseen])
        return {name: METRICS[name](predicted, gold) for name in self.metrics}

    def answer(self, prediction: Prediction) -> str:
        """Returns the labels with probabilities above one half, joined by "|"; "" if there are none."""
        return "|".join(label for label, p in zip(self.labels, prediction, strict=True) if p > 0.5)
