"""Rows of JSON files, streamed: one object per line, a list of objects, or columns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

from electra.data.tables import ReadOptions, Rows
from electra.foundation.errors import DataError

MAX_VALUE_CHARACTERS = 1 << 28  # characters of a JSON value; the outermost list may be longer
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # an escape that is half of a pair, or a lone surrogate
_SEPARATORS = re.compile(r"[\s,]*")  # between JSON values


def json_line_rows(path: Path, lines: Iterable[str], options: ReadOptions) -> Rows:
    """Yields the rows of a file with one JSON object per line; empty lines are skipped.

    Raises:
        DataError: a line is not a JSON object, unless `options.on_broken` is set.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            fix = "Write one object per line"
            options.leave_out(DataError(f"not valid JSON ({error})", where=where, fix=fix))
            continue
        if options.only and isinstance(row, str):
            row = {options.only: row}
        if not isinstance(row, dict):
            options.leave_out(DataError("not a JSON object", where=where, fix="Write one object per line"))
            continue
        yield where, row if options.lenient or not _SURROGATE.search(line) else without_surrogates(row)


def json_rows(path: Path, lines: Iterable[str], options: ReadOptions) -> Rows:
    """Yields the rows of a JSON file in any of the supported layouts; see `electra.data.rows`.

    Raises:
        DataError: the file is not valid JSON, has no rows or columns, or has a row that is not an object
            while `options.on_broken` is None.
    """
    pieces = _pieces(lines)
    beginning = next(pieces, "")
    values = _values(chain([beginning], pieces), path)
    first_two = list(islice(values, 2))
    is_list = beginning.lstrip("\ufeff \t\r\n").startswith("[")
    if len(first_two) == 1 and isinstance(first_two[0], dict) and not is_list:
        rows: Iterator[Any] = _rows_of_object(first_two[0], path)
    else:
        rows = chain(first_two, values)
    for number, value in enumerate(rows, 1):
        where = f"{path}: row {number}"
        row = {options.only: value} if options.only and isinstance(value, str) else value
        if not isinstance(row, dict):
            options.leave_out(DataError("not a JSON object", where=where, fix="Write a list of objects"))
            continue
        yield where, row if options.lenient else without_surrogates(row)


def _values(pieces: Iterator[str], path: Path) -> Iterator[Any]:
    """Yields the values of a JSON list, or consecutive JSON values, as pieces of the text arrive."""
    decode = json.JSONDecoder().raw_decode
    text, position, in_list = "", 0, False
    line = 1  # the line of the file where `text` begins
    while True:
        gap = _SEPARATORS.match(text, position)
        position = gap.end() if gap else position
        if position == len(text):
            line += text.count("\n")
            text, position = next(pieces, ""), 0
            if not text:
                if in_list:
                    raise DataError("not valid JSON (the list is not closed)", where=path)
                return
            continue
        if text[position] in "[]" and in_list == (text[position] == "]"):
            in_list, position = not in_list, position + 1
            if not in_list:
                if rest := (text[position:] + "".join(pieces)).strip():
                    raise DataError(f"not valid JSON ({rest[:20]!r} after the list)", where=path)
                return
            continue
        try:
            value, position = decode(text, position)
        except (ValueError, RecursionError) as error:  # the value may continue in the next piece
            where = f"{path}:{line + getattr(error, 'lineno', 1) - 1}"
            line += text.count("\n", 0, position)
            added = "".join(islice(pieces, max(1, (len(text) - position) >> 16)))
            text, position = text[position:] + added, 0
            if not added or len(text) > MAX_VALUE_CHARACTERS or isinstance(error, RecursionError):
                raise DataError(f"not valid JSON ({error})", where=where) from None
            continue
        yield value


def _pieces(lines: Iterable[str]) -> Iterator[str]:
    """Yields the joined lines in pieces of at least 64 Ki characters, except the last."""
    size, pending = 0, []
    for line in lines:
        pending.append(line)
        size += len(line)
        if size >= 1 << 16:
            yield "".join(pending)
            size, pending = 0, []
    if pending:
        yield "".join(pending)


def _rows_of_object(document: Mapping[str, Any], path: Path) -> Iterator[Any]:
    """Yields the rows of a table that is one object: a list in it, its columns, or itself as the only row."""
    lists = {name: value for name, value in document.items() if isinstance(value, list)}
    names_of_row_lists = [
        name for name, value in lists.items() if value and all(isinstance(row, dict) for row in value)
    ]
    columns = document.get("columns")
    if isinstance(columns, list) and isinstance(document.get("data"), list):  # pandas: orient="split"
        yield from (dict(zip(columns, row, strict=False)) for row in document["data"])
    elif names_of_row_lists and ("data" in names_of_row_lists or len(names_of_row_lists) == 1):
        yield from document["data" if "data" in names_of_row_lists else names_of_row_lists[0]]
    elif lists and len(lists) == len(document) and len({*map(len, lists.values())}) == 1:
        yield from (dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True))
    elif document and all(isinstance(value, dict) for value in document.values()):
        if all(name.isdecimal() for name in document):  # pandas: orient="index"
            yield from document.values()
        else:
            keys = dict.fromkeys(key for column in document.values() for key in column)
            yield from ({name: column.get(key) for name, column in document.items()} for key in keys)
    elif lists or not document:
        problem = (
            "the object has neither a list of rows nor columns of equal length; its keys are"
            f" {', '.join(document) or 'none'}"
        )
        raise DataError(problem, where=path, fix="Write a list of objects")
    else:
        yield document


def without_surrogates(value: Any) -> Any:
    """Returns a JSON value with `?` for lone surrogates in strings, since UTF-8 files cannot hold them."""
    if isinstance(value, dict):
        return {without_surrogates(name): without_surrogates(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [without_surrogates(inner) for inner in value]
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
