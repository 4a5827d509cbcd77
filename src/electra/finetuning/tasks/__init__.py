"""Tasks: one file each, found by being here.

A task file defines `TASK`. Dropping `mine.py` into this folder gives `--task mine` (case, hyphens and
underscores do not matter), its place in the error that lists the known names, and the contract tests. What a
task is:

    read(path)                       a file -> examples, each with its id, where it stands (file:line) and its
    gold answer as written
    fit(examples)                    the task with what only training data can tell: the labels there are, the
    range of the numbers
    featurize(examples, tokens)      examples -> windows of token ids with targets; one example may give
    several windows
    head, num_outputs                which head to build (heads.py), and how wide
    loss(logits, targets)            (sum, count), never a mean: a batch may hold any number of targets
    predict(outputs, windows, ex.)   the head's outputs, one array a window -> one prediction an example
    score(predictions, examples)     metric -> Score; `metrics[0]` is the primary one, by which seeds are
    compared
    table(predictions, examples)     the rows of the predictions file
    files(split, predictions, ex.)   all files of a split's predictions: that table, and what else the task
    has (submissions, n-best lists)
    configured(options)              the task with the user's columns and options
    rebuilt(labels, ...)             the task as a saved model has it

All of it is fixed by the dataclass's fields, so a task can be compared, recorded and rebuilt. `version` goes
up whenever a change alters a number. A new kind of task (tagging, question answering) is one more subclass;
the runner knows only this contract.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from electra.errors import ConfigError
from electra.extensions import TASKS
from electra.finetuning.metrics import Score
from electra.labelled.examples import Example, Split
from electra.labelled.tables import TABLES, format_tsv

if TYPE_CHECKING:
    from torch import Tensor

    from electra.finetuning.features import Tokens, Windows

HeadKind = Literal[
    "classifier", "tagger", "reader"
]  # interop's names for one answer a text, one a token, and spans
Outputs = Sequence[npt.NDArray[np.float32]]


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    name: str
    version: int
    source: str  # authors and year of the data set
    metrics: tuple[str, ...]  # the primary one first
    texts: tuple[
        tuple[str, ...], ...
    ]  # alternatives: the columns that hold the text or texts; the first that a file has is used
    label: tuple[str, ...]  # alternatives: the column that holds the answer
    header: tuple[str, ...] = ()  # the columns' names in files that come without a header line
    epochs: float = 3  # the paper's
    max_length: int = 128  # tokens, with [CLS] and [SEP]
    stride: int | None = (
        None  # tokens from the start of one window to the start of the next, where a text is read in several
    )
    dev_files: tuple[str, ...] = ()  # names of the dev file that the usual rules would not prefer
    formats: tuple[str, ...] = TABLES  # endings of the files it reads
    also: tuple[
        str, ...
        # names of further files to predict, and to score where they have answers, if the folder holds them
    ] = ()
    test_files: tuple[str, ...] = ()  # as dev_files
    balanced: bool = False  # weigh the classes of the training loss so that each counts the same
    weights: tuple[float, ...] = ()  # of the classes, then

    def configured(self, options: Mapping[str, Any]) -> Task:
        """The task as the settings want it: the fields of Settings that concern a task, by name (also those
        of an earlier record).
        """
        if options["head"] == "joint" and self.head != "reader":
            raise ConfigError(
                "the joint head finds answers in texts",
                where="--head",
                fix="Use it with --task squad, squad2 or qa",
            )
        if options.get("class_weights") == "balanced" and (self.head == "reader" or self.num_outputs == 1):
            raise ConfigError(f"{self.name} has no classes", where="--class-weights", fix="Leave it out")
        if options.get("multi_label") and self.head != "classifier":
            raise ConfigError(
                "only a text can have several labels here",
                where="--multi-label",
                fix="Use --task classification or pair",
            )
        changes: dict[str, Any] = {"balanced": options.get("class_weights") == "balanced"}
        if options.get("text_column"):
            changes["texts"] = (tuple(options["text_column"]),)
        if options.get("label_column"):
            changes["label"] = (options["label_column"],)
        if options.get("columns"):
            changes["header"] = tuple(options["columns"])
        if options.get("stride"):
            changes["stride"] = options["stride"]
        return replace(self, **changes)

    @property
    @abstractmethod
    def head(self) -> HeadKind: ...

    @property
    @abstractmethod
    def num_outputs(self) -> int: ...

    @property
    @abstractmethod
    def label_names(self) -> tuple[str, ...]:
        """The names of the outputs, kept in the saved model's config.id2label."""

    @abstractmethod
    def read(self, path: Path, labelled: bool = True) -> Split:
        """The examples of a file. labelled=False: answers may be absent."""

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

    def output_scale(self) -> tuple[float, float]:
        """(factor, offset) from the head's outputs to the answers' unit; put into the last layer of the saved
        model.
        """
        return 1.0, 0.0

    @abstractmethod
    def score(self, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, Score]: ...

    @abstractmethod
    def table(self, predictions: Sequence[Any], examples: Sequence[Example]) -> list[tuple[str, ...]]:
        """The predictions file, header first."""

    def files(self, split: str, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, bytes]:
        """Name -> content: what is written of the predictions of "dev" or "test"."""
        return {f"{split}.tsv": format_tsv(self.table(predictions, examples))}

    def side(self, example: Example) -> tuple[str, ...]:
        """What decides by its hash on which side of a split the example falls."""
        return example.texts

    def knows(self, example: Example) -> bool:
        """Whether the example's answer is one that the task can score."""
        return True

    def config_values(self, scores: Mapping[str, Any]) -> dict[str, Any]:
        """What config.json of the saved model shall hold besides shape and labels. `scores`: its
        own, on dev.
        """
        return {}

    @property
    def rule(self) -> str:
        """How the answer follows from the outputs, where the user can change it."""
        return ""

    def at_threshold(self, threshold: float) -> Task:
        """The task with another threshold in its rule."""
        raise ConfigError(f"{self.name} has no threshold", where="--threshold", fix="Leave it out")

    def average(self, predictions: Sequence[Sequence[Any]]) -> list[Any]:
        """The predictions of several models for the same examples -> those of their ensemble: probabilities
        and numbers are averaged.
        """
        return [np.mean(of_one, axis=0) for of_one in zip(*predictions, strict=True)]

    def rebuilt(self, labels: tuple[str, ...], config: Mapping[str, Any]) -> Task:
        """The task of a saved model, by its labels and its config.json."""
        return self


def task_names() -> list[str]:
    return TASKS.names()


def load_task(name: str) -> Task:
    """The task of a file in this folder, of an installed package, or of the file at a path."""
    module = TASKS.load(name)
    if not isinstance(module.TASK, Task):
        raise ConfigError("`TASK` is not a Task of electra's", where=module.__file__)
    return module.TASK
