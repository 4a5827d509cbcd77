"""Combines predictions with the user's own columns, and formats them as tables."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from electra.data.tables.delimited import format_csv, format_tsv, read_tsv
from electra.finetuning.labelled.examples import Example
from electra.finetuning.labelled.tagged_sentences import WORD_FILES
from electra.finetuning.score.squad import normalise_answer
from electra.finetuning.task import Cell, Task, format_cell
from electra.foundation.errors import ConfigError
from electra.foundation.terminal_text import when

Format = Literal["tsv", "csv", "jsonl", "json", "words"]  # words: as files of a word per line are read
FORMATS: tuple[Format, ...] = get_args(Format)[:4]
ANSWERS = ("label", "score", "answer")  # possible names of the column of predictions in a task's table
CONTEXT = 12  # words shown before and after a tagged word
Record = dict[str, Any]


def as_records(table: Sequence[Sequence[Cell]]) -> list[Record]:
    """Returns the rows of a table as records; the first row is the header."""
    header, *rows = table
    return [{str(name): cell for name, cell in zip(header, row, strict=True)} for row in rows]


def read_records(content: bytes) -> list[Record]:
    """Returns the records of a predictions file (tsv), with numbers parsed."""
    header, *rows = read_tsv(content)
    types: dict[str, Callable[[str], Any]] = {"start": int, "end": int}
    types |= dict.fromkeys(("score", "p", "probability", "null_odds"), float)
    kinds = [types.get(name, float if name.startswith("p(") else str) for name in header]
    parsed = ([kind(cell) for kind, cell in zip(kinds, row, strict=True)] for row in rows)
    return as_records([header, *parsed])


def join_columns(answers: Sequence[Record], examples: Sequence[Example]) -> list[Record]:
    """Returns a record for each answer: the file's columns, then `predicted`, `probability` and others.

    A column of the file that is called like one of them gets the ending " (input)". Examples without a row of
    a table have the columns `id` and `text` instead. `answers` has a row for each example, or for each word
    of a tagged sentence, which gets its word's value of a column of lists with a value for each word.
    """
    records = []
    for row, example, word in _places(answers, examples):
        columns, first, added = example.row, {}, answer(row)
        if word is not None:
            size, first = len(example.texts), {"id": row["id"], "word": row["word"]}
            columns = {
                name: value[word] if isinstance(value, list) and len(value) == size else value
                for name, value in columns.items()
                if name not in first
            }
        elif not columns:
            columns = {"id": example.id, "text": example.texts[0]}
        renamed = {f"{name} (input)" if name in added else name: columns[name] for name in columns}
        records.append({**first, **renamed, **added})
    return records


def join_gold(answers: Sequence[Record], examples: Sequence[Example], task: Task) -> list[Record]:
    """Returns records like `join_columns`, with `text` and `gold`; those of words have no other columns."""
    records = []
    for row, example, word in _places(answers, examples):
        if word is not None:
            text = word_in_context(example.texts, word)
            gold = task.shown_gold(example)[word]
            shown = {"text": text, "word": row["word"], "gold": gold, **answer(row)}
            records.append({"id": row["id"], **shown})
            continue
        results = {"text": " | ".join(example.texts), "gold": task.shown_gold(example), **answer(row)}
        texts = next((names for names in task.texts if {*names} <= {*example.row}), ())
        label = next(({name} for name in task.label if name in example.row), ())
        left_out = {*texts, *label, "id", *results}
        others = {name: cell for name, cell in example.row.items() if name not in left_out}
        records.append({"id": example.id, **others, **results})
    return records


def _places(answers: Sequence[Record], examples: Sequence[Example]) -> Iterator[tuple[Record, Example, int | None]]:
    """Yields each row with its example and, in a table of words, the index of the word in its sentence."""
    places: list[tuple[Example, int | None]] = [(example, None) for example in examples]
    if answers and "word" in answers[0]:
        places = [(example, position) for example in examples for position in range(len(example.texts))]
    return ((row, *place) for row, place in zip(answers, places, strict=True))


def word_in_context(words: Sequence[str], position: int) -> str:
    """Returns the word at `position`, in double asterisks, with up to `CONTEXT` words on each side."""
    start, end = max(0, position - CONTEXT), min(len(words), position + CONTEXT + 1)
    shown_words = [*words[start:position], f"**{words[position]}**", *words[position + 1 : end]]
    return when(start > 0, "... ") + " ".join(shown_words) + when(end < len(words), " ...")


def is_wrong(record: Mapping[str, Any]) -> bool:
    """Whether the prediction in a record of `join_gold` is wrong; numbers must be exactly equal.

    To a question, any of the gold answers is right; if there are none, only the empty answer is.
    """
    gold, predicted = record["gold"], record["predicted"]
    if not isinstance(gold, list):
        return bool(gold != predicted)
    answers = [normalise_answer(answer) for answer in gold]  # as for SQuAD's exact match
    return bool(gold or predicted) and normalise_answer(predicted) not in answers


def answer(row: Mapping[str, Any]) -> Record:
    """Returns `predicted`, `probability` and the task's other cells of a row, without those that are None."""
    column = next((name for name in ANSWERS if name in row), None)
    if column is None:  # your own task may have other columns
        return dict(row)
    probability = row.get("probability", row.get("p", row.get(f"p({row[column]})")))
    others = {name: row[name] for name in row if name not in ("id", "word", "p", "probability", column)}
    cells = {"predicted": row[column], "probability": probability, **others}
    return {name: value for name, value in cells.items() if value is not None}


def format_of(out: Path | None, chosen: str | None) -> Format:
    """Returns the chosen format, else that of the file name's ending, else (for the terminal) tsv."""
    is_stream = out is None or (out.exists() and not out.is_file())  # the terminal, /dev/stdout
    ending = "tsv" if is_stream or out is None else out.suffix.lower().removeprefix(".")
    name = chosen or {"ndjson": "jsonl"}.get(ending, ending)
    if f".{name}" in WORD_FILES and not chosen:
        return "words"
    if name in FORMATS:
        return name
    problem = f"unrecognised file extension {out.suffix!r}" if out is not None and not chosen else name
    fix = f"End the name in {', '.join(f'.{format_}' for format_ in FORMATS)}, or pass `format`"
    raise ConfigError(problem, where=out, fix=fix)


def json_default(value: Any) -> Any:
    """Converts values of a DataFrame that `json.dumps` does not support: numpy numbers, arrays, dates."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def format_records(
    records: Sequence[Record], kind: Format, own: Collection[str] = (), copied: Collection[str] = ()
) -> bytes:
    """Returns the content of a file of records; only tsv and csv turn numbers and lists into strings.

    Numbers in the columns `own` need few digits; a csv has the columns `copied` as they are.
    """
    if kind in ("jsonl", "json"):
        lines = [json.dumps(record, ensure_ascii=False, default=json_default) for record in records]
        text = "".join(f"{line}\n" for line in lines)
        if kind == "json":
            text = "[\n" + ",\n".join(lines) + "\n]\n"
        return text.encode("utf-8", "replace")
    columns = list(dict.fromkeys(name for record in records for name in record))
    rows = [columns, *([_cell(record.get(name), name in own) for name in columns] for record in records)]
    return format_csv(rows, copied) if kind == "csv" else format_tsv(rows)


def _cell(value: Any, is_own: bool) -> str:
    if value is None:
        return ""
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=json_default)
    return format_cell(value) if is_own else str(value)
