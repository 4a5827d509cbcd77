"""Records that show themselves: a list of dicts, in a notebook a table."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any

from electra.foundation.errors import DataError
from electra.foundation.machine import library

if TYPE_CHECKING:
    import pandas

SHOWN = 20  # rows of a table in a notebook, or of its text


class Rows(list[dict[str, Any]]):
    """A list of records (plain dicts). `frame()` makes a pandas DataFrame of it."""

    def frame(self) -> pandas.DataFrame:
        """The rows as a DataFrame [rows, keys]. Raises ConfigError without pandas."""
        frame: pandas.DataFrame = library("pandas", "notebook").DataFrame.from_records(list(self))
        return frame

    def columns(self) -> list[str]:
        """The keys of all rows, in order of appearance."""
        return list(dict.fromkeys(key for row in self for key in row))

    def __repr__(self) -> str:
        columns = self.columns()
        cells = [[cell(row.get(name)) for name in columns] for row in self[:SHOWN]]
        widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
        lines = [
            "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip()
            for line in (columns, *cells)
        ]
        more = [f"... {len(self)} rows"] if len(self) > SHOWN else []
        return "\n".join([*lines, *more])

    def _repr_html_(self) -> str:
        columns = self.columns()
        more = f"<p>{len(self)} rows</p>" if len(self) > SHOWN else ""
        return html_table(columns, ([row.get(name) for name in columns] for row in self[:SHOWN])) + more


def records(rows: Any, where: str = "") -> list[Any]:
    """What was given row by row as a list: the rows of a DataFrame (pandas, polars), an Arrow table or a data
    set of `datasets` as dicts, anything else as it is.
    """
    if hasattr(rows, "features") and hasattr(rows, "with_format"):  # no library is imported to find out
        from electra.data.columnar import class_names, with_names

        known = class_names(rows.features.to_dict())
        return [with_names(row, known) for row in rows.with_format(None)]
    if hasattr(rows, "to_dict") and hasattr(rows, "columns"):
        return list(rows.to_dict("records"))
    for method in ("to_dicts", "to_pylist"):
        if hasattr(rows, method):
            return list(getattr(rows, method)())
    return list(_iterable(rows, where, "Give a list, or a DataFrame"))


def each_text(texts: Any) -> Iterator[str]:
    """The texts one by one, or the only one. Raises DataError, by its number, for what is not a text."""
    if isinstance(texts, Mapping) or hasattr(texts, "columns"):
        raise DataError("a table", where="texts", fix="Give one column of it: frame['text']")
    fix = "Give a text, or a list of texts"
    for number, text in enumerate([texts] if isinstance(texts, str) else _iterable(texts, "texts", fix), 1):
        if not isinstance(text, str):
            raise DataError(f"{shortened(text)} is not a text", where=f"text {number}", fix=fix)
        yield text


def _iterable(given: Any, where: str, fix: str) -> Iterator[Any]:
    try:
        if not isinstance(given, bytes):
            return iter(given)
    except TypeError:
        pass
    raise DataError(f"{shortened(given)} is not a list", where=where, fix=fix)


def cell(value: object) -> str:
    """A value as a table shows it."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def html_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """An HTML table. Everything is escaped."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell(value))}</td>' for value in row)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_card(title: str, facts: Iterable[tuple[str, object]]) -> str:
    """An artifact in a notebook: what it is, and a few facts."""
    return f"<b>{html.escape(title)}</b>{html_table(('', ''), facts)}"
