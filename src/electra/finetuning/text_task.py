"""What the tasks share that read one text or two from a table and answer for the text as a whole.

Of the reference's details, both orders of a pair in training are kept for MRPC and STS-B (not for QQP).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from electra.data.delimited import format_tsv
from electra.data.rows import ID_COLUMNS, cell_text, open_table, row_id
from electra.errors import ConfigError, DataError
from electra.finetuning.counted import counted
from electra.finetuning.features import Tokens, Windows
from electra.finetuning.task import HeadKind, Task, digits
from electra.labelled.examples import Example, Split

MISSING = ("nan", "<na>")  # how tables write an empty cell
Prediction = npt.NDArray[np.float64]  # what the head gives for a text, in the unit of the answers


@dataclass(frozen=True, kw_only=True)
class TextTask(Task):
    head: ClassVar[HeadKind] = "classifier"

    both_orders: bool = False  # train on (a, b) and (b, a)
    drop_malformed: bool = False  # leave out rows with a wrong number of cells and count them
    submissions: tuple[tuple[str, str], ...] = ()  # split -> name of the file that GLUE's server wants

    def with_options(self, options: Mapping[str, Any]) -> Self:
        columns, both_orders = options.get("text_column"), options.get("both_orders")
        if columns and self.name == "pair" and len(columns) != 2:
            fix = "Name two columns, or use `task` classification"
            raise ConfigError("a pair has two texts", key="text_column", fix=fix)
        if options.get("multi_label"):
            fix = "Use `task` classification or pair"
            raise ConfigError(f"{self.name} has one answer", key="multi_label", fix=fix)
        task = super().with_options(options)
        return task if both_orders is None else replace(task, both_orders=both_orders)

    @classmethod
    def like(cls, other: TextTask, **changes: Any) -> Self:
        """A task of this kind with all that text tasks share from another."""
        shared = {field.name: getattr(other, field.name) for field in fields(TextTask)}
        return cls(**(shared | changes))

    @abstractmethod
    def gold(self, value: Any, where: str) -> Any:
        """An answer as it stands in a cell; None where there is none."""

    @abstractmethod
    def target(self, example: Example) -> npt.NDArray[Any]:
        """What the loss compares the outputs with."""

    @abstractmethod
    def answer(self, prediction: Prediction) -> str: ...

    def submitted(self, prediction: Prediction) -> str:
        """The answer as GLUE's server wants it."""
        return self.answer(prediction)

    def read(self, path: Path, labelled: bool = True) -> Split:
        wanted = self.texts if labelled else (*self.texts, *self.usual_texts)
        optional = () if labelled else self.label
        table = open_table(path, self.header, wanted, self.drop_malformed, self.encoding, optional)
        texts = next((names for names in wanted if set(names) <= set(table.columns)), None)
        if texts is None:
            raise table.no_column([" + ".join(names) for names in self.texts], "`text_column`")
        label = table.column(self.label)
        if label is None and labelled:
            raise table.no_column(self.label, "`label_column`")
        identifier = table.column([name for name in ID_COLUMNS if name not in (*texts, label)])
        examples = []
        bare: list[str] = []  # where an answer is missing
        for number, (where, row) in enumerate(table.rows):
            value = row.get(label) if label else None
            if isinstance(value, float) and math.isnan(value):  # how pandas writes an empty cell
                value = None
            gold = self.gold(value, where)
            if gold is None and labelled:
                bare.append(where)
                continue
            columns = tuple(cell_text(row, column, where) for column in texts)
            examples.append(Example(row_id(row, identifier, number), where, columns, gold, row))
        notes = table.notes
        if texts in self.usual_texts and texts not in self.texts:
            notes += (f"no column {' or '.join(self.texts[0])}: {' and '.join(texts)} is read instead",)
        if bare and not self.skip_unlabelled:
            what = f"no answer in column {label!r}"
            if len(bare) > 1:
                what = f"{len(bare):,} of {len(bare) + len(examples):,} rows have {what}; this is the first"
            raise DataError(what, where=bare[0], fix="Fill it in, or pass `skip_unlabelled`")
        if bare:
            notes += (f"{counted(len(bare), 'row')} without an answer left out",)
        if not examples:
            what = "no row has an answer" if bare else "no examples: the file has only a header"
            raise DataError(what, where=path)
        return Split(tuple(examples), table.dropped, notes)

    def knows(self, example: Example) -> bool:
        try:
            self.target(example)
        except DataError:
            return False
        return True

    def featurize(
        self, examples: Sequence[Example], tokens: Tokens, max_length: int, train: bool = False
    ) -> Windows:
        columns = [list(texts) for texts in zip(*(example.texts for example in examples), strict=True)]
        orders = [columns, columns[::-1]] if train and self.both_orders and len(columns) == 2 else [columns]
        joined = [row for order in orders for row in tokens.join(order, max_length)]
        labelled = all(example.gold is not None for example in examples)
        return Windows(
            input_ids=[ids for ids, _, _ in joined],
            token_type_ids=[types for _, types, _ in joined],
            example=np.tile(np.arange(len(examples)), len(orders)),
            targets=[self.target(example) for example in examples] * len(orders) if labelled else None,
            texts=[pair for order in orders for pair in zip(*order, strict=True)],
            truncated=sum(cut for _, _, cut in joined[: len(examples)]),
        )

    def files(self, split: str, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, bytes]:
        """The predictions file, and the one that can be sent to GLUE's server."""
        files = super().files(split, predictions, examples)
        if name := dict(self.submissions).get(split):
            answers = [(e.id, self.submitted(p)) for e, p in zip(examples, predictions, strict=True)]
            files[f"{name}.tsv"] = format_tsv([("index", "prediction"), *answers])
        return files


@dataclass(frozen=True, kw_only=True)
class LabelledText(TextTask):
    labels: tuple[str, ...] = ()  # in the order of the outputs; () = found in training data

    @property
    def label_names(self) -> tuple[str, ...]:
        return self.labels

    def table(self, predictions: Sequence[Any], examples: Sequence[Example]) -> list[tuple[str, ...]]:
        """Id, answer, and the probability of each label."""
        rows = [(e.id, self.answer(p), *map(digits, p)) for e, p in zip(examples, predictions, strict=True)]
        return [("id", "label", *(f"p({name})" for name in self.labels)), *rows]


def single(value: Any, where: str) -> str:
    """A cell with one answer, "" where there is none."""
    if isinstance(value, list | dict):
        fix = "Use `multi_label` where several can be right"
        raise DataError(f"{value!r} is not one label", where=where, fix=fix)
    answer = "" if value is None else str(value).strip()
    return "" if answer.lower() in MISSING else answer


def is_placeholder(answer: str) -> bool:
    """GLUE's test files on the hub have -1 in place of an answer."""
    return answer in ("-1", "-1.0")


def natural(label: str) -> tuple[int, float, str]:
    """The order of labels: numbers as numbers, before words."""
    try:
        number = float(label)
    except ValueError:
        number = math.nan
    return (0, number, label) if math.isfinite(number) else (1, 0.0, label)
