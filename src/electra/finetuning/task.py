"""The contract of fine-tuning tasks.

A task reads examples, is fitted to the training data, converts examples to windows of token ids with targets,
and converts a head's outputs to a loss, predictions, scores and files. Seeds are compared by `metrics[0]`.

A task is defined by the fields of its dataclass, so it can be compared, recorded and rebuilt. `version`
increases whenever a change alters the task's numbers. Padding, batches, seeds, checkpoints and saved folders
are left to train/, which uses only this contract.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.nn import functional as F

from electra.data.tables.delimited import format_tsv
from electra.data.tables.lines import Place
from electra.data.tables.table_files import TABLES, Data
from electra.finetuning.labelled.examples import Example, Split
from electra.finetuning.score.metrics import Score
from electra.finetuning.settings import TaskOptions
from electra.finetuning.windows.features import NO_TARGET, Tokens, Windows
from electra.foundation.errors import ConfigError, DataError
from electra.foundation.options import as_tuple

HeadKind = str
"""The kind of a task's outputs.

The kinds are one answer per text ("classifier"), one per token ("tagger") and spans ("reader"). A custom task
and its custom head may share any other name.
"""
Outputs = Sequence[npt.NDArray[np.float32]]  # one array per window
Columns = tuple[str, ...]
Cell = str | int | float
"""A cell of a predictions table."""


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """A fine-tuning task: its data, loss, predictions and metrics. A task file defines one as `TASK`."""

    head: ClassVar[HeadKind]
    has_classes: ClassVar[bool] = True  # whether it has classes, which the loss can weight
    outputs_are_logits: ClassVar[bool] = False  # logits of labels, which can be calibrated on dev
    writes: ClassVar[tuple[str, ...]] = ()  # endings of files of words that it writes from any texts

    name: str
    version: int
    source: str  # authors and year of the data set
    metrics: tuple[str, ...]  # the primary one first
    texts: tuple[Columns, ...]  # possible columns of the text or texts; the first match is used
    label: Columns  # possible columns of the answer; the first match is used
    labels: tuple[str, ...] = ()  # in the order of the outputs; (): those of the training data
    header: Columns = ()  # column names of files without a header line
    skip_unlabelled: bool = False  # leave out rows without an answer
    epochs: float = 3  # as in the paper
    max_length: int = 128  # tokens, with [CLS] and [SEP]
    stride: int | None = None  # tokens between the starts of two windows, if long texts are split
    formats: tuple[str, ...] = TABLES  # the file name endings it reads
    dev_files: tuple[str, ...] = ()  # preferred names of the dev file
    test_files: tuple[str, ...] = ()  # preferred names of the test file
    also: tuple[str, ...] = ()  # names of other files to predict, and to score if they have answers
    balanced: bool = False  # whether all classes have the same total weight in the training loss
    weights: tuple[float, ...] = ()  # the weight of each class if `balanced`, once fitted

    def __init_subclass__(cls) -> None:
        """A task with its own `predict` is not calibrated."""
        super().__init_subclass__()
        if "predict" in vars(cls) and "outputs_are_logits" not in vars(cls):
            cls.outputs_are_logits = False

    def with_options(self, options: TaskOptions) -> "Task":
        """Returns the task with the user's options; they may turn it into another kind of task.

        Raises ConfigError if an option does not apply to this task.
        """
        balanced = options.class_weights == "balanced"
        if balanced and not self.has_classes:
            raise ConfigError(f"{self.name} has no classes", key="class_weights", fix="Omit it")
        if options.multi_label:
            fix = "Use `task` classification or pair"
            raise ConfigError(f"{self.name} has one answer per item", key="multi_label", fix=fix)
        if options.skip_unlabelled and self.head not in ("classifier", "tagger"):
            problem = "only applies to tables with a text in each row"
            raise ConfigError(problem, key="skip_unlabelled", fix="Omit it")
        text_columns, label_columns = tuple(options.text_column), as_tuple(options.label_column or ())
        counts = {len(names) for names in self.texts}
        if self.head == "classifier" and 1 in counts:
            counts = {1, 2}  # the user's own columns may be those of pairs
        if text_columns and len(text_columns) not in counts:
            expected = " or ".join(map(str, sorted(counts)))
            problem = f"{self.name} has {expected} columns of text, not {len(text_columns)}"
            fix = "Name that of the answers with `label_column`, or use another `task`"
            raise ConfigError(problem, key="text_column", fix=fix)
        if len(label_columns) > 1:
            fix = "Name one, or pass `multi_label` if each label has its own column of 0s and 1s"
            raise ConfigError(f"{self.name} has one answer column", key="label_column", fix=fix)
        return replace(
            self,
            balanced=balanced,
            texts=(text_columns,) if text_columns else self.texts,
            skip_unlabelled=options.skip_unlabelled,
            label=label_columns or self.label,
            header=tuple(options.columns) or self.header,
            stride=options.stride or self.stride,
        )

    def preferring(self, texts: Columns, label: str = "") -> Self:
        """Returns the task that reads these columns if a file has them, and else as many others it knows."""
        labels = tuple(name for name in self.label if name.casefold() == label.casefold())
        others = (names for names in self.texts if len(names) == len(texts))
        all_texts, all_labels = dict.fromkeys((texts, *others)), dict.fromkeys((*labels, *self.label))
        return replace(self, texts=tuple(all_texts), label=tuple(all_labels))

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of the outputs, stored in the saved model's config.id2label."""
        return self.labels

    @property
    def num_outputs(self) -> int:
        """The number of outputs of the head."""
        return len(self.label_names)

    @abstractmethod
    def read(self, path: Data, labelled: bool = True) -> Split:
        """Reads a file's examples, with answers if required (`labelled`); DataError for an invalid line."""

    @abstractmethod
    def fit(self, examples: Sequence[Example]) -> Self:
        """Returns the task with the labels, ranges and weights of these training examples.

        Raises DataError if there is nothing to learn, for example because there is only one label.
        """

    @abstractmethod
    def featurize(self, examples: Sequence[Example], tokens: Tokens, max_length: int, train: bool = False) -> Windows:
        """Returns the windows of the examples, of at most `max_length` tokens.

        They have targets if all examples have answers. Examples to `train` on may be dropped or duplicated.
        """

    @abstractmethod
    def loss(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, float]:
        """Returns the sum of the losses of a batch, and the number by which to divide it for the mean.

        `logits` are the head's outputs [B, outputs], or [B, T, outputs] if it has some for each token;
        `targets` are those of the windows, stacked. Targets of tokens are padded with NO_TARGET.
        """

    @abstractmethod
    def predict(self, outputs: Outputs, windows: Windows, examples: Sequence[Example]) -> list[Any]:
        """Returns a prediction for each example, from the head's outputs for each window."""

    @abstractmethod
    def score(self, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, Score]:
        """Returns the score of each of `metrics`; all examples have answers if the task needs them."""

    @abstractmethod
    def table(self, predictions: Sequence[Any], examples: Sequence[Example]) -> list[tuple[Cell, ...]]:
        """Returns the rows of the predictions file, the header first; numbers are not formatted."""

    def files(self, split: str, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, bytes]:
        """Returns the prediction files of a split ("dev", "test", ...): file name to contents."""
        return {f"{split}.tsv": format_tsv(as_text(self.table(predictions, examples)))}

    def in_file(self, source: Data, predictions: Sequence[Any], examples: Sequence[Example]) -> bytes:
        """Returns the file of a word per line with the predicted tags; DataError for any other file."""
        raise DataError("no file of a word per line", where=source, fix="Write csv, tsv or jsonl")

    def output_scale(self) -> tuple[float, float]:
        """Returns (factor, offset), which bring the saved head's outputs to the unit of the answers."""
        return 1.0, 0.0

    def hashed_texts(self, example: Example) -> tuple[str, ...]:
        """Returns the texts whose hash decides whether an example is held out for dev."""
        return example.texts

    def can_score(self, example: Example) -> bool:
        """Whether the task can score the example's answer, such as a number or a known label."""
        return True

    def gold_names(self, example: Example) -> tuple[str, ...]:
        """Returns the gold labels of an example as `labels` spells them; () for other answers."""
        return ()

    def unseen_labels(self, example: Example) -> tuple[str, ...]:
        """Returns the gold labels of an example that no training example has; they are scored as errors."""
        return tuple(name for name in self.gold_names(example) if name not in self.labels)

    def shown_gold(self, example: Example) -> Any:
        """Returns the gold answer as reported with the prediction: a label, a number, or as in the file."""
        return example.gold

    def label_counts(self, examples: Sequence[Example]) -> dict[str, int]:
        """Returns the frequency of each label; {} for a task without labels."""
        return tally_labels(self.labels, (name for each in examples for name in self.gold_names(each)))

    def config_values(self, scores: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what the task adds to the saved model's config.json; `scores` on dev are by name."""
        return {}

    def rebuilt(self, labels: tuple[str, ...], config: Mapping[str, Any]) -> "Task":
        """Returns the task of a saved model, from its labels and its config.json."""
        return replace(self, labels=labels)

    @property
    def penalty_task(self) -> "Task":
        """The task whose loss chooses the penalty of a linear model; with fewer outputs that is faster."""
        return self

    @property
    def trial_task(self) -> "Task":
        """The task for training examples that are held out: it must not know their answers."""
        return self

    @property
    def rule(self) -> str:
        """A sentence for the user on how a threshold decides predictions; "" without a threshold."""
        return ""

    def with_every_score(self) -> Self:
        """Returns the task whose `table` has the probability of every label, if it has labels."""
        return self

    def at_threshold(self, threshold: float) -> "Task":
        """Returns the task with another decision threshold; ConfigError without one, or out of range."""
        raise ConfigError(f"{self.name} has no threshold", key="threshold", fix="Omit it")


def cross_entropy(logits_NC: Tensor, targets_N: Tensor, weights: Sequence[float] = ()) -> tuple[Tensor, float]:
    """Returns the sum of the losses, and the number by which to divide it for the mean, as torch does.

    The divisor is the number of targets or, with the classes' `weights`, the sum of the targets' weights.
    Targets are class indices, of which NO_TARGET is ignored.
    """
    logits_NC, labelled_N = logits_NC.float(), targets_N != NO_TARGET
    weights_C = logits_NC.new_tensor(weights) if weights else None
    loss = F.cross_entropy(logits_NC, targets_N, weights_C, ignore_index=NO_TARGET, reduction="sum")
    if weights_C is None:
        return loss, int(labelled_N.sum())
    return loss, float(weights_C[targets_N[labelled_N]].sum())


def probability(threshold: float) -> float:
    """Returns a threshold. Raises ConfigError if it is not from 0 to 1."""
    if not 0 <= threshold <= 1:
        raise ConfigError(f"must be a probability from 0 to 1, not {threshold:g}", key="threshold")
    return threshold


def nothing_to_learn(why: str, examples: Sequence[Example]) -> DataError:
    """Returns the error for training examples without a difference to learn."""
    return DataError(f"{why}: nothing to learn", where=file_of(examples), fix="Check `label_column`")


def balanced_weights(classes: Sequence[int], num_classes: int) -> tuple[float, ...]:
    """Returns scikit-learn's "balanced" weight of each class; 1 for a class without examples."""
    counts = np.bincount(classes, minlength=num_classes)
    return tuple(float(len(classes) / (num_classes * count)) if count else 1.0 for count in counts)


def nonzero_notes(counts: Mapping[str, int]) -> tuple[str, ...]:
    """Returns "description: count" for each count above 0."""
    return tuple(f"{description}: {count}" for description, count in counts.items() if count)


def tally_labels(labels: Sequence[str], golds: Iterable[str]) -> dict[str, int]:
    """Returns the frequency of each label, in order, and then of gold answers that are not labels."""
    counts = Counter(golds)
    return {label: counts[label] for label in (*labels, *sorted(set(counts) - set(labels)))}


def index_labels(labels: Sequence[str], golds: Iterable[str]) -> dict[str, int]:
    """Maps labels to their indices, and gold answers that are not labels to the indices after those."""
    return {label: index for index, label in enumerate(tally_labels(labels, golds))}


def format_cell(cell: Any) -> str:
    """Formats a cell for a predictions file; floats have nine significant digits, large ones fifteen."""
    return format(cell, ".9g" if abs(cell) < 1e6 else ".15g") if isinstance(cell, float) else str(cell)


def as_text(table: Sequence[Sequence[Cell]]) -> list[tuple[str, ...]]:
    """Formats the cells of a predictions table for its file."""
    return [tuple(map(format_cell, row)) for row in table]


def file_of(examples: Sequence[Example]) -> str:
    """Returns the path of the file that the examples, of which there is at least one, were read from."""
    where = examples[0].where
    return where.source if isinstance(where, Place) else where
