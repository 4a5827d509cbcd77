"""Brings tables that JSON holds in other layouts into rows: those of pandas, `datasets` and services."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from electra.foundation.errors import DataError

# Usual names of a list of rows beside other values.
CONTAINERS = tuple(str.split("data rows records examples items instances samples documents results"))
_BETWEEN = re.compile(r"[\s,\x1e\ufeff]*")
_SENTENCES = re.compile("tok|word|tag", re.IGNORECASE)  # in names of columns with a list for each sentence
_SPLIT = (  # a command that makes a file of each list in a file
    """python3 -c "import json, os; os.makedirs('splits', exist_ok=True); """
    """[json.dump(rows, open(f'splits/{{name}}.json', 'w')) """
    """for name, rows in json.load(open({file!r}, encoding='utf-8-sig')).items() """
    """if isinstance(rows, list)]\""""
)


def rows_of(document: Any, where: str, is_line: bool = False) -> list[Any]:
    """Returns the rows of a JSON document: a list, or an object that is a table in a known layout.

    These are pandas' split, table, index and columns, columns of lists, and a list of objects beside other
    values. Any other object is a single row, and so is that of a line (`is_line`) with lists of other names.
    Raises DataError for an object of several lists of objects.
    """
    match document:
        case [*rows]:
            return rows
        case {"columns": [*names], "data": [[*_], *_] as lists}:
            return [dict(zip(map(str, names), row, strict=False)) for row in lists]
    tables = {name: value for name, value in document.items() if _are_objects(value)}
    if len(tables) == 1:
        [(name, rows)] = tables.items()
        others = [value for key, value in document.items() if key != name and isinstance(value, str)]
        if name.casefold() in CONTAINERS or not (is_line or any(" " in value for value in others)):
            inner = [row.get("row") for row in rows]  # as the viewer of the Hugging Face hub
            return inner if _are_objects(inner) else rows
    if len(tables) > 1 and not is_line:
        problem = f"is an object with several lists of rows ({', '.join(list(tables)[:5])})"
        passed = "that folder" if "train" in tables else "one of them"
        fix = f"Make files of them in a folder 'splits', and pass {passed}: {_SPLIT.format(file=where)}"
        raise DataError(problem, where=where, fix=fix)
    values = [*document.values()]
    if len(values) > 1 and all(isinstance(value, Mapping) and value for value in values):
        return _rows_of_objects(document)
    if _are_columns(document):
        return [dict(zip(document, row, strict=True)) for row in zip(*values, strict=True)]
    return [document]


def _are_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _rows_of_objects(document: Mapping[str, Mapping[str, Any]]) -> list[Any]:
    """Returns the rows of objects by index, or of columns whose cells are by index."""
    inner = [*next(iter(document.values()))]
    if any({*value} != {*inner} for value in document.values()):
        return [document]
    by_column = all(map(str.isdecimal, inner)) or len(document) < len(inner)
    if by_column and not all(map(str.isdecimal, document)):
        return [{column: cells[key] for column, cells in document.items()} for key in inner]
    return [*document.values()]


def _are_columns(document: Mapping[str, Any]) -> bool:
    """Whether all values are lists of the same length, and not the words and tags of a single sentence."""
    if not document or not all(isinstance(value, list) and len(value) > 1 for value in document.values()):
        return False
    cells = [cell for value in document.values() for cell in value]
    has_texts = any(isinstance(cell, list) or (isinstance(cell, str) and " " in cell) for cell in cells)
    is_sentence = not has_texts and (len(document) == 1 or any(map(_SENTENCES.search, document)))
    return len({*map(len, document.values())}) == 1 and not is_sentence


def glued(text: str) -> Iterator[Any]:
    """Yields the JSON values of a text that has white space or commas between them.

    Raises ValueError for anything else.
    """
    decoder, position = json.JSONDecoder(), 0
    while (position := _BETWEEN.match(text, position).end()) < len(text):  # type: ignore[union-attr]
        value, position = decoder.raw_decode(text, position)
        yield value
