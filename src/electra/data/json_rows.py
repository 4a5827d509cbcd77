"""Values of JSON files: one per line, streamed; or a list, read whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from electra.data.lines import Place
from electra.foundation.errors import DataError


def json_line_values(
    name: str, lines: Iterable[str], leave_out: Callable[[DataError], None]
) -> Iterator[tuple[Place, Any]]:
    """Yields the values of a file with one on each line; empty lines are skipped.

    `name` is the file's name in places. `leave_out` is called with the error of a line that is not JSON.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        place = Place(name, number)
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            leave_out(DataError(f"not valid JSON ({error})", where=place, fix="Write one object per line"))
            continue
        yield place, value


def json_values(
    name: str, lines: Iterator[str], leave_out: Callable[[DataError], None]
) -> Iterator[tuple[Place, Any]]:
    """Yields the values of a .json file: one per line, a list, or an object with one list of objects.

    Raises:
        DataError: the file is none of these.
    """
    first, second = _to_next_text(lines), _to_next_text(lines)
    if "".join(second).strip() and _is_object(first[-1]):
        yield from json_line_values(name, chain(first, second, lines), leave_out)
        return
    try:
        document = json.loads("".join(chain(first, second, lines)).removeprefix("\ufeff") or "[]")
    except (ValueError, RecursionError) as error:
        place = Place(name, getattr(error, "lineno", 0))
        raise DataError(f"not valid JSON ({error})", where=place, fix="Write a list of objects") from None
    for number, value in enumerate(_list_in(document, name), 1):
        yield Place(name, number, False), value


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
