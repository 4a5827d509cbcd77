"""Questions with their contexts and answers, from SQuAD's JSON (1.1, 2.0) or from jsonl with one a line.

SQuAD's JSON:  {"version": ..., "data": [{"title", "paragraphs": [{"context", "qas": [
                   {"id", "question", "answers", "is_impossible"}]}]}]}
jsonl:         {"id", "question", "context", "answers"}

`answers` is a list of {"text", "answer_start"}, or the columns of the hub's version, {"text": [...],
"answer_start": [...]}, or in jsonl a text or a list of texts, which are looked up in the context. An empty
list says that the context does not answer the question. Offsets count Unicode code points, as Python's str
does. An answer that does not stand at its offset is taken at the nearest place where it does; one that stands
nowhere in its context can be scored against, but not learned. Both are counted and reported, and an offset
outside of the context is an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from electra.data.rows import cell_text, known_ending, read_bytes, read_rows, refuse_nul, row_id
from electra.finetuning.labelled.examples import Example
from electra.foundation.errors import DataError

FORMATS = (".json", ".jsonl", ".ndjson", ".parquet", ".arrow", ".feather")
Columns = tuple[
    str, str, str | None
]  # what jsonl calls question, context and answers; None: answers are not read


@dataclass(frozen=True)
class GoldAnswer:
    text: str
    start: int | None  # where it stands in the context; None: nowhere
    moved: bool = False  # not where the file says


def read_questions(path: Path, columns: Columns, labelled: bool) -> tuple[Example, ...]:
    """One example a question: its texts are question and context, its gold the answers (None without)."""
    ending = known_ending(path, FORMATS)
    found = (
        _squad(path, columns, labelled) if ending == ".json" else _lines(read_rows(path), columns, labelled)
    )
    examples: dict[str, Example] = {}
    for example in found:
        if (earlier := examples.setdefault(example.id, example)) is not example:
            what = f"the id {example.id!r} is also that of {earlier.where}"
            raise DataError(what, where=example.where, fix="Give each question its own id")
    if not examples:
        raise DataError("no questions in the file", where=path)
    return tuple(examples.values())


def _squad(path: Path, columns: Columns, labelled: bool) -> Iterator[Example]:
    content = read_bytes(path)
    try:
        document = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"not valid JSON ({error})", where=path, fix="One object a line is .jsonl") from None
    if isinstance(document, list):  # without the object around them
        document = {"data": document}
    articles = list(_entries(document, "data", str(path)))
    first = articles[0][1] if articles else {}
    if "qas" in first:  # without the articles around them
        articles = [(str(path), {"paragraphs": document["data"]})]
    elif "paragraphs" not in first and columns[0] in first:  # rows
        yield from _lines(articles, columns, labelled)
        return
    answers = "answers" if columns[2] else None
    for title, article in articles:
        for number, paragraph in _entries(article, "paragraphs", title):
            refuse_nul(paragraph, number)
            context = cell_text(paragraph, "context", number)
            for place, question in _entries(paragraph, "qas", number):
                name = (
                    str(question["id"]) if question.get("id") is not None else place.removeprefix(f"{path}: ")
                )
                where = f"{path}: question {name}"
                texts = (cell_text(question, "question", where), context)
                yield Example(name, where, texts, _gold(question, answers, context, where, labelled))


def _entries(parent: Any, field: str, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects in a list of SQuAD's JSON, each with its place: "dev.json: data 0 paragraphs 3"."""
    entries = parent.get(field) if isinstance(parent, dict) else None
    if not isinstance(entries, list):
        raise DataError(
            f"no list {field!r}: this is not SQuAD's JSON",
            where=where,
            fix="See docs/finetuning-data.md, Question answering",
        )
    for number, entry in enumerate(entries):
        place = f"{where}{'' if ': ' in where else ':'} {field} {number}"
        if not isinstance(entry, dict):
            raise DataError("not an object", where=place)
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
    if field is None:
        return None
    impossible, value = row.get("is_impossible", False), row.get(field)
    if value is None and not impossible:
        if labelled:
            raise DataError(
                f"no {field!r}",
                where=where,
                fix=f"It has {', '.join(row)}; name a column with `label_column`",
            )
        return None
    if isinstance(value, dict) and all(isinstance(value.get(key), list) for key in ("text", "answer_start")):
        if len(value["text"]) != len(value["answer_start"]):
            what = f"{len(value['text'])} answers and {len(value['answer_start'])} places where they start"
            raise DataError(what, where=where, fix="Give one place for each answer")
        value = [
            {"text": text, "answer_start": start}
            for text, start in zip(value["text"], value["answer_start"], strict=True)
        ]
    entries = value if isinstance(value, list) else [] if value is None else [value]
    if impossible and entries:
        raise DataError("has answers and is_impossible", where=where, fix="Remove one of the two")
    return tuple(_answer(entry, context, where) for entry in entries)


def _answer(entry: Any, context: str, where: str) -> GoldAnswer:
    """Find an answer in its context."""
    if isinstance(entry, str):
        entry = {"text": entry}
    if not isinstance(entry, dict):
        raise DataError(
            f"{entry!r} is not an answer", where=where, fix='Write {"text": ..., "answer_start": ...}'
        )
    text, start = cell_text(entry, "text", where), cast(Any, entry.get("answer_start"))
    with suppress(TypeError, ValueError, OverflowError):  # 11.0 and "11" are places, too
        start = int(start) if not isinstance(start, bool) and float(start) == int(float(start)) else start
    if start is None:
        place = context.find(text)
        return GoldAnswer(text, place if place >= 0 and text else None)
    if not isinstance(start, int) or isinstance(start, bool) or not 0 <= start <= len(context) - len(text):
        what = (
            f"answer_start {start!r} with {len(text)} characters lies outside of the context, which has"
            f" {len(context)}"
        )
        raise DataError(what, where=where, fix="Offsets count characters from 0")
    if text and context.startswith(text, start):
        return GoldAnswer(text, start)
    before, after = context.rfind(text, 0, start + len(text)), context.find(text, start)
    places = [place for place in (before, after) if place >= 0 and text]
    return (
        GoldAnswer(text, min(places, key=lambda place: abs(place - start)), moved=True)
        if places
        else GoldAnswer(text, None)
    )
