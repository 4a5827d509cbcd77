"""Records that display well: a list of dicts, shown as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any

from electra.foundation.errors import DataError
from electra.foundation.machine import library

if TYPE_CHECKING:
    import pandas

MAX_ROWS_SHOWN = 20  # rows that are displayed


class Rows(list[dict[str, Any]]):
    """A list of records (plain dicts). `frame()` returns them as a pandas DataFrame."""

    def frame(self) -> pandas.DataFrame:
        """Returns the rows as a DataFrame. Raises ConfigError if pandas is not installed."""
        frame: pandas.DataFrame = library("pandas", "notebook").DataFrame.from_records(list(self))
        return frame

    def __repr__(self) -> str:
        more = f"\n... {len(self)} rows" * (len(self) > MAX_ROWS_SHOWN)
        return f"{self.table(MAX_ROWS_SHOWN)}{more}"

    def table(self, most: int | None = None) -> str:
        """Returns the rows, or the first of them, as a table with aligned columns."""
        columns = list(dict.fromkeys(key for row in self for key in row))
        rows = [[str(name) for name in columns]]  # pandas names some 0, 1, ...
        rows += [[cell(row.get(name)) for name in columns] for row in self[:most]]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def records(rows: Any, where: str = "") -> list[Any]:
    """Returns the rows of a table, a data set or any other iterable as a list.

    Tables are those of pandas, Polars (lazy, too), pyarrow, DuckDB and others that export Arrow; libraries
    are not imported for that.

    Raises:
        DataError: two columns have the same name, or the argument cannot be iterated over.
    """
    for method in ("collect", "to_table"):  # of a lazy frame, a data set of pyarrow
        rows = getattr(rows, method)() if hasattr(type(rows), method) else rows
    methods = [name for name in ("to_dicts", "to_pylist", "to_dict") if hasattr(rows, name)]
    if hasattr(rows, "__arrow_c_stream__") and not methods:
        rows = library("pyarrow", "data", "tables of Arrow").RecordBatchReader.from_stream(rows).read_all()
    columns = getattr(rows, "column_names", getattr(rows, "columns", None))
    names = [] if columns is None else list(columns)
    if repeated := [name for name in names if names.count(name) > 1]:
        raise DataError(f"two columns have the name {repeated[0]!r}", where=where, fix="Rename one")
    if getattr(rows, "features", None) and hasattr(rows, "with_format"):
        from electra.data.columnar import class_names, with_class_names

        class_names_of = class_names(rows.features.to_dict())
        return [with_class_names(row, class_names_of) for row in rows.with_format(None)]
    if hasattr(rows, "columns") and methods == ["to_dict"]:
        return list(rows.to_dict("records"))
    for method in ("to_dicts", "to_pylist"):
        if hasattr(rows, method):
            return list(getattr(rows, method)())
    return list(_iterable(rows, where, "Pass a list, or a DataFrame"))


def is_table(value: Any) -> bool:
    """Whether a value is a table of pandas, Polars, pyarrow, DuckDB or `datasets`, not one column."""
    return any(hasattr(type(value), name) for name in ("columns", "column_names"))


def each_text(texts: Any) -> Iterator[str]:
    """Yields the texts, or the single text. Raises DataError for anything that is not a text."""
    if hasattr(texts, "to_pylist") and not is_table(texts):  # a column of pyarrow
        texts = texts.to_pylist()
    if isinstance(texts, Mapping) or is_table(texts):
        raise DataError("expected texts, got a table", where="texts", fix="Pass one column: frame['text']")
    fix = "Pass a text, or a list of texts"
    for number, text in enumerate([texts] if isinstance(texts, str) else _iterable(texts, "texts", fix), 1):
        if not isinstance(text, str):
            raise DataError(f"{shortened(text)} is not text", where=f"text {number}", fix=fix)
        yield text


def _iterable(values: Any, where: str, fix: str) -> Iterator[Any]:
    try:
        if not isinstance(values, bytes):
            return iter(values)
    except TypeError:
        pass
    raise DataError(f"{shortened(values)} is not a list", where=where, fix=fix)


def cell(value: object) -> str:
    """Returns a value as text for a table."""
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
