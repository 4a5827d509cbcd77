"""What the tasks share that read one text or two from a table and answer for the text as a whole.

Of the reference's details, both orders of a pair in training are kept for MRPC and STS-B (not for QQP).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from electra.data.delimited import format_tsv
from electra.data.rows import ID_COLUMNS, Table, cell_text, get_field, open_table, row_id
from electra.finetuning.labelled.examples import Example, Split
from electra.finetuning.runner.counted import counted
from electra.finetuning.settings import TaskOptions
from electra.finetuning.tasks.parts.answers import (
    OFTEN_MISSING,
    as_answer,
    is_missing,
    label_key,
    missing_marks,
    places,
)
from electra.finetuning.tasks.parts.task import Cell, HeadKind, Task
from electra.finetuning.windows.features import Tokens, Windows
from electra.foundation.errors import ConfigError, DataError

# What the second text of pairs is called where the first is called text or sentence.
SECOND = ("hypothesis", "text_b", "text_pair", "text2", "sentence2", "sentence_b", "question2", "passage")
Prediction = npt.NDArray[np.float64]  # what the head gives for a text, in the unit of the answers


@dataclass(frozen=True, kw_only=True)
class TextTask(Task):
    head: ClassVar[HeadKind] = "classifier"

    both_orders: bool = False  # train on (a, b) and (b, a)
    drop_malformed: bool = False  # leave out rows with a wrong number of cells and count them
    submissions: tuple[tuple[str, str], ...] = ()  # split -> name of the file that GLUE's server wants

    def with_options(self, options: TaskOptions) -> Self:
        columns, both_orders = options.text_column, options.both_orders
        if columns and self.name == "pair" and len(columns) != 2:
            fix = "Name two columns, or use `task` classification"
            raise ConfigError("a pair has two texts", key="text_column", fix=fix)
        if options.multi_label:
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
        """An answer as it stands in a cell that is not empty; None where there is none."""

    def settled(self, golds: list[Any]) -> tuple[list[Any], tuple[str, ...]]:
        """The answers of a file once all are known, and notes on what was done to them."""
        return golds, ()

    @abstractmethod
    def target(self, example: Example) -> npt.NDArray[Any]:
        """What the loss compares the outputs with."""

    @abstractmethod
    def answer(self, prediction: Prediction) -> str: ...

    def submitted(self, prediction: Prediction) -> str:
        """The answer as GLUE's server wants it."""
        return self.answer(prediction)

    def marks(self, answers: Sequence[Any]) -> frozenset[str]:
        """The words that say that there is no answer."""
        return frozenset(OFTEN_MISSING)

    def absent(self, answer: Any, marks: frozenset[str]) -> bool:
        return is_missing(answer, marks)

    def answers(self, table: Table, labelled: bool) -> tuple[str, Callable[[Mapping[str, Any]], Any]]:
        """The name of the answers' column ("" where there is none), and how to get an answer from a row."""
        label = table.first_column(self.label)
        if label is None and labelled:
            raise table.missing_column(self.label, "`label_column`")
        return label or "", (lambda row: get_field(row, label)) if label else (lambda row: None)

    def read(self, path: Path, labelled: bool = True) -> Split:
        wanted = self.texts if labelled else (*self.texts, *self.usual_texts)
        optional = () if labelled else self.label
        table = open_table(path, self.header, wanted, self.drop_malformed, self.encoding, optional)
        choices = ((names, [table.find_column(name) for name in names]) for names in wanted)
        chosen, texts = next(
            ((names, [str(name) for name in found]) for names, found in choices if None not in found),
            ((), []),
        )
        if not texts:
            raise table.missing_column([" + ".join(names) for names in self.texts], "`text_column`")
        label, answer = self.answers(table, labelled)
        identifier = table.first_column([name for name in ID_COLUMNS if name not in (*texts, label)])
        rows = list(table.rows)
        notes = (*table.notes, *self.unread(table, rows, texts, label))
        given = [as_answer(answer(row)) for _, row in rows]
        marks = self.marks(given)
        read: list[tuple[Example, Any]] = []
        bare: list[tuple[str, Any]] = []  # where an answer is missing
        for number, ((where, row), value) in enumerate(zip(rows, given, strict=True)):
            gold = None if self.absent(value, marks) else self.gold(value, where)
            if gold is None and labelled:
                bare.append((where, value))
                continue
            columns = tuple(cell_text(row, column, where) for column in texts)
            read.append((Example(row_id(row, identifier, number), where, columns, row=row), gold))
        if chosen in self.usual_texts and chosen not in self.texts:
            notes += (f"no column {' or '.join(self.texts[0])}: {' and '.join(texts)} is read instead",)
        said = Counter(str(value) for _, value in bare if value not in (None, "", "nan", "NaN"))
        shown = f" ({', '.join(f'{mark!r} {count}' for mark, count in said.most_common(5))})" if said else ""
        if bare and not self.skip_unlabelled:
            what = f"no answer in column {label!r}{shown}"
            if len(bare) > 1:
                what = f"{len(bare):,} of {len(rows):,} rows have {what}; this is the first"
            raise DataError(what, where=bare[0][0], fix="Fill it in, or pass `skip_unlabelled`")
        if bare:
            notes += (f"{counted(len(bare), 'row')} without an answer left out{shown}",)
        if not read:
            what = "no row has an answer" if bare else "no examples: the file has only a header"
            raise DataError(what, where=path)
        present = [gold for _, gold in read if gold is not None]
        try:
            settled, more = self.settled(present) if present else ([], ())
        except DataError as error:
            raise DataError(error.what, where=path, fix=error.fix) from None
        golds = iter(settled)
        examples = (replace(e, gold=None if gold is None else next(golds)) for e, gold in read)
        return Split(tuple(examples), table.dropped, (*notes, *more))

    def unread(
        self, table: Table, rows: Sequence[tuple[str, Mapping[str, Any]]], texts: Sequence[str], label: str
    ) -> tuple[str, ...]:
        """A note on columns of texts that are not read; an error where one may be the other text of pairs."""
        if len(texts) > 1 or len(self.texts) == 1 == len(self.texts[0]):  # both are read, or one was named
            return ()
        sample = [row for _, row in rows[:100]]
        others = [
            name
            for name in table.columns
            if name not in (*texts, label) and _holds_texts([row.get(name) for row in sample], texts[0], name)
        ]
        if not others:
            return ()
        if any(len(names) > 1 for names in self.texts):
            what = f"several columns have texts: {', '.join([*texts, *others])}"
            fix = f"Pass `text_column` {texts[0]}, or it and a second one for pairs"
            raise DataError(what, where=table.path, fix=fix)
        return (f"the texts of column {texts[0]} are read, not those of {' and '.join(others)}",)

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
    known: tuple[str, ...] = ()  # those of the training data, while other files are read

    @property
    def label_names(self) -> tuple[str, ...]:
        return self.labels

    def marks(self, answers: Sequence[Any]) -> frozenset[str]:
        return missing_marks(answers, self.labels or self.known)

    def for_others(self, fitted: Task) -> Self:
        return replace(self, known=fitted.label_names)

    def place(self, name: str) -> int | None:
        """The number of a label, however it is spelled; None for one that is none of them."""
        return places(self.labels).get(label_key(name))

    def table(self, predictions: Sequence[Any], examples: Sequence[Example]) -> list[tuple[Cell, ...]]:
        """Id, answer, and the probability of each label."""
        rows: list[tuple[Cell, ...]] = [("id", "label", *(f"p({name})" for name in self.labels))]
        for example, prediction in zip(examples, predictions, strict=True):
            rows.append((example.id, self.answer(prediction), *map(float, prediction)))
        return rows


def single(value: Any, where: str) -> str:
    """A cell with one answer."""
    if isinstance(value, list | dict):
        fix = "Use `multi_label` where several can be right"
        if isinstance(value, dict) and value:
            fix = (
                f"Name the field in it that is the answer, such as `label_column` COLUMN.{next(iter(value))}"
            )
        raise DataError(f"{value!r} is not one label", where=where, fix=fix)
    return str(value).strip()


def _holds_texts(values: Sequence[Any], first: str, name: str) -> bool:
    """Whether most cells of a column are texts, or its name says that it goes with that of the first text."""
    texts = [value for value in values if isinstance(value, str) and value.strip()]
    if not texts:
        return False
    plain = name.casefold()
    if plain.startswith(first.casefold()) or plain in SECOND:
        return True
    long = sum(len(text.split()) > 2 or (len(text) > 5 and not text.isascii()) for text in texts)
    return 2 * long > len(texts)


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
