"""Rows of JSON files: one object per line, streamed; or a list of objects, read whole."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from electra.data.lines import Place
from electra.foundation.errors import DataError

if TYPE_CHECKING:
    from electra.data.tables import ReadOptions, Rows

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # an escape that is half of a pair, or a lone surrogate
_LINES = "Write one object per line"


def json_line_rows(name: str, lines: Iterable[str], options: ReadOptions) -> Rows:
    """Yields the rows of a file with one JSON object per line; empty lines are skipped.

    `name` is the file's name in places.

    Raises:
        DataError: a line is not a JSON object, unless `options.on_broken` is set.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        place = Place(name, number)
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            options.leave_out(DataError(f"not valid JSON ({error})", where=place, fix=_LINES))
            continue
        if options.only and isinstance(row, str):
            row = {options.only: row}
        if not isinstance(row, dict):
            options.leave_out(DataError("not a JSON object", where=place, fix=_LINES))
            continue
        yield place, row if options.lenient or not _SURROGATE.search(line) else without_surrogates(row)


def json_rows(name: str, lines: Iterator[str], options: ReadOptions) -> Rows:
    """Yields the rows of a .json file: those of `json_line_rows`, a list, or an object with one list of rows.

    Raises:
        DataError: the file is not valid JSON, or a row is not an object while `options.on_broken` is None.
    """
    first, second = _to_next_text(lines), _to_next_text(lines)
    if "".join(second).strip() and _is_object(first[-1]):
        yield from json_line_rows(name, chain(first, second, lines), options)
        return
    try:
        document = json.loads("".join(chain(first, second, lines)).removeprefix("\ufeff") or "[]")
    except (ValueError, RecursionError) as error:
        place = Place(name, getattr(error, "lineno", 0))
        raise DataError(f"not valid JSON ({error})", where=place, fix="Write a list of objects") from None
    for number, value in enumerate(_list_in(document, name), 1):
        place = Place(name, number, False)
        row = {options.only: value} if options.only and isinstance(value, str) else value
        if not isinstance(row, dict):
            options.leave_out(DataError("not a JSON object", where=place, fix="Write a list of objects"))
            continue
        yield place, row if options.lenient else without_surrogates(row)


def _to_next_text(lines: Iterator[str]) -> list[str]:
    """Takes lines up to the next that is not blank."""
    taken: list[str] = []
    for line in lines:
        taken.append(line)
        if line.strip():
            break
    return taken


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _list_in(document: Any, name: str) -> list[Any]:
    """Returns the rows of a document: itself, its only list of objects, or itself as the only row."""
    if isinstance(document, list):
        return document
    values = document.values() if isinstance(document, dict) else ()
    lists = [value for value in values if isinstance(value, list) and value and isinstance(value[0], dict)]
    if len(lists) == 1:
        return lists[0]
    if isinstance(document, dict) and not any(isinstance(value, dict | list) for value in values):
        return [document]
    fix = "Write a list of objects, such as pandas with orient='records'"
    raise DataError("not a list of rows", where=name, fix=fix)


def without_surrogates(value: Any) -> Any:
    """Returns a JSON value with `?` for lone surrogates in strings, since UTF-8 files cannot hold them."""
    if isinstance(value, dict):
        return {without_surrogates(name): without_surrogates(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [without_surrogates(inner) for inner in value]
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
