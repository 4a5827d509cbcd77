"""Reads questions with their contexts and answers, from SQuAD's JSON (1.1, 2.0) or tables.

SQuAD's JSON may also be a list of articles or paragraphs, or have one on each line (MRQA). What columns and
cells may hold, and what becomes of answers that are not at their offset, is in docs/finetuning-data.md.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from reprlib import repr as shortened
from typing import Any

from electra.data.tables.lines import Place
from electra.data.tables.table import Row, cell_text, printed_list, read_bytes, refuse_nul, row_id
from electra.data.tables.table_files import TABLES, Data, known_extension
from electra.finetuning.labelled.annotations import open_annotated, voided
from electra.finetuning.labelled.examples import Example
from electra.foundation.errors import DataError

FORMATS = TABLES
ANSWERS = ("answer", "answer_text", "text")  # other names of the column `answers`
Columns = tuple[str, str, str | None]
"""The columns of question, context and answers in a table; None if answers are not read."""


@dataclass(frozen=True)
class GoldAnswer:
    """An answer and its offset in the context."""

    text: str
    start: int | None  # None: the text is empty or does not occur in the context
    moved: bool = False  # whether the file gave another offset


def read_questions(
    source: Data, columns: Columns, labelled: bool, notes: list[str] | None = None
) -> tuple[Example, ...]:
    """Returns an example for each question, from SQuAD's JSON or a table with these columns.

    Its texts are (question, context), its gold a tuple of `GoldAnswer`: () if the question is unanswerable,
    None if the file has no answers, which must not be if they are required (`labelled`). Adds to `notes` how
    the file was read. Raises DataError if the file is empty or in another format, an answer is invalid, or an
    id occurs twice.
    """
    question, context, answers = columns
    rows = _rows(source, columns, labelled, [] if notes is None else notes)
    if answers is not None:
        answers = _answers_column(answers, {name for _, row in rows for name in row})
    examples: dict[str, Example] = {}
    for index, (where, row) in enumerate(rows):
        empty = None if labelled else source
        texts = (cell_text(row, question, where, empty), cell_text(row, context, where, empty))
        gold = None if answers is None else _gold(row, answers, texts[1], where)
        if gold is None and labelled:
            others = [name for name in row if name not in (question, context, "id")]
            fix = f"The other columns are {', '.join(others) or 'none'}; name one with `label_column`"
            raise DataError(f"no column {answers!r}", where=where, fix=fix)
        example = Example(row_id(row, "id", index), where, texts, gold)
        if (earlier := examples.setdefault(example.id, example)) is not example:
            other = f"at {earlier.where}"
            if str(earlier.where) == str(where):
                other = f"for {earlier.texts[0][:40]!r}"
            problem, fix = f"duplicate id {example.id!r}, also used {other}", "Change one, or delete all ids"
            raise DataError(problem, where=where, fix=fix)
    if not examples:
        raise DataError("no questions in the file", where=source)
    return tuple(examples.values())


def _rows(source: Data, columns: Columns, labelled: bool, notes: list[str]) -> list[tuple[Place, Row]]:
    articles = None
    if known_extension(source, FORMATS) == ".json":
        with suppress(ValueError, RecursionError):  # else it may have an object on each line
            articles = _articles(json.loads(read_bytes(source).decode("utf-8-sig")))
    if articles is None:
        table = open_annotated(source)
        rows = [(place, row) for place, row in table.rows if [*row] != ["header"]]  # as in MRQA's files
        notes += table.notes
        articles = _articles([row for _, row in rows])
    if articles is not None:
        return [*_squad_rows(articles, columns, str(source))]
    void, _, void_notes = voided(table, rows, columns, labelled)
    notes += void_notes
    if labelled:
        return [row for index, row in enumerate(rows) if index not in void]
    for index in void:
        rows[index][1].update(dict.fromkeys({columns[2] or ANSWERS[0], *ANSWERS} & rows[index][1].keys()))
    return rows


def _answers_column(wanted: str, names: set[str]) -> str:
    usual = ANSWERS if wanted == "answers" else ()
    names = names if "answer_start" in names else names - {"text"}
    return next((name for name in (wanted, *usual) if name in names), wanted)


def _articles(document: Any) -> list[Any] | None:
    """Returns the articles of SQuAD's JSON, or of its paragraphs; None for any other document."""
    items = document.get("data", [document]) if isinstance(document, dict) else document
    match items:
        case [{"paragraphs": _}, *_]:
            return list(items)
        case [{"qas": _}, *_]:
            return [{"paragraphs": items}]
    return None


def _squad_rows(articles: list[Any], columns: Columns, source: str) -> Iterator[tuple[Place, dict[str, Any]]]:
    question, context, answers = columns
    for number, article in enumerate(articles):
        for place, paragraph in _entries(article, "paragraphs", f"{source}: data {number}"):
            refuse_nul(paragraph, place)
            passage = cell_text(paragraph, "context", place)
            for inner, entry in _entries(paragraph, "qas", place):
                where = Place(f"{source}: question {entry.get('id', inner.removeprefix(f'{source}: '))}")
                row = {"id": entry.get("qid")} | entry
                row |= {question: cell_text(entry, "question", where), context: passage}
                is_renamed = answers is not None and answers != "answers" and "answers" in entry
                yield where, {**row, str(answers): entry["answers"]} if is_renamed else row


def _entries(parent: Any, field: str, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (place, object) for a list in SQuAD's JSON, with places like "dev.json: data 0 paragraphs 3"."""
    entries = parent.get(field) if isinstance(parent, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        fix = "See docs/finetuning-data.md, Question answering"
        raise DataError(f"not SQuAD's JSON: no list {field!r} of objects", where=where, fix=fix)
    yield from ((f"{where} {field} {index}", entry) for index, entry in enumerate(entries))


def _gold(row: Mapping[str, Any], field: str, context: str, where: object) -> tuple[GoldAnswer, ...] | None:
    """Returns the answers in a row: () for an unanswerable question, None if the row has none."""
    is_impossible, value = row.get("is_impossible", False), row.get(field)
    if isinstance(value, str) and value.lstrip()[:1] in {"", "[", "{"}:  # in a csv: empty, or printed
        value = (printed_list(value) or value) if value.strip() else []
    start = row.get("answer_start")
    if isinstance(value, str) and start not in (None, ""):
        whole = re.fullmatch(r"(-?\d+)(\.0)?", str(start))
        value = {"text": value, "answer_start": int(whole[1]) if whole else start}
    if isinstance(value, dict) and all(isinstance(value.get(key), list) for key in ("text", "answer_start")):
        texts, starts = value["text"], value["answer_start"]
        if len(texts) != len(starts):
            problem = f"{len(texts)} answers but {len(starts)} values of answer_start"
            raise DataError(problem, where=where, fix="Give one offset for each answer")
        value = [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]
    entries = value if isinstance(value, list) else [] if value is None else [value]
    if is_impossible and entries:
        problem = "a question with answers is marked is_impossible"
        raise DataError(problem, where=where, fix="Remove one of the two")
    if value is None and not is_impossible:
        return None
    return tuple(_answer(entry, context, where) for entry in entries)


def _answer(entry: Any, context: str, where: object) -> GoldAnswer:
    entry = {"text": entry} if isinstance(entry, str) else entry
    if not isinstance(entry, dict):
        fix = 'Write {"text": ..., "answer_start": ...}'
        raise DataError(f"{shortened(entry)} is not an answer", where=where, fix=fix)
    text, start = cell_text(entry, "text", where), entry.get("answer_start")
    if start is None:
        found = context.find(text)
        return GoldAnswer(text, found if found >= 0 and text else None)
    is_whole = isinstance(start, int | float) and start == start // 1
    if isinstance(start, bool) or not is_whole or not 0 <= start <= len(context) - len(text):
        size = f"an answer of {len(text)} characters in a context of {len(context)}"
        problem = f"answer_start {start!r} is out of range ({size})"
        raise DataError(problem, where=where, fix="Count characters from 0")
    start = int(start)
    nearby = (context.rfind(text, 0, start + len(text)), context.find(text, start))
    offsets = [offset for offset in nearby if offset >= 0 and text]
    nearest = min(offsets, key=lambda offset: abs(offset - start), default=None)
    return GoldAnswer(text, nearest, moved=nearest not in (None, start))
