"""Predictions as people read them: each beside the user's own columns, in the formats of tables."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from electra.data.delimited import format_csv, format_tsv, read_tsv
from electra.finetuning.labelled.examples import Example
from electra.finetuning.metrics.squad import plain_form
from electra.finetuning.tasks.parts.task import Cell, Task, as_cell
from electra.foundation.errors import ConfigError, DataError
from electra.foundation.machine import library

Format = Literal["tsv", "csv", "jsonl", "parquet", "json"]
FORMATS: tuple[Format, ...] = get_args(Format)
ANSWERS = ("label", "score", "answer")  # what the tables of the tasks call what is predicted
AROUND = 12  # words before and after a tagged one that are shown with it
Record = dict[str, Any]


def as_records(table: Sequence[Sequence[Cell]]) -> list[Record]:
    """A table, header first, as records."""
    header, *rows = table
    return [{str(name): cell for name, cell in zip(header, row, strict=True)} for row in rows]


def read_records(content: bytes) -> list[Record]:
    """The records of a predictions file, in which numbers are numbers."""
    header, *rows = read_tsv(content)
    kinds = [_kind(name) for name in header]
    return as_records([header, *([kind(c) for c, kind in zip(row, kinds, strict=True)] for row in rows)])


def _kind(column: str) -> Callable[[str], Any]:
    if column in ("start", "end"):
        return int
    numeric = column in ("score", "p", "probability", "null_odds") or column.startswith("p(")
    return float if numeric else str


def join(answers: Sequence[Record], examples: Sequence[Example]) -> list[Record]:
    """A record for each answer: the columns of its file, then `predicted`, `probability` and the rest.

    answers: the rows of the task's table, one for each example; or of tagged sentences one for each word,
        with the word's cell where a column has one for each.
    """
    if answers and "word" in answers[0]:
        return [_of_word(row, example, place) for row, example, place in _words(answers, examples)]
    joined = []
    for row, example in zip(answers, examples, strict=True):
        found, own = _answer(row), example.row or {"id": example.id, "text": example.texts[0]}
        joined.append({**{name: own[name] for name in own if name not in found}, **found})
    return joined


def judged(answers: Sequence[Record], examples: Sequence[Example], task: Task) -> list[Record]:
    """`join`, with the text and the gold answer of each example (of each word, in tagged sentences) in place
    of the columns that they come from.
    """
    if answers and "word" in answers[0]:
        return [
            {
                "id": row["id"],
                "text": in_sentence(example.texts, place),
                "word": row["word"],
                "gold": example.gold[place],
                **_answer(row),
            }
            for row, example, place in _words(answers, examples)
        ]
    made = []
    for row, example in zip(answers, examples, strict=True):
        used = {*task.columns_read(example.row), "id"}
        own = {name: example.row[name] for name in example.row if name not in used}
        told = {"text": " | ".join(example.texts), "gold": task.gold_told(example), **_answer(row)}
        made.append({"id": example.id, **{name: own[name] for name in own if name not in told}, **told})
    return made


def _words(answers: Sequence[Record], examples: Sequence[Example]) -> Iterator[tuple[Record, Example, int]]:
    """The row of each word, with its sentence and its place there."""
    places = ((example, place) for example in examples for place in range(len(example.texts)))
    return ((row, *at) for row, at in zip(answers, places, strict=True))


def _of_word(row: Record, example: Example, place: int) -> Record:
    answer, words = _answer(row), len(example.texts)
    own = {
        name: value[place] if isinstance(value, list) and len(value) == words else value
        for name, value in example.row.items()
        if name not in answer and name not in ("id", "word")
    }
    return {"id": row["id"], "word": row["word"], **own, **answer}


def in_sentence(words: Sequence[str], place: int) -> str:
    """A word, marked, with the words around it."""
    first, end = max(0, place - AROUND), min(len(words), place + AROUND + 1)
    shown = [*words[first:place], f"**{words[place]}**", *words[place + 1 : end]]
    return " ".join([*["..."] * (first > 0), *shown, *["..."] * (end < len(words))])


def is_wrong(record: Mapping[str, Any]) -> bool:
    """Whether a record that `judged` made is a mistake: no gold answer met, or any number."""
    gold, said = record["gold"], record["predicted"]
    if not isinstance(gold, list):
        return bool(gold != said)
    answers = [plain_form(answer) for answer in gold]  # as exact match compares them
    return bool(gold or said) and plain_form(said) not in answers


def _answer(row: Mapping[str, Any]) -> Record:
    named = next((name for name in ANSWERS if name in row), None)
    if named is None:  # of a task that names its columns otherwise
        return dict(row)
    probability = row.get(f"p({row[named]})", row.get("p", row.get("probability")))
    found = {"predicted": row[named], "probability": probability}
    rest = {name: row[name] for name in row if name not in ("id", "word", "p", "probability", named)}
    return {name: value for name, value in {**found, **rest}.items() if value is not None}


def format_of(out: Path | None, chosen: str | None) -> Format:
    """As chosen, else by the file's ending; a terminal gets tsv."""
    plain = out is None or (out.exists() and not out.is_file())  # the terminal, /dev/stdout
    ending = "tsv" if plain or out is None else out.suffix.lower().removeprefix(".")
    name = chosen or {"ndjson": "jsonl"}.get(ending, ending)
    found = next((known for known in FORMATS if known == name), None)
    if found is None:
        what = f"unrecognised file extension {out.suffix!r}" if out is not None and not chosen else name
        fix = f"End the name in {', '.join(f'.{known}' for known in FORMATS)}, or pass `format`"
        raise ConfigError(what, where=out, fix=fix)
    return found


def plain(value: Any) -> Any:
    """For JSON: numpy's numbers and arrays, dates and what else a DataFrame holds."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def write(records: Sequence[Record], kind: Format) -> bytes:
    """The records as a file of this kind; cells of tsv and csv are texts, those of the others typed."""
    if kind == "parquet":
        return _parquet(records)
    if kind in ("jsonl", "json"):
        lines = [json.dumps(record, ensure_ascii=False, default=plain) for record in records]
        text = "".join(f"{line}\n" for line in lines)
        if kind == "json":
            text = "[\n" + ",\n".join(lines) + "\n]\n"
        return text.encode("utf-8", "replace")
    columns = list(dict.fromkeys(name for record in records for name in record))
    rows = [columns, *([_cell(record.get(name)) for name in columns] for record in records)]
    return (format_csv if kind == "csv" else format_tsv)(rows)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=plain)
    return as_cell(value)


def _parquet(records: Sequence[Record]) -> bytes:
    pyarrow = library("pyarrow.parquet", "data", "parquet files", DataError)
    content = io.BytesIO()
    try:
        columns = dict.fromkeys(name for record in records for name in record)
        rows = [{name: record.get(name) for name in columns} for record in records]
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), content)
    except (pyarrow.ArrowException, OverflowError) as error:
        what = f"the columns do not fit a parquet file ({str(error).splitlines()[0]})"
        raise DataError(what, fix="Use `format` jsonl") from None
    return content.getvalue()
