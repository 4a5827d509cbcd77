"""Base classes of tasks with one answer for a text or a pair of texts, read from tables.

As in the published code, MRPC and STS-B are trained on both orders of a pair (QQP is not).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from electra.data.lines import Place
from electra.data.table_files import Data
from electra.data.tables import (
    ID_COLUMNS,
    ReadOptions,
    Row,
    Table,
    cell_text,
    get_field,
    open_table,
    printed_list,
    row_id,
)
from electra.finetuning.labelled.examples import Example, Split
from electra.finetuning.settings import TaskOptions
from electra.finetuning.tasks.parts.answers import as_number, clean_answer, label_finder, unanswered
from electra.finetuning.tasks.parts.task import Cell, Columns, HeadKind, Task, tally_labels
from electra.finetuning.windows.features import Tokens, Windows
from electra.foundation.errors import ConfigError, DataError
from electra.foundation.terminal_text import plural

# Names of columns with the second text of a pair.
SECOND_TEXT_COLUMNS = tuple(
    str.split("hypothesis text_b text_pair text2 sentence2 sentence_b question2 passage")
)
Prediction = npt.NDArray[np.float64]  # probabilities of the labels, or a number [1] in the data's unit


@dataclass(frozen=True, kw_only=True)
class TextTask(Task):
    """A task with one answer for a text or a pair of texts."""

    head: ClassVar[HeadKind] = "classifier"

    labels: tuple[str, ...] = ()  # in the order of the outputs; (): those of the training data
    seen: tuple[str, ...] = ()  # the labels of the training file, while other files are read
    separator: str = ""  # between the labels of a cell, as in the training file
    both_orders: bool = False  # whether to train on both (a, b) and (b, a)
    drop_malformed: bool = False  # whether to leave out (and report) rows with a wrong number of cells

    @override
    def with_options(self, options: TaskOptions) -> Self:
        columns, both_orders = options.text_column, options.both_orders
        if columns and self.name == "pair" and len(columns) != 2:
            fix = "Name two columns, or use `task` classification"
            raise ConfigError("a pair has two texts", key="text_column", fix=fix)
        if options.multi_label:
            fix = "Use `task` classification or pair"
            raise ConfigError(f"{self.name} has one answer per text", key="multi_label", fix=fix)
        task = super().with_options(options)
        return task if both_orders is None else replace(task, both_orders=both_orders)

    @property
    @override
    def label_names(self) -> tuple[str, ...]:
        return self.labels

    @override
    def rebuilt(self, labels: tuple[str, ...], config: Mapping[str, Any]) -> Task:
        return replace(self, labels=labels)

    @classmethod
    def like(cls, other: TextTask, **changes: Any) -> Self:
        """Returns a task of this class with the values of all `TextTask` fields copied from another."""
        values = {field.name: getattr(other, field.name) for field in fields(TextTask)}
        return cls(**(values | changes))

    def gold(self, value: Any, where: str) -> Any:
        """Parses a cell that is not missing. Raises DataError if it is invalid."""
        if isinstance(value, list | dict):
            fix = "Use `multi_label` if a text can have several labels"
            if isinstance(value, dict) and value:
                fix = f"Name one of its fields, such as `label_column` COLUMN.{next(iter(value))}"
            raise DataError(f"expected one label, not {value!r}", where=where, fix=fix)
        return str(value).strip()

    def normalise_golds(self, golds: list[Any]) -> tuple[list[Any], tuple[str, ...]]:
        """Returns the gold answers of a file, from all its parsed cells, and notes on how they were read."""
        return golds, ()

    def for_column(self, cells: Sequence[Any]) -> tuple[Self, tuple[str, ...]]:
        """Returns the task that reads a column with these cells, as other files too, and notes on that."""
        return self, ()

    @abstractmethod
    def target(self, example: Example) -> npt.NDArray[Any]:
        """Returns the target of the loss for an example."""

    @abstractmethod
    def answer(self, prediction: Prediction) -> str:
        """Returns the predicted answer as a string."""

    def unanswered(self, cells: Sequence[Any]) -> tuple[Collection[str], tuple[str, ...]]:
        """Returns the cells, apart from None, that mean that there is no answer, and notes on others."""
        return unanswered(cells, self.labels or self.seen, skip=self.skip_unlabelled)

    def answer_getter(self, table: Table, labelled: bool) -> tuple[str, Callable[[Mapping[str, Any]], Any]]:
        """Returns the name of the answers' column ("" without one), and a getter of a row's answer."""
        label = table.first_column(self.label)
        if label is None and labelled:
            raise table.missing_column(self.label, "`label_column`")
        return label or "", (lambda row: get_field(row, label)) if label else (lambda row: None)

    @override
    def read(self, path: Data, labelled: bool = True) -> Split:
        optional = () if labelled else self.label
        options = ReadOptions("", self.encoding, self.header, self.texts, optional, self.drop_malformed)
        table = open_table(path, options)
        names, text_columns = self._text_columns(table)
        label_column, get_answer = self.answer_getter(table, labelled)
        ids = [name for name in ID_COLUMNS if name not in (*text_columns, label_column)]
        id_column = table.first_column(ids)
        rows = list(table.rows)
        cells = [clean_answer(get_answer(row)) for _, row in rows]
        used = (*text_columns, label_column, *label_column.split(" and "), id_column or "")
        unread = [name for name in table.columns if name not in {n.partition(".")[0] for n in used} | {*used}]
        unread_texts = self._unread_texts(table, rows, text_columns, unread)
        unread.sort(key=lambda name: name not in unread_texts)
        task, column_notes = self.for_column(cells)
        absent, answer_notes = task.unanswered(cells)
        printed = [column for column in text_columns if _has_printed_lists(rows, column)]
        notes = [*table.notes, *column_notes, *answer_notes]
        notes += [f"column {column} has printed lists or bytes: their words are read" for column in printed]
        examples: list[Example] = []
        left_out: list[tuple[Place, Any]] = []
        for index, ((where, row), cell) in enumerate(zip(rows, cells, strict=True)):
            has_answer = cell is not None and (isinstance(cell, list | dict) or str(cell) not in absent)
            left_out += [] if has_answer else [(where, cell)]
            if labelled and not has_answer:
                continue
            gold = task.gold(cell, str(where)) if has_answer else None
            texts = tuple(_text(row, column, where, column in printed) for column in text_columns)
            examples.append(Example(row_id(row, id_column, index), where, texts, gold, row=row))
        counts = Counter(str(cell) for _, cell in left_out if cell not in (None, "", "nan", "NaN"))
        listed = ", ".join(f"{mark!r} {count}" for mark, count in counts.most_common(5))
        shown = f" ({listed})" if listed else ""
        if left_out and labelled and not self.skip_unlabelled:
            problem = f"no answer in column {label_column!r}{shown}"
            if len(left_out) > 1:
                problem = f"{len(left_out):,} of {len(rows):,} rows have {problem}; this is the first"
            fix = f"Fill it in, {'rename it if it is a label, ' * bool(listed)}or pass `skip_unlabelled`"
            raise DataError(problem, where=left_out[0][0], fix=fix)
        if left_out and (labelled or listed):
            verb = "left out" if labelled else "predicted, not scored"
            notes.append(f"{plural(len(left_out), 'row')} without an answer {verb}{shown}")
        if not examples:
            problem = "no row has an answer" if left_out else "no examples: the file has only a header"
            raise DataError(problem, where=path)
        if golds := [example.gold for example in examples if example.gold is not None]:
            try:
                golds, gold_notes = self.normalise_golds(golds)
            except DataError as error:
                raise DataError(error.what, where=path, fix=error.fix) from None
            notes += gold_notes
            remaining = iter(golds)
            examples = [e if e.gold is None else replace(e, gold=next(remaining)) for e in examples]
        seen = tuple({gold for gold in golds if isinstance(gold, str) and self.has_classes})
        remembered = {"separator": task.separator, "seen": seen}
        read = Split(tuple(examples), table.dropped, tuple(notes), names, label_column)
        return replace(read, unread=tuple(unread), unread_texts=len(unread_texts), remembered=remembered)

    def _text_columns(self, table: Table) -> tuple[Columns, list[str]]:
        """Returns the first names that the table has, and what it calls these columns itself."""
        for names in self.texts:
            columns = [column for name in names if (column := table.find_column(name)) is not None]
            if len(columns) == len(names):
                return names, columns
        sizes = {len(names) for names in self.texts}
        choose = "one" if sizes == {1} else "two, each" if sizes == {2} else "one or two, each"
        raise table.missing_column([" + ".join(names) for names in self.texts], "`text_column`", choose)

    def _unread_texts(
        self, table: Table, rows: Sequence[tuple[Place, Row]], texts: Sequence[str], others: Sequence[str]
    ) -> list[str]:
        """Returns the columns of texts that are not read; refuses to guess between one text and a pair."""
        columns = {name: [row.get(name) for _, row in rows[:100]] for name in others}
        unread = [name for name, values in columns.items() if _holds_texts(name, values, texts[0])]
        if unread and len(texts) == 1 and any(len(names) > 1 for names in self.texts):
            problem = f"several columns have texts: {', '.join([*texts, *unread])}"
            fix = f"Pass `text_column` {texts[0]} for single texts, or two columns for pairs"
            raise DataError(problem, where=table.source, fix=fix)
        return unread

    @override
    def can_score(self, example: Example) -> bool:
        try:
            self.target(example)
        except DataError:
            return False
        return not self.unseen_labels(example)

    @override
    def featurize(
        self, examples: Sequence[Example], tokens: Tokens, max_length: int, train: bool = False
    ) -> Windows:
        columns = [list(texts) for texts in zip(*(example.texts for example in examples), strict=True)]
        orders = [columns, columns[::-1]] if train and self.both_orders and len(columns) == 2 else [columns]
        encoded = [row for order in orders for row in tokens.join(order, max_length)]
        labelled = all(example.gold is not None for example in examples)
        return Windows(
            input_ids=[ids for ids, _, _ in encoded],
            token_type_ids=[types for _, types, _ in encoded],
            example=np.tile(np.arange(len(examples)), len(orders)),
            targets=[self.target(example) for example in examples] * len(orders) if labelled else None,
            texts=[pair for order in orders for pair in zip(*order, strict=True)],
            truncated=sum(is_truncated for _, _, is_truncated in encoded[: len(examples)]),
        )

    def gold_names(self, example: Example) -> tuple[str, ...]:
        """Returns the gold labels of an example as `labels` spells them; () for numbers."""
        return ()

    @override
    def unseen_labels(self, example: Example) -> tuple[str, ...]:
        return tuple(name for name in self.gold_names(example) if name not in self.labels)

    @override
    def shown_gold(self, example: Example) -> Any:
        return self.gold_names(example)[0]

    @override
    def label_counts(self, examples: Sequence[Example]) -> dict[str, int]:
        return tally_labels(self.labels, (name for each in examples for name in self.gold_names(each)))

    def label_index(self, name: str) -> int | None:
        """Returns the index of a label in any of its spellings; None if it is unknown."""
        return label_finder(self.labels)(name)

    def table(self, predictions: Sequence[Any], examples: Sequence[Example]) -> list[tuple[Cell, ...]]:
        """Returns the columns id, label, and the probability of each label."""
        rows: list[tuple[Cell, ...]] = [("id", "label", *(f"p({name})" for name in self.labels))]
        for example, prediction in zip(examples, predictions, strict=True):
            rows.append((example.id, self.answer(prediction), *map(float, prediction)))
        return rows


def _holds_texts(name: str, values: Sequence[Any], first_column: str) -> bool:
    """Whether most strings of a column are texts, or its name suggests the second text of a pair."""
    name, texts = name.casefold(), [value for value in values if isinstance(value, str) and value.strip()]
    num_long = sum(len(text.split()) > 2 or (len(text) > 5 and not text.isascii()) for text in texts)
    is_second = name in SECOND_TEXT_COLUMNS or name.startswith(first_column.casefold())
    return bool(texts) and (is_second or 2 * num_long > len(texts))


def _has_printed_lists(rows: Sequence[tuple[Place, Row]], column: str) -> bool:
    """Whether all texts of a column are printed lists of strings."""
    texts = [text for _, row in rows if isinstance(text := get_field(row, column), str) and text.strip()]
    lists = (printed_list(text) or [None] if text.lstrip()[0] in "[(ab" else [None] for text in texts)
    return bool(texts) and all(isinstance(item, str) for items in lists for item in items)


def _text(row: Row, column: str, where: Place, is_printed: bool) -> str:
    text = cell_text(row, column, where)
    return cell_text({column: printed_list(text)}, column, where) if is_printed and text.strip() else text


def natural_sort_key(label: str) -> tuple[int, float, str]:
    """Returns a sort key for labels: numbers by value, before words."""
    number = as_number(label)
    return (0, number, label) if math.isfinite(number) else (1, 0.0, label)
