"""Reads questions with their contexts and answers, from SQuAD's JSON (1.1, 2.0) or tables.

A table has the columns id, question, context and answers; SQuAD's JSON has them nested. `answers` is a list
of {"text", "answer_start"}; or {"text": [...], "answer_start": [...]}, as in the version on the Hugging Face
hub; or a string or a list of strings, which are searched for in the context. An empty list means that the
context does not answer the question. Offsets count Unicode code points, like Python's str. An answer that is
not at its offset is moved to its nearest occurrence; one that does not occur in its context is used for
scoring, but not for training. The numbers of both are reported. An offset outside the context is an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from electra.data.lines import Place
from electra.data.table_files import TABLES, Data, known_extension
from electra.data.tables import cell_text, printed_list, read_bytes, read_rows, refuse_nul, row_id
from electra.finetuning.labelled.examples import Example
from electra.foundation.errors import DataError

FORMATS = TABLES
Columns = tuple[str, str, str | None]
"""The columns of question, context and answers in a table; None if answers are not read."""


@dataclass(frozen=True)
class GoldAnswer:
    """An answer and its offset in the context."""

    text: str
    start: int | None  # None: the text is empty or does not occur in the context
    moved: bool = False  # whether the file gave another offset


def read_questions(source: Data, columns: Columns, labelled: bool) -> tuple[Example, ...]:
    """Returns an example for each question, from SQuAD's JSON or a table with these columns.

    Its texts are (question, context), its gold a tuple of `GoldAnswer`: () if the question is unanswerable,
    None if the file has no answers, which must not be if they are required (`labelled`). Raises DataError if
    the file is empty or in another format, an answer is invalid, or an id occurs twice.
    """
    articles = _articles(source) if known_extension(source, FORMATS) == ".json" else None
    rows = read_rows(source) if articles is None else _squad_rows(articles, columns, str(source))
    question, context, answers = columns
    examples: dict[str, Example] = {}
    for index, (where, row) in enumerate(rows):
        empty = None if labelled else source
        texts = (cell_text(row, question, where, empty), cell_text(row, context, where, empty))
        gold = None if answers is None else _gold(row, answers, texts[1], where)
        if gold is None and labelled:
            fix = f"The columns are {', '.join(row)}; name one with `label_column`"
            raise DataError(f"no column {answers!r}", where=where, fix=fix)
        example = Example(row_id(row, "id", index), where, texts, gold)
        if (earlier := examples.setdefault(example.id, example)) is not example:
            problem = f"duplicate id {example.id!r}, also used at {earlier.where}"
            raise DataError(problem, where=where, fix="Give each question its own id")
    if not examples:
        raise DataError("no questions in the file", where=source)
    return tuple(examples.values())


def _articles(source: Data) -> list[Any] | None:
    """Returns the articles of SQuAD's JSON; None if a .json file is a table."""
    try:
        document = json.loads(read_bytes(source).decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        fix = "Name a file with one object per line .jsonl"
        raise DataError(f"not valid JSON ({error})", where=source, fix=fix) from None
    match document:
        case {"data": [{"paragraphs": _}, *_] as articles}:
            return list(articles)
    return None


def _squad_rows(articles: list[Any], columns: Columns, source: str) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yields the questions of SQuAD's JSON as rows of a table, each with its place."""
    question, context, answers = columns
    for number, article in enumerate(articles):
        for place, paragraph in _entries(article, "paragraphs", f"{source}: data {number}"):
            refuse_nul(paragraph, place)
            passage = cell_text(paragraph, "context", place)
            for inner, entry in _entries(paragraph, "qas", place):
                where = Place(f"{source}: question {entry.get('id', inner.removeprefix(f'{source}: '))}")
                row = {**entry, question: cell_text(entry, "question", where), context: passage}
                yield where, row if answers is None else {**row, answers: entry.get("answers")}


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
    """Parses an answer and finds it in its context. Raises DataError if it is invalid."""
    entry = {"text": entry} if isinstance(entry, str) else entry
    if not isinstance(entry, dict):
        fix = 'Write {"text": ..., "answer_start": ...}'
        raise DataError(f"{entry!r} is not an answer", where=where, fix=fix)
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
