"""Rows of named columns: csv, tsv, jsonl and parquet files, compressed or not.

A tsv is unquoted (GLUE's files contain lone double quotes: reading them as csv swallows rows). A csv is
quoted as in RFC 4180, with commas, or with semicolons where the first line has more of those. An object of a
jsonl file may lack fields that others have.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from electra.data.sources import COMPRESSIONS
from electra.errors import DataError
from electra.labelled.files import (
    guess_encoding,
    most_bytes,
    raw_lines,
    read_bytes,
    read_lines,
    read_objects,
    refuse_nul,
    split_name,
    unfolds_too_far,
)
from electra.machine import library

FORMATS = {".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
TABLES = tuple(FORMATS)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
ID_COLUMNS = ("id", "idx", "index")


@dataclass
class OpenTable:
    """A file being read: its columns, and its rows one by one, each (line number, column -> value)."""

    path: Path
    columns: tuple[str, ...]
    rows: Iterator[tuple[int, Mapping[str, Any]]]
    dropped: int = 0  # malformed rows left out so far; grows while `rows` is read
    notes: tuple[str, ...] = ()  # what was done to read it

    def column(self, wanted: Sequence[str]) -> str | None:
        """The first of the wanted columns that the file has."""
        return next((name for name in wanted if name in self.columns), None)

    def no_column(self, wanted: Sequence[str], option: str) -> DataError:
        known = f"It has {', '.join(map(_short, self.columns))}: name one with {option}"
        if FORMATS[split_name(self.path)[1]] in ("csv", "tsv"):
            known += "; if that is not a header line, name all columns with `columns`"
        return DataError(f"no column {' or '.join(wanted)}", where=self.path, fix=known)


def open_table(  # noqa: PLR0917
    path: Path,
    header: Sequence[str] = (),
    wanted: Sequence[Sequence[str]] = (),
    drop_malformed: bool = False,
    encoding: str | None = None,
    optional: Sequence[str] = (),
) -> OpenTable:
    """Open a file of rows.

    header: the columns' names, for a file that may come without a header line (GLUE's CoLA). Its first line
        is then taken as a header only when it has all the names of one of the alternatives in `wanted`.
    drop_malformed: leave out rows with a wrong number of cells and count them (QQP as distributed has some)
        instead of stopping.
    encoding: of a csv or tsv (None: UTF-8, or what else it looks like, with a note).
    optional: the names in `header` of which a file without a header line may lack one.
    """
    kind = FORMATS.get(split_name(path)[1])
    if kind is None:
        known = f"Use {', '.join(FORMATS)}, each also {', '.join(COMPRESSIONS)}"
        raise DataError("unrecognised file extension", where=path, fix=known)
    if kind in ("jsonl", "parquet"):
        objects = list(read_objects(path) if kind == "jsonl" else _parquet(path)) or _refuse_empty(path)
        return OpenTable(
            path, tuple(dict.fromkeys(name for _, row in objects for name in row)), iter(objects)
        )
    used = encoding or guess_encoding(read_bytes(path))
    lines = _cells(path, kind, used)
    first = next(lines, None) or _refuse_empty(path)
    names = [name.strip() for name in first[1]]
    if header and not any(set(together) <= set(names) for together in wanted):
        kept = [name for name in header if name not in optional]
        names, lines = list(header if len(names) != len(kept) else kept), chain([first], lines)
    if len(set(names)) < len(names):
        what, fix = (
            f"two columns have one name ({', '.join(names)})",
            "Rename one; without a header, pass `columns`",
        )
        raise DataError(what, where=f"{path}:1", fix=fix)
    table = OpenTable(path, tuple(names), iter(()))
    if encoding is None and used != "utf-8":
        table.notes = (f"not UTF-8: read as {used} (`encoding` sets another)",)
    table.rows = _named(table, lines, drop_malformed)
    return table


def _refuse_empty(path: Path) -> Any:
    raise DataError("the file is empty", where=path)


def _short(name: str) -> str:
    return name if len(name) <= 30 else f"{name[:27]}..."


def _cells(path: Path, kind: str, encoding: str) -> Iterator[tuple[int, list[str]]]:
    if kind == "tsv":
        yield from ((number, line.split("\t")) for number, line in read_lines(path, encoding) if line)
        return
    csv.field_size_limit(sys.maxsize)  # the default refuses cells over 128 KiB
    lines = [line + "\n" for _, line in raw_lines(path, encoding)]
    # Where a decimal point is a comma, spreadsheets write semicolons.
    unquoted = re.sub(r'"[^"]*"?', "", lines[0]) if lines else ""
    delimiter = ";" if unquoted.count(";") > unquoted.count(",") else ","
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    first_line = 1  # of the row being read: a quoted cell may span several lines
    try:
        for cells in reader:
            if cells:
                yield first_line, cells
            first_line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"not valid csv ({error})", where=f"{path}:{first_line}") from None


def _parquet(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows, numbered from 1."""
    pyarrow = library("pyarrow.parquet", "data", "parquet files", DataError, where=path)
    try:
        file = pyarrow.parquet.ParquetFile(io.BytesIO(read_bytes(path)))
        strings = [field.name for field in file.schema_arrow if pyarrow.types.is_string(field.type)]
        # repeated values stay one value with many numbers until they are asked for
        file = pyarrow.parquet.ParquetFile(io.BytesIO(read_bytes(path)), read_dictionary=strings)
        number, room = 0, most_bytes(path)
        for batch in file.iter_batches(256):
            for row in batch.to_pylist():
                number += 1
                room -= sum(len(value) for value in row.values() if isinstance(value, str | bytes | list))
                if room < 0:
                    raise unfolds_too_far(path)
                refuse_nul(row, f"{path}:{number}")
                yield number, row
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"not a readable parquet file ({str(error).splitlines()[0]})", where=path) from None


def _named(
    table: OpenTable, lines: Iterator[tuple[int, list[str]]], drop_malformed: bool
) -> Iterator[tuple[int, dict[str, Any]]]:
    expected = len(table.columns)
    for number, cells in lines:
        if len(cells) == expected:
            yield number, dict(zip(table.columns, cells, strict=True))
        elif drop_malformed:
            table.dropped += 1
        else:
            what = f"{len(cells)} columns instead of {expected} ({', '.join(table.columns)})"
            fix = "Fix the line; if the file has no header, pass `columns`"
            raise DataError(what, where=f"{table.path}:{number}", fix=fix)


def cell_text(row: Mapping[str, Any], column: str, where: str) -> str:
    """A cell that must be a text; a list of words is joined by spaces."""
    value = row.get(column)
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        value = " ".join(value)
    if not isinstance(value, str):
        what = f"column {column!r} has {value!r}, not a text" if column in row else f"no field {column!r}"
        fix = f"It has {', '.join(row)}; name columns with `text_column` and `label_column`"
        raise DataError(what, where=where, fix=fix)
    return value.encode("utf-8", "replace").decode()  # JSON can contain lone surrogates, which are not text


def row_id(row: Mapping[str, Any], column: str | None, number: int) -> str:
    """The id that a row gives itself, else its number from 0."""
    given = row.get(column) if column else None
    return str(number) if given in (None, "") else str(given)


def format_tsv(rows: Sequence[Sequence[str]]) -> bytes:
    """Rows of cells as an unquoted tsv; tabs and line ends inside a cell become spaces."""
    return "".join(
        "\t".join(" ".join(cell.splitlines()).replace("\t", " ") for cell in row) + "\n" for row in rows
    ).encode()


def _no_formula(cell: str) -> str:
    return (
        f"'{cell}"
        if cell.startswith(("=", "+", "-", "@", "\t", "\r")) and not _NUMBER.fullmatch(cell)
        else cell
    )


def read_tsv(path: Path) -> list[list[str]]:
    """The rows of cells that `format_tsv` wrote."""
    return [line.split("\t") for _, line in read_lines(path) if line]


def format_csv(rows: Sequence[Sequence[str]]) -> bytes:
    """Rows of cells as in RFC 4180. What a spreadsheet would take for a formula is made a text by a quote."""
    return "".join(_csv_line([_no_formula(cell) for cell in row]) for row in rows).encode()


def _csv_line(row: Sequence[str]) -> str:
    line = io.StringIO(newline="")
    csv.writer(line).writerow(row)  # with "\n" as its end of lines it would leave a "\r" unquoted
    return line.getvalue().removesuffix("\r\n") + "\n"
