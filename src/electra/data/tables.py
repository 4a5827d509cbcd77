"""Tables that are being read: their columns and rows, and the options for reading them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electra.foundation.errors import DataError

ID_COLUMNS = ("id", "idx", "index")
MAX_NAMES = 3  # that a message lists
EXPANSION_BYTES, EXPANSION_RATIO = (
    64 << 20,
    50,
)  # a file may expand to EXPANSION_BYTES bytes plus EXPANSION_RATIO times its size

Row = dict[str, Any]
Rows = Iterator[tuple[str, Row]]
"""Each row, after its place for messages, such as "file.csv:12"."""


@dataclass
class Table:
    """A file being read: its columns, and its rows one by one."""

    path: Path
    columns: tuple[str, ...]  # () if they are known only from the rows
    rows: Rows
    dropped: int = 0  # malformed rows left out so far; increases while `rows` is read
    notes: tuple[str, ...] = ()  # for the user, on how the file was read
    headed: bool = False  # whether the columns come from a header line

    def first_column(self, names: Sequence[str]) -> str | None:
        """Returns the first of the names that is a column, spelled as in the file; None if there is none."""
        columns = map(self.find_column, names)
        return next((column for column in columns if column is not None), None)

    def find_column(self, name: str) -> str | None:
        """Returns the column `name`, one that differs only in case, or a nested field (a.b); else None."""
        if name in self.columns or ("." in name and name.partition(".")[0] in self.columns):
            return name
        matches = [column for column in self.columns if column.casefold() == name.casefold()]
        return matches[0] if len(matches) == 1 else None

    def missing_column(self, names: Sequence[str], option: str, choose: str = "one") -> DataError:
        """Returns the error for a file with none of these columns.

        Args:
            names: the names that were looked for.
            option: the option that sets the name of the column.
            choose: how many columns the user has to choose.
        """
        names = names if len(names) <= MAX_NAMES else [*names[: MAX_NAMES - 1], "other common names"]
        fix = f"It has {', '.join(map(short_name, self.columns))}: choose {choose} with {option}"
        if self.headed:
            fix += "; if that is not a header line, name all columns with `columns`"
        return DataError(f"no column {' or '.join(names)}", where=self.path, fix=fix)


@dataclass(frozen=True)
class ReadOptions:
    """How a table is read."""

    format: str = ""
    """One of the values of `table_files.FORMATS` ("": by the extension)."""
    encoding: str | None = None
    """The encoding of text formats (None: UTF-8, or by the byte order mark; a csv or tsv that is not UTF-8 is
    guessed, with a note)."""
    header: Sequence[str] = ()
    """The columns of a csv or tsv that may lack a header line (GLUE's CoLA). The first line is then a header
    only if it has all the names of one of the alternatives in `required`."""
    required: Sequence[Sequence[str]] = ()
    """Alternative sets of column names; see `header`."""
    optional: Sequence[str] = ()
    """Names in `header`, one of which may be missing in a file without a header line."""
    drop_malformed: bool = False
    """Leave out and count rows with a wrong number of cells instead of raising (QQP has some)."""
    lenient: bool = False
    """Return undecodable bytes as surrogates, for the caller to count, instead of raising."""
    ratio: int = EXPANSION_RATIO
    """How many times its size a file may expand to, in addition to EXPANSION_BYTES bytes."""
    only: str = ""
    """The only column or field that is needed; JSON rows may then be plain strings."""
    on_broken: Callable[[DataError], None] | None = None
    """Called with the error of a row, which is then left out (None: the error is raised)."""

    def leave_out(self, error: DataError) -> None:
        """Passes the error of a row to `on_broken`, or raises it if that is None."""
        if self.on_broken is None:
            raise error from None
        self.on_broken(error)


DEFAULT_OPTIONS = ReadOptions()


def get_field(row: Mapping[str, Any], column: str) -> Any:
    """Returns a cell, or the nested field a.b.c; None if there is none."""
    if column in row or "." not in column:
        return row.get(column)
    first, _, rest = column.partition(".")
    inner = row.get(first)
    return get_field(inner, rest) if isinstance(inner, Mapping) else None


def cell_text(row: Mapping[str, Any], column: str, where: str) -> str:
    """Returns the text of a cell; words in a list are joined by spaces. Raises DataError for other values."""
    value = get_field(row, column)
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        value = " ".join(value)
    if not isinstance(value, str):
        fix = f"It has {', '.join(row)}; choose columns with `text_column` and `label_column`"
        if value is None and column in row:
            problem, fix = f"column {column!r} is empty", "Add text, or remove the row"
        elif value is None:
            problem = f"no field {column!r}"
        else:
            problem = f"column {column!r} has {value!r}, not text"
        raise DataError(problem, where=where, fix=fix)
    return value.encode("utf-8", "replace").decode()  # JSON may contain lone surrogates, which are not text


def row_id(row: Mapping[str, Any], column: str | None, index: int) -> str:
    """Returns a row's id from `column`, or its index (from 0) if it has none."""
    value = row.get(column) if column else None
    return str(index) if value in (None, "") else str(value)


def short_name(name: str) -> str:
    """Returns a column's name for a message, without its end if it is long."""
    return name if len(name) <= 30 else f"{name[:27]}..."
