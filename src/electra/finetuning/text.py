"""Base classes of tasks with one answer for a text or a pair of texts, read from tables.

As in the published code, MRPC and STS-B are trained on both orders of a pair (QQP is not).
"""

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from reprlib import repr as shortened
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from electra.data.tables.lines import Place
from electra.data.tables.table import (
    ID_COLUMNS,
    ReadOptions,
    Row,
    Table,
    cell_text,
    get_field,
    printed_list,
    row_id,
)
from electra.data.tables.table_files import Data
from electra.finetuning.answers import as_number, clean_answer, label_finder, note_invisible
from electra.finetuning.labelled.annotations import open_annotated, voided
from electra.finetuning.labelled.examples import Example, Split
from electra.finetuning.task import Cell, Columns, HeadKind, Task
from electra.finetuning.windows.features import Tokens, Windows
from electra.foundation.errors import DataError
from electra.foundation.terminal_text import plural, when

# Names of columns with the second text of a pair.
SECOND_TEXT_COLUMNS = tuple(str.split("hypothesis text_b text_pair text2 sentence2 sentence_b question2 passage"))
Prediction = npt.NDArray[np.float64]  # probabilities of the labels, or a number [1] in the data's unit


class Answers(NamedTuple):
    """The answers of a column, parsed."""

    golds: list[Any]  # None where a cell means that there is no answer
    notes: tuple[str, ...]  # how they were read
    remembered: Mapping[str, Any]  # fields of the task that reads the other files in the same way


@dataclass(frozen=True, kw_only=True)
class TextTask(Task):
    """A task with one answer for a text or a pair of texts."""

    head: ClassVar[HeadKind] = "classifier"
    problem_type: ClassVar[str]  # in a saved model's config.json

    seen: tuple[str, ...] = ()  # the labels of the training file, while other files are read
    separator: str = ""  # between the labels of a cell, as in the training file
    both_orders: bool = False  # whether to train on both (a, b) and (b, a)
    drop_malformed: bool = False  # whether to leave out (and report) rows with a wrong number of cells

    @classmethod
    def like(cls, other: Task, **changes: Any) -> Self:
        """Returns a task of this class with the values of all `TextTask` fields copied from another."""
        values = {field.name: getattr(other, field.name) for field in fields(TextTask)}
        return cls(**(values | changes))

    @abstractmethod
    def parse(self, cells: Sequence[Any], places: Sequence[Place], source: Data) -> Answers:
        """Returns the answers in the cells of a column of `source`. Raises DataError if one is invalid."""

    @abstractmethod
    def target(self, example: Example) -> npt.NDArray[Any]:
        """Returns the target of the loss for an example."""

    def answer(self, prediction: Prediction) -> str:
        """Returns the predicted answer as a string."""
        return self.labels[int(prediction.argmax())]

    def answer_getter(self, table: Table, labelled: bool) -> tuple[str, Callable[[Mapping[str, Any]], Any]]:
        """Returns the name of the answers' column ("" without one), and a getter of a row's answer."""
        label = table.first_column(self.label)
        if label is None and labelled:
            raise table.missing_column(self.label, "`label_column`")
        return label or "", (lambda row: get_field(row, label)) if label else (lambda row: None)

    @override
    def read(self, path: Data, labelled: bool = True) -> Split:
        optional = () if labelled else self.label
        options = ReadOptions("", self.header, self.texts, optional, self.drop_malformed)
        table = open_annotated(path, options, self.label)
        names, text_columns = self._text_columns(table)
        label_column, get_answer = self.answer_getter(table, labelled)
        ids = [name for name in ID_COLUMNS if name not in (*text_columns, label_column)]
        id_column = table.first_column(ids)
        rows = list(table.rows)
        labels = [table.find_column(name) or "" for name in label_column.split(" and ")]
        used = (*text_columns, label_column, *labels, id_column or "")
        void, marks, void_notes = voided(table, rows, used, labelled)
        known = {n.partition(".")[0] for n in used} | {*used, *marks}
        unread = [name for name in table.columns if name not in known]
        unread_texts = self._unread_texts(table, rows, text_columns, unread)
        unread.sort(key=lambda name: name not in unread_texts)
        places = [place for place, _ in rows]
        given = [None if index in void else get_answer(row) for index, (_, row) in enumerate(rows)]
        cells = list(map(clean_answer, given))
        answers = self.parse(cells, places, path)
        printed = [column for column in text_columns if _has_printed_lists(rows, column)]
        notes = [*table.notes, *void_notes, *note_invisible(given, cells), *answers.notes]
        notes += [f"column {column} has printed lists or bytes: their words are read" for column in printed]
        examples: list[Example] = []
        left_out: list[tuple[Place, Any]] = []
        for index, ((where, row), cell, gold) in enumerate(zip(rows, cells, answers.golds, strict=True)):
            left_out += [(where, cell)] if gold is None and index not in void else []
            if gold is not None or not labelled:
                empty = None if labelled else path
                texts = tuple(_text(row, name, where, empty, name in printed) for name in text_columns)
                examples.append(Example(row_id(row, id_column, index), where, texts, gold, row=row))
        counts = Counter(str(cell) for _, cell in left_out if cell not in (None, "", "nan", "NaN"))
        listed = ", ".join(f"{mark!r} {count}" for mark, count in counts.most_common(5))
        shown = when(listed, f" ({listed})")
        if left_out and labelled and not self.skip_unlabelled:
            problem = f"no answer in column {label_column!r}{shown}"
            if len(left_out) > 1:
                problem = f"{len(left_out):,} of {len(rows):,} rows have {problem}; this is the first"
            fix = f"Fill it in, {when(listed, 'rename it if it is a label, ')}or pass `skip_unlabelled`"
            raise DataError(problem, where=left_out[0][0], fix=fix)
        if left_out and (labelled or listed):
            verb = "left out" if labelled else "predicted, not scored"
            notes.append(f"{plural(len(left_out), 'row')} without an answer {verb}{shown}")
        if not examples:
            problem = "no examples: the file has only a header"
            problem = "no row has an answer" if left_out or void else problem
            raise DataError(problem, where=path)
        notes += self.notes_on_answers(examples)
        return Split(
            tuple(examples),
            table.dropped,
            tuple(notes),
            text_columns=names,
            label_column=label_column,
            unread=tuple(unread),
            unread_texts=len(unread_texts),
            remembered=answers.remembered,
        )

    def notes_on_answers(self, examples: Sequence[Example]) -> list[str]:
        """Returns a note on equal texts with different answers."""
        answers: dict[tuple[str, ...], Counter[Any]] = {}
        for example in examples:
            if example.gold is not None:
                texts = tuple(" ".join(text.split()) for text in example.texts)
                answers.setdefault(texts, Counter())[example.gold] += 1
        differing = [counts.total() for counts in answers.values() if len(counts) > 1]
        what = "text" if len(examples[0].texts) == 1 else "pair"
        verb = "occurs" if len(differing) == 1 else "occur"
        note = f"{plural(len(differing), what)} {verb} with different answers ({sum(differing):,} rows)"
        return [note] if differing else []

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
    def featurize(self, examples: Sequence[Example], tokens: Tokens, max_length: int, train: bool = False) -> Windows:
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

    @override
    def shown_gold(self, example: Example) -> Any:
        return self.gold_names(example)[0]

    @override
    def config_values(self, scores: Mapping[str, Any]) -> dict[str, Any]:
        return {"problem_type": self.problem_type}

    @override
    def unseen_labels(self, example: Example) -> tuple[str, ...]:
        return tuple(name for name in self.gold_names(example) if self.label_index(name) is None)

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
    name, texts = name.casefold(), [value for value in values if isinstance(value, str) and value.strip()]
    num_long = sum(len(text.split()) > 2 or (len(text) > 5 and not text.isascii()) for text in texts)
    is_second = name in SECOND_TEXT_COLUMNS or name.startswith(first_column.casefold())
    return bool(texts) and (is_second or 2 * num_long > len(texts))


def _has_printed_lists(rows: Sequence[tuple[Place, Row]], column: str) -> bool:
    texts = [text for _, row in rows if isinstance(text := get_field(row, column), str) and text.strip()]
    lists = (printed_list(text) or [None] if text.lstrip()[0] in "[(ab" else [None] for text in texts)
    return bool(texts) and all(isinstance(item, str) for items in lists for item in items)


def _text(row: Row, column: str, where: Place, empty: Data | None, is_printed: bool) -> str:
    text = cell_text(row, column, where, empty)
    return cell_text({column: printed_list(text)}, column, where) if is_printed and text.strip() else text


def parse_cells(
    cells: Sequence[Any], places: Sequence[Place], absent: Collection[str], parse: Callable[[Any, str], Any]
) -> list[Any]:
    """Returns what `parse` makes of each cell and its place; None for None and for the cells in `absent`."""
    lacks = [cell is None or (not isinstance(cell, list | dict) and str(cell) in absent) for cell in cells]
    rows = zip(cells, places, lacks, strict=True)
    return [None if is_absent else parse(cell, str(place)) for cell, place, is_absent in rows]


def one_answer(cell: Any, where: str) -> str:
    """Returns a cell with one answer as text. Raises DataError for several."""
    if isinstance(cell, list | dict):
        fix = "Use `multi_label` if a text can have several labels"
        if isinstance(cell, dict) and cell:
            fix = f"Name one of its fields, such as `label_column` COLUMN.{next(iter(cell))}"
        raise DataError(f"expected one label, not {shortened(cell)}", where=where, fix=fix)
    return str(cell).strip()


def natural_sort_key(label: str) -> tuple[int, float, str]:
    """Returns a sort key for labels: numbers by value, before words."""
    number = as_number(label)
    return (0, number, label) if math.isfinite(number) else (1, 0.0, label)
