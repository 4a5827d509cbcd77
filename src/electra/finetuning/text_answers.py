"""Tasks with one answer for a text or a pair of texts: one label, several labels, or a number.

Numbers are scaled to [0, 1] and fitted by squared error, as in the published code. The last layer of the
saved model reverses the scaling, so that it predicts in the data's unit; if the numbers are too large for
their range (dates in seconds), config.json has the range instead.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import expit, softmax
from torch import Tensor
from torch.nn import functional as F
from typing_extensions import override

from electra.data.tables.lines import Place
from electra.data.tables.table import Table, get_field
from electra.data.tables.table_files import Data
from electra.exchange.configs import ACTIVATION, CROSS_ENCODER
from electra.finetuning.answers import (
    SIGNS,
    as_integer,
    as_number,
    as_vectors,
    clean_answer,
    is_missing,
    joined,
    joining_sign,
    parse_labels,
    separator_of,
    spellings,
    unanswered,
    unwrapped,
)
from electra.finetuning.labelled.examples import Example
from electra.finetuning.score.metrics import METRICS, Score
from electra.finetuning.settings import TaskOptions
from electra.finetuning.task import (
    Cell,
    Outputs,
    Task,
    balanced_weights,
    cross_entropy,
    index_labels,
    nothing_to_learn,
    probability,
)
from electra.finetuning.text import Answers, Prediction, TextTask, natural_sort_key, one_answer, parse_cells
from electra.finetuning.windows.features import NO_TARGET, Windows
from electra.foundation.errors import DataError, ModelError, nearest

OUTPUT_RANGE = "output_range"  # in config.json: the numbers that the outputs 0 and 1 mean
MAX_OFFSET = 100  # times the range of the numbers: float32 then resolves 1e-5 of the range
FUNCTIONS: dict[str, Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]] = {
    "Identity": lambda logits: logits,
    "Sigmoid": expit,
}
OUTLIER, MIN_NUMBERS = 20, 8  # times the range of most numbers, of at least so many, is far from them
MULTI_LABEL_METRICS = ("f1_micro", "f1_macro", "accuracy")


@dataclass(frozen=True, kw_only=True)
class TextClassification(TextTask):
    """Assigns one of several labels to a text or a pair of texts; predicts probabilities [classes]."""

    outputs_are_logits: ClassVar[bool] = True
    problem_type: ClassVar[str] = "single_label_classification"

    accepts_indices: bool = True  # whether files may have class indices; False if `labels` come from the data

    @override
    def with_options(self, options: TaskOptions) -> Task:
        if not options.multi_label or self.labels:
            return super().with_options(options)
        columns = () if isinstance(options.label_column, str | None) else tuple(options.label_column)
        shared = replace(options, multi_label=False, label_column=None if columns else options.label_column)
        task = MultiLabelClassification.like(super().with_options(shared), metrics=MULTI_LABEL_METRICS)
        return replace(task, label=columns, each_label=True) if columns else task

    @override
    def parse(self, cells: Sequence[Any], places: Sequence[Place], source: Data) -> Answers:
        cells, notes = unwrapped(cells)
        absent, absent_notes = unanswered(cells, self.labels or self.seen, skip=self.skip_unlabelled)
        notes += absent_notes
        golds = parse_cells(cells, places, absent, one_answer)
        given = [gold for gold in golds if gold is not None]
        spelling_of, spelling_notes = spellings([*given, *self.seen])
        notes += spelling_notes
        sign, _ = ("", "") if self.labels or self.seen else joining_sign(given, (), ("|", ";", ",", *SIGNS))
        if sign:
            example = min(each for each in given if sign in each.strip(sign))
            notes += (f"labels such as {example!r} may be several: pass --multi-label to split at {sign!r}",)
        if given and self._accepts_numbers and None not in map(as_integer, given):
            mapping = ", ".join(f"{index} as {name}" for index, name in enumerate(self.labels))
            notes += (f"answers are numbers, read as the task's labels: {mapping}",)
        seen = tuple({spelling_of[gold] for gold in given})
        return Answers([spelling_of.get(gold) for gold in golds], notes, {"seen": seen})

    @override
    def fit(self, examples: Sequence[Example]) -> Self:
        names = sorted({str(example.gold) for example in examples}, key=natural_sort_key)
        labels = self.labels or tuple(names)
        fitted = replace(self, labels=labels, accepts_indices=self.accepts_indices and bool(self.labels))
        classes = [fitted.gold_class(example) for example in examples]
        if len(set(classes)) < 2:
            raise nothing_to_learn(f"every example has the label {names[0]!r}", examples)
        return replace(fitted, weights=balanced_weights(classes, len(labels)) if self.balanced else ())

    def rebuilt(self, labels: tuple[str, ...], config: Mapping[str, Any]) -> Task:
        """Returns the task of a saved model: regression, multi-label or this class.

        The `problem_type` in its config.json decides; a model with one label predicts a number.
        """
        problem_type = config.get("problem_type")
        if problem_type == "regression" or len(labels) == 1:
            return TextRegression.like(self).rebuilt(labels, config)
        if problem_type == MultiLabelClassification.problem_type:
            return MultiLabelClassification.like(self, labels=labels, metrics=MULTI_LABEL_METRICS)
        return super().rebuilt(labels, config)

    def _class(self, gold: str) -> int | None:
        index, number = self.label_index(gold), as_integer(gold) if self._accepts_numbers else None
        return number if index is None and number in range(len(self.labels)) else index

    @property
    def _accepts_numbers(self) -> bool:
        return self.accepts_indices and bool(self.labels) and not any(map(str.isdecimal, self.labels))

    def gold_class(self, example: Example) -> int:
        """Returns the index of the gold label. Raises DataError if the label is unknown."""
        if (index := self._class(str(example.gold))) is None:
            fix = nearest(str(example.gold), list(self.labels))
            raise DataError(f"unknown label {str(example.gold)!r}", where=example.where, fix=fix)
        return index

    @override
    def gold_names(self, example: Example) -> tuple[str, ...]:
        index = self._class(str(example.gold))
        return (str(example.gold) if index is None else self.labels[index],)

    @override
    def unseen_labels(self, example: Example) -> tuple[str, ...]:
        return () if self.accepts_indices else super().unseen_labels(example)

    @override
    def target(self, example: Example) -> npt.NDArray[np.int64]:
        return np.array(NO_TARGET if self.unseen_labels(example) else self.gold_class(example), np.int64)

    @override
    def loss(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, float]:
        return cross_entropy(logits, targets, self.weights)

    def predict(self, outputs: Outputs, windows: Windows, examples: Sequence[Example]) -> list[Any]:
        """Returns a probability vector [classes] for each example."""
        return list(softmax(np.stack(outputs).astype(np.float64), axis=-1))

    @override
    def score(self, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, Score]:
        gold_names = [self.shown_gold(example) for example in examples]
        index_of = index_labels(self.labels, gold_names)
        predicted, gold = np.stack(predictions).argmax(-1), np.array([index_of[name] for name in gold_names])
        return {name: METRICS[name](predicted, gold) for name in self.metrics}


@dataclass(frozen=True, kw_only=True)
class MultiLabelClassification(TextTask):
    """Assigns any number of labels to a text or a pair of texts; predicts probabilities [labels]."""

    outputs_are_logits: ClassVar[bool] = True
    problem_type: ClassVar[str] = "multi_label_classification"

    threshold: float = 0.5  # a label applies above this probability; scores are always at one half
    each_label: bool = False  # whether `label` names a column of 0 and 1 per label, not one column of lists

    @override
    def parse(self, cells: Sequence[Any], places: Sequence[Place], source: Data) -> Answers:
        separator, notes = (self.separator, ()) if self.separator else separator_of(cells, self.labels)
        absent, absent_notes = unanswered(cells, self.labels, skip=self.skip_unlabelled)
        notes += absent_notes
        golds = parse_cells(
            cells,
            places,
            absent - {""},  # an empty cell means "no label"
            lambda cell, where: tuple(filter(None, parse_labels(cell, where, separator))),
        )
        given = [gold for gold in golds if gold is not None]
        if vectors := as_vectors(given, source):
            width = len(vectors[0])
            labels = self.labels if len(self.labels) == width else tuple(map(str, range(width)))
            named = iter([tuple(compress(labels, vector)) for vector in vectors])
            notes += (f"answers are vectors of {width} numbers: labels are named by position",)
        else:
            spelling_of, spelling_notes = spellings([name for gold in given for name in gold])
            named = iter([tuple(sorted({spelling_of[name] for name in gold})) for gold in given])
            notes += spelling_notes
        golds = [None if gold is None else next(named) for gold in golds]
        return Answers(golds, notes, {"separator": separator})

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
    def fit(self, examples: Sequence[Example]) -> Self:
        names = sorted({name for example in examples for name in example.gold}, key=natural_sort_key)
        fitted = replace(self, labels=self.labels or tuple(names))
        if len(names) < 2:
            raise nothing_to_learn("fewer than two labels", examples)
        counts = np.stack([fitted.target(example) for example in examples]).sum(0)
        is_constant = (counts == 0) | (counts == len(examples))  # all examples agree: nothing to balance
        # The factor of each label's loss in the examples that have it.
        weights = np.where(is_constant, 1.0, (len(examples) - counts) / np.maximum(counts, 1))
        return replace(fitted, weights=tuple(map(float, weights)) if self.balanced else ())

    def can_score(self, example: Example) -> bool:
        """Whether the example has labels, and all of them are known."""
        return bool(example.gold) and not self.unseen_labels(example)

    @override
    def gold_names(self, example: Example) -> tuple[str, ...]:
        indices = {name: self.label_index(name) for name in example.gold}
        known = sorted(index for index in indices.values() if index is not None)
        unseen = (name for name, index in indices.items() if index is None)
        return (*(self.labels[index] for index in known), *unseen)

    @override
    def shown_gold(self, example: Example) -> str:
        return joined(self.gold_names(example))

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
        return list(expit(np.stack(outputs).astype(np.float64)))

    @override
    def score(self, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, Score]:
        names = list(self.label_counts(examples))  # the labels, then those that no training example has
        golds = [{*self.gold_names(example)} for example in examples]
        gold = np.array([[name in given for name in names] for given in golds])
        predicted = np.zeros_like(gold)
        predicted[:, : len(self.labels)] = np.stack(predictions) > 0.5
        return {name: METRICS[name](predicted, gold) for name in self.metrics}

    def answer(self, prediction: Prediction) -> str:
        """Returns the labels with probabilities above the threshold, `joined`; "" if there are none."""
        labels = zip(self.labels, prediction, strict=True)
        return joined([label for label, p in labels if p > self.threshold])

    @override
    def table(self, predictions: Sequence[Any], examples: Sequence[Example]) -> list[tuple[Cell, ...]]:
        """Returns the columns id, label, the probability of just these labels, and that of each label.

        The labels are taken as independent.
        """
        cells: list[Cell] = ["probability"]
        cells += [float(np.where(p > self.threshold, p, 1 - p).prod()) for p in predictions]
        rows = zip(super().table(predictions, examples), cells, strict=True)
        return [(*row[:2], cell, *row[2:]) for row, cell in rows]

    @property
    @override
    def rule(self) -> str:
        return f"a label applies if its probability is above {self.threshold:g}"

    @override
    def at_threshold(self, threshold: float) -> Self:
        return replace(self, threshold=probability(threshold))


@dataclass(frozen=True, kw_only=True)
class TextRegression(TextTask):
    """Predicts a number for a text or a pair of texts, as an array [1] in the data's unit.

    Published models may predict several numbers, and those without a problem_type squash a single one.
    """

    has_classes: ClassVar[bool] = False

    numbers: tuple[str, ...] = ("score",)  # the names of the outputs
    function: str = "Identity"  # of FUNCTIONS: what outputs go through
    scale: tuple[float, float] | None = None  # the lowest and highest number; None: as in the training data

    @property
    @override
    def label_names(self) -> tuple[str, ...]:
        return self.numbers

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and highest number; (0, 1) before the task is fitted."""
        return self.scale or (0.0, 1.0)

    @override
    def parse(self, cells: Sequence[Any], places: Sequence[Place], source: Data) -> Answers:
        skip = self.skip_unlabelled or self.scale is not None
        cells, wrapped_notes = unwrapped(cells, has_flags=False)
        absent, notes = unanswered(cells, (), skip=skip, are_numbers=True)
        return Answers(parse_cells(cells, places, absent, one_answer), (*wrapped_notes, *notes), {})

    @override
    def notes_on_answers(self, examples: Sequence[Example]) -> list[str]:
        """Returns notes on equal texts with different answers, and on numbers far from all others."""
        notes = super().notes_on_answers(examples)
        answered = [example for example in examples if example.gold is not None]
        numbers = [(as_number(str(example.gold)), example.where) for example in answered]
        usual = sorted(number for number, _ in numbers if math.isfinite(number))
        if len(usual) < MIN_NUMBERS:
            return notes
        cut = max(1, len(usual) // 20)
        low, high, middle = usual[cut], usual[-1 - cut], usual[len(usual) // 2]
        limit = OUTLIER * ((high - low) or abs(middle) or 1)
        if far := [(number, where) for number, where in numbers if abs(number - middle) > limit]:
            count = "1 number is" if len(far) == 1 else f"{len(far):,} numbers are"
            first = f"{far[0][0]:,.15g} at {far[0][1]}"
            notes.append(f"{count} far from most, which are from {low:,.15g} to {high:,.15g}: {first}")
        return notes

    @override
    def fit(self, examples: Sequence[Example]) -> Self:
        numbers = [self.shown_gold(example) for example in examples]
        low, high = self.scale or (min(numbers), max(numbers))
        if low == high:
            raise nothing_to_learn(f"every example has the number {low:g}", examples)
        return replace(self, scale=(low, high))

    def rebuilt(self, labels: tuple[str, ...], config: Mapping[str, Any]) -> Self:
        """Returns the task of a saved model, which predicts in the data's unit unless a range is recorded.

        A model of one output that says neither "regression" nor the function of a cross-encoder has
        probabilities, as in transformers and sentence-transformers. Raises ModelError for a recorded range or
        function that is not supported.
        """
        recorded = config.get(OUTPUT_RANGE, [0.0, 1.0])
        bounds = [as_number(str(bound)) for bound in recorded] if isinstance(recorded, list) else []
        if len(bounds) != 2 or not math.isfinite(sum(bounds)) or bounds[0] >= bounds[1]:
            raise ModelError(f"{recorded!r} is not a lowest and a highest number", key=OUTPUT_RANGE)
        is_regression = config.get("problem_type") == "regression" or len(labels) > 1
        path = (config.get(CROSS_ENCODER) or {}).get(ACTIVATION, "Identity" if is_regression else "Sigmoid")
        if (function := path.rpartition(".")[2]) not in FUNCTIONS:
            raise ModelError(f"scores through {path} are not supported", fix="Use sentence-transformers")
        numbers = labels if len(labels) > 1 else self.numbers
        return replace(self, scale=(bounds[0], bounds[1]), function=function, numbers=numbers)

    @override
    def config_values(self, scores: Mapping[str, Any]) -> dict[str, Any]:
        recorded = {} if self.output_scale() != (1.0, 0.0) else {OUTPUT_RANGE: list(self.bounds)}
        identity = {ACTIVATION: "torch.nn.modules.linear.Identity"}  # else CrossEncoder squashes the numbers
        return {"problem_type": "regression", CROSS_ENCODER: identity} | recorded

    def shown_gold(self, example: Example) -> float:
        """Returns the gold answer as a number. Raises DataError if it is not a finite number."""
        number = as_number(str(example.gold))
        if not math.isfinite(number):
            fix = "Write only a number, or check `label_column`"
            if "," in str(example.gold):
                fix = "Write 1234.5, with a decimal point and without thousands separators"
            raise DataError(f"{example.gold!r} is not a finite number", where=example.where, fix=fix)
        return number

    @override
    def target(self, example: Example) -> npt.NDArray[np.float32]:
        low, high = self.bounds
        return np.array((self.shown_gold(example) - low) / (high - low), np.float32)

    @override
    def loss(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, float]:
        return F.mse_loss(logits.squeeze(-1).float(), targets, reduction="sum"), len(targets)

    @override
    def output_scale(self) -> tuple[float, float]:
        """Returns (factor, offset), or (1, 0) if float32 cannot tell apart numbers in the data's unit."""
        low, high = self.bounds
        return (high - low, low) if max(abs(low), abs(high)) < MAX_OFFSET * (high - low) else (1.0, 0.0)

    def predict(self, outputs: Outputs, windows: Windows, examples: Sequence[Example]) -> list[Any]:
        """Returns a number in the data's unit for each example, as an array [1]."""
        low, high = self.bounds
        outputs_NO = FUNCTIONS[self.function](np.stack(outputs).astype(np.float64))
        return list(outputs_NO * (high - low) + low)

    @override
    def score(self, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, Score]:
        predicted, gold = np.stack(predictions)[:, 0], np.array([*map(self.shown_gold, examples)])
        return {name: METRICS[name](predicted, gold) for name in self.metrics}

    @override
    def table(self, predictions: Sequence[Any], examples: Sequence[Example]) -> list[tuple[Cell, ...]]:
        rows: list[tuple[Cell, ...]] = [("id", *self.numbers)]
        return rows + [(e.id, *map(float, p)) for e, p in zip(examples, predictions, strict=True)]
