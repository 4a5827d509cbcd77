"""What a fine-tuning task is.

    read(path)                       a file -> examples, each with its id, where it stands (file:line) and its
                                     gold answer as written
    fit(examples)                    the task with what only training data can say: the labels there are, the
                                     range of the numbers
    featurize(examples, tokens)      examples -> windows of token ids with targets; one example may give
                                     several windows
    head, num_outputs                which kind of head it needs (heads/), and how wide
    loss(logits, targets)            (sum, count), never a mean: a batch may hold any number of targets; with
                                     `loss_of_batch` it compares the windows with each other
    predict(outputs, windows, ex.)   the head's outputs, one array a window -> one prediction an example
    score(predictions, examples)     metric -> Score; `metrics[0]` is the primary one, by which seeds compare
    table(predictions, examples)     the rows of the predictions file
    files(split, predictions, ex.)   all files of a split's predictions: that table, and what else the task
                                     has (submissions, n-best lists)
    configured(options)              the task with the user's columns and options (TaskOptions)
    rebuilt(labels, config)          the task as a saved model has it

All of it follows from the dataclass's fields, so a task can be compared, recorded and rebuilt. `version` goes
up whenever a change alters a number. Padding, batches, seeds, checkpoints and saved folders are no task's
business: one_seed.py and all_seeds.py know only this contract.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from torch import Tensor

from electra.data.delimited import format_tsv
from electra.data.rows import TABLES
from electra.finetuning.labelled.examples import Example, Split
from electra.finetuning.metrics.scores import Score
from electra.finetuning.settings import TaskOptions
from electra.finetuning.windows.features import Tokens, Windows
from electra.foundation.errors import ConfigError

HeadKind = str
"""What a task's outputs are: one answer a text (classifier), one a token (tagger), spans (reader), a vector a
text, without a head (vectors), or what a task and a head of yours agree on.
"""
Outputs = Sequence[npt.NDArray[np.float32]]
Columns = tuple[str, ...]
Cell = str | int | float
"""Of a predictions table."""


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    head: ClassVar[HeadKind]
    has_classes: ClassVar[bool] = True  # whose weights in the loss can be balanced
    loss_of_batch: ClassVar[bool] = False  # it compares the windows of a training batch, so no other has one

    name: str
    version: int
    source: str  # authors and year of the data set
    metrics: tuple[str, ...]  # the primary one first
    texts: tuple[Columns, ...]  # alternatives: the columns of the text or texts; the first that a file has
    label: Columns  # alternatives: the column of the answer
    usual_texts: tuple[Columns, ...] = ()  # where the user named columns: those of a test file without them
    header: Columns = ()  # the columns' names in files that come without a header line
    encoding: str | None = None  # of csv and tsv files
    skip_unlabelled: bool = False  # leave out rows without an answer
    epochs: float = 3  # the paper's
    max_length: int = 128  # tokens, with [CLS] and [SEP]
    stride: int | None = None  # tokens between the starts of two windows, where a text is read in several
    formats: tuple[str, ...] = TABLES  # endings of the files it reads
    dev_files: tuple[str, ...] = ()  # names of the dev file that the usual rules would not prefer
    test_files: tuple[str, ...] = ()
    also: tuple[str, ...] = ()  # names of further files to predict, and to score where they have answers
    balanced: bool = False  # weight the classes of the training loss so that each counts the same
    weights: tuple[float, ...] = ()  # of the classes, then

    def configured(self, options: TaskOptions) -> Task:
        """The task as the settings want it."""
        return self.with_options(options)

    def with_options(self, options: TaskOptions) -> Self:
        """The options that every task has."""
        balanced = options.class_weights == "balanced"
        if balanced and not self.has_classes:
            raise ConfigError(f"{self.name} has no classes", key="class_weights", fix="Leave it out")
        if options.multi_label and self.head != "classifier":
            fix = "Use `task` classification or pair"
            raise ConfigError("only a text can have several labels here", key="multi_label", fix=fix)
        if options.encoding:
            self.refuse_unless_table("encoding")
        if options.skip_unlabelled and self.head != "tagger":
            self.refuse_unless_table("skip_unlabelled")
        columns, label = tuple(options.text_column), options.label_column
        labels = (label,) if isinstance(label, str) else tuple(label or ())
        if len(labels) > 1 and not options.multi_label:
            fix = "Name one, or pass `multi_label` for a column of 0 and 1 for each label"
            raise ConfigError(f"{self.name} has one answer, in one column", key="label_column", fix=fix)
        return replace(
            self,
            balanced=balanced,
            texts=(columns,) if columns else self.texts,
            usual_texts=self.texts if columns else (),
            encoding=options.encoding,
            skip_unlabelled=options.skip_unlabelled,
            label=labels or self.label,
            header=tuple(options.columns) or self.header,
            stride=options.stride or self.stride,
        )

    def refuse_unless_table(self, option: str) -> None:
        if self.head not in ("classifier", "vectors"):
            what = "this is for tables with a text in each row"
            raise ConfigError(what, key=option, fix="Leave it out")

    @property
    @abstractmethod
    def label_names(self) -> tuple[str, ...]:
        """The names of the outputs, kept in the saved model's config.id2label."""

    @property
    def num_outputs(self) -> int:
        return len(self.label_names)

    @abstractmethod
    def read(self, path: Path, labelled: bool = True) -> Split:
        """The examples of a file. labelled=False: answers may be absent."""

    def for_others(self, fitted: Task) -> Task:
        """The task that reads the other files once the training file was read and fitted to."""
        return self

    @abstractmethod
    def fit(self, examples: Sequence[Example]) -> Task: ...

    @abstractmethod
    def featurize(
        self, examples: Sequence[Example], tokens: Tokens, max_length: int, train: bool = False
    ) -> Windows: ...

    @abstractmethod
    def loss(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, float]: ...

    @abstractmethod
    def predict(self, outputs: Outputs, windows: Windows, examples: Sequence[Example]) -> list[Any]: ...

    @abstractmethod
    def score(self, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, Score]: ...

    @abstractmethod
    def table(self, predictions: Sequence[Any], examples: Sequence[Example]) -> list[tuple[Cell, ...]]:
        """The predictions file, header first; numbers are numbers."""

    def files(self, split: str, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, bytes]:
        """Name -> content of what is written of the predictions of `split` ("dev", "test", ...)."""
        return {f"{split}.tsv": format_tsv(as_text(self.table(predictions, examples)))}

    def average(self, predictions: Sequence[Sequence[Any]]) -> list[Any]:
        """Several models' predictions for the same examples -> their ensemble's: the mean."""
        return [np.mean(of_one, axis=0) for of_one in zip(*predictions, strict=True)]

    def output_scale(self) -> tuple[float, float]:
        """(factor, offset) from the head's outputs to the answers' unit, applied to the saved last layer."""
        return 1.0, 0.0

    def side(self, example: Example) -> tuple[str, ...]:
        """The texts whose hash decides on which side of a split the example falls."""
        return example.texts

    def columns_read(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        """The columns of a row that are its text and its answer."""
        texts = next((names for names in (*self.texts, *self.usual_texts) if set(names) <= set(row)), ())
        return (*texts, *next(((name,) for name in self.label if name in row), ()))

    def knows(self, example: Example) -> bool:
        """Whether the example's answer is one that the task can score."""
        return True

    def unlearned(self, example: Example) -> Sequence[str]:
        """The answers of an example that no training example has. They are scored as wrong."""
        return ()

    def gold_told(self, example: Example) -> Any:
        """The answer of an example as it is told beside the predicted one: a label, a number, or as it is."""
        return example.gold

    def label_counts(self, examples: Sequence[Example]) -> dict[str, int]:
        """How often each label is an answer; {} for a task without labels."""
        return {}

    def config_values(self, scores: Mapping[str, Any]) -> dict[str, Any]:
        """What config.json of the saved model holds besides shape and labels. `scores`: its own, on dev."""
        return {}

    def rebuilt(self, labels: tuple[str, ...], config: Mapping[str, Any]) -> Task:
        """The task of a saved model, by its labels and its config.json."""
        return self

    @property
    def rule(self) -> str:
        """How the answer follows from the outputs, where the user can change it."""
        return ""

    def with_every_score(self) -> Task:
        """The task with the score of each label in its table, where that has the likeliest alone."""
        return self

    def at_threshold(self, threshold: float) -> Task:
        """The task with another threshold in its rule."""
        raise ConfigError(f"{self.name} has no threshold", key="threshold", fix="Leave it out")


def softmax(logits: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Probabilities over the last axis."""
    exponentials = np.exp(logits.astype(np.float64) - logits.astype(np.float64).max(-1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(-1, keepdims=True))


def counted_notes(counts: Mapping[str, int]) -> tuple[str, ...]:
    """What was done to how many examples, where any were."""
    return tuple(f"{count} {what}" for what, count in counts.items() if count)


def counted_labels(labels: Sequence[str], found: Iterable[str]) -> dict[str, int]:
    """How often each label was found, and then what else was."""
    counts = Counter(found)
    return {label: counts[label] for label in (*labels, *sorted(set(counts) - set(labels)))}


def label_numbers(labels: Sequence[str], found: Iterable[str]) -> dict[str, int]:
    """Of each label, and of what else was found, each by its own: no prediction meets those."""
    return {label: number for number, label in enumerate(counted_labels(labels, found))}


def as_cell(cell: Any) -> str:
    """A cell as predictions files have it."""
    return format(cell, ".9g") if isinstance(cell, float) else str(cell)


def as_text(table: Sequence[Sequence[Cell]]) -> list[tuple[str, ...]]:
    """A predictions table as its file has it."""
    return [tuple(map(as_cell, row)) for row in table]


def file_of(examples: Sequence[Example]) -> str:
    """Where examples come from, for errors about all of them."""
    return examples[0].where.rpartition(":")[0]
