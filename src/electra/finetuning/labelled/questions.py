"""Reads questions with their contexts and answers, from SQuAD's JSON (1.1, 2.0) or jsonl.

SQuAD's JSON:  {"version": ..., "data": [{"title", "paragraphs": [{"context", "qas": [
                   {"id", "question", "answers", "is_impossible"}]}]}]}
jsonl:         {"id", "question", "context", "answers"}

`answers` is a list of {"text", "answer_start"}; or {"text": [...], "answer_start": [...]}, as in the version
on the Hugging Face hub; or, in jsonl, a string or a list of strings, which are searched for in the context.
An empty list means that the context does not answer the question. Offsets count Unicode code points, like
Python's str. An answer that is not at its offset is moved to its nearest occurrence; one that does not occur
in its context is used for scoring, but not for training. The numbers of both are reported. An offset outside
the context is an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from electra.data.rows import read_bytes, read_rows, refuse_nul
from electra.data.table_files import known_extension
from electra.data.tables import cell_text, row_id
from electra.finetuning.labelled.examples import Example
from electra.foundation.errors import DataError

FORMATS = (".json", ".jsonl", ".ndjson", ".parquet", ".arrow", ".feather")
Columns = tuple[str, str, str | None]
"""The columns of question, context and answers in jsonl; None if answers are not read."""


@dataclass(frozen=True)
class GoldAnswer:
    """An answer and its offset in the context."""

    text: str
    start: int | None  # None: the text is empty or does not occur in the context
    moved: bool = False  # whether the file gave another offset


def read_questions(path: Path, columns: Columns, labelled: bool) -> tuple[Example, ...]:
    """Returns an example for each question.

    Args:
        path: the file.
        columns: the columns of a file with one question per line.
        labelled: whether answers are required.

    Returns:
        Examples with the texts (question, context) and a tuple of `GoldAnswer` as gold: () if the question is
        unanswerable, None if the file has no answers.

    Raises:
        DataError: the file is empty or in another format, an answer is invalid, or an id occurs twice.
    """
    if known_extension(path, FORMATS) == ".json":
        questions = _squad(path, columns, labelled)
    else:
        questions = _lines(read_rows(path), columns, labelled)
    examples: dict[str, Example] = {}
    for example in questions:
        if (earlier := examples.setdefault(example.id, example)) is not example:
            problem = f"duplicate id {example.id!r}, also used at {earlier.where}"
            raise DataError(problem, where=example.where, fix="Give each question its own id")
    if not examples:
        raise DataError("no questions in the file", where=path)
    return tuple(examples.values())


def _squad(path: Path, columns: Columns, labelled: bool) -> Iterator[Example]:
    content = read_bytes(path)
    try:
        document = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        fix = "Name a file with one object per line .jsonl"
        raise DataError(f"not valid JSON ({error})", where=path, fix=fix) from None
    if isinstance(document, list):  # a bare list of articles
        document = {"data": document}
    articles = list(_entries(document, "data", str(path)))
    first_object = articles[0][1] if articles else {}
    if "qas" in first_object:  # paragraphs without articles
        articles = [(str(path), {"paragraphs": document["data"]})]
    elif "paragraphs" not in first_object and columns[0] in first_object:  # one object for each question
        yield from _lines(articles, columns, labelled)
        return
    answers = "answers" if columns[2] else None
    for article_place, article in articles:
        for paragraph_place, paragraph in _entries(article, "paragraphs", article_place):
            refuse_nul(paragraph, paragraph_place)
            context = cell_text(paragraph, "context", paragraph_place)
            for place, question in _entries(paragraph, "qas", paragraph_place):
                identifier = question.get("id")
                name = place.removeprefix(f"{path}: ") if identifier is None else str(identifier)
                where = f"{path}: question {name}"
                texts = (cell_text(question, "question", where), context)
                yield Example(name, where, texts, _gold(question, answers, context, where, labelled))


def _entries(parent: Any, field: str, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (place, object) for a list in SQuAD's JSON, with places like "dev.json: data 0 paragraphs 3"."""
    entries = parent.get(field) if isinstance(parent, dict) else None
    if not isinstance(entries, list):
        fix = "See docs/finetuning-data.md, Question answering"
        raise DataError(f"not SQuAD's JSON: no list {field!r}", where=where, fix=fix)
    for index, entry in enumerate(entries):
        place = f"{where}{'' if ': ' in where else ':'} {field} {index}"
        if not isinstance(entry, dict):
            raise DataError("expected an object", where=place)
        yield place, entry


def _lines(
    rows: Iterable[tuple[str, Mapping[str, Any]]], columns: Columns, labelled: bool
) -> Iterator[Example]:
    question, context, answers = columns
    for index, (where, row) in enumerate(rows):
        texts = (cell_text(row, question, where), cell_text(row, context, where))
        yield Example(row_id(row, "id", index), where, texts, _gold(row, answers, texts[1], where, labelled))


def _gold(
    row: Mapping[str, Any], field: str | None, context: str, where: str, labelled: bool
) -> tuple[GoldAnswer, ...] | None:
    """Returns the answers in a row: () for an unanswerable question, None if the row has none."""
    if field is None:
        return None
    is_impossible, value = row.get("is_impossible", False), row.get(field)
    if value is None and not is_impossible:
        if labelled:
            fix = f"The columns are {', '.join(row)}; name one with `label_column`"
            raise DataError(f"no column {field!r}", where=where, fix=fix)
        return None
    if isinstance(value, dict) and all(isinstance(value.get(key), list) for key in ("text", "answer_start")):
        if len(value["text"]) != len(value["answer_start"]):
            problem = f"{len(value['text'])} answers but {len(value['answer_start'])} values of answer_start"
            raise DataError(problem, where=where, fix="Give one offset for each answer")
        value = [
            {"text": text, "answer_start": start}
            for text, start in zip(value["text"], value["answer_start"], strict=True)
        ]
    entries = value if isinstance(value, list) else [] if value is None else [value]
    if is_impossible and entries:
        raise DataError(
            "a question with answers is marked is_impossible", where=where, fix="Remove one of the two"
        )
    return tuple(_answer(entry, context, where) for entry in entries)


def _answer(entry: Any, context: str, where: str) -> GoldAnswer:
    """Parses an answer and finds it in its context. Raises DataError if it is invalid."""
    if isinstance(entry, str):
        entry = {"text": entry}
    if not isinstance(entry, dict):
        fix = 'Write {"text": ..., "answer_start": ...}'
        raise DataError(f"{entry!r} is not an answer", where=where, fix=fix)
    text, start = cell_text(entry, "text", where), cast(Any, entry.get("answer_start"))
    with suppress(TypeError, ValueError, OverflowError):  # 11.0 and "11" are offsets, too
        start = int(start) if not isinstance(start, bool) and float(start) == int(float(start)) else start
    if start is None:
        offset = context.find(text)
        return GoldAnswer(text, offset if offset >= 0 and text else None)
    if not isinstance(start, int) or isinstance(start, bool) or not 0 <= start <= len(context) - len(text):
        size = f"an answer of {len(text)} characters in a context of {len(context)}"
        problem = f"answer_start {start!r} is out of range ({size})"
        raise DataError(problem, where=where, fix="Count characters from 0")
    if text and context.startswith(text, start):
        return GoldAnswer(text, start)
    before, after = context.rfind(text, 0, start + len(text)), context.find(text, start)
    offsets = [offset for offset in (before, after) if offset >= 0 and text]
    if not offsets:
        return GoldAnswer(text, None)
    return GoldAnswer(text, min(offsets, key=lambda offset: abs(offset - start)), moved=True)
