"""Reads rows of named columns from every supported format; the only reader of tables.

csv, tsv        delimited.py; a header line names the columns
jsonl, ndjson   one object per line
json            a list of objects; an object with such a list; columns of equal length, as pandas writes them;
                or objects one after the other
parquet, arrow, feather, and folders that `datasets` saved: columnar.py
zip             containing one such file

Files may be compressed or split into parts (train-*-of-00008.parquet). Rows are streamed, each with its place
("file.csv:12", or "file.json: row 12" if rows are not lines). A file that expands to far more than its size
on disk is refused before it fills the memory.
"""

from __future__ import annotations

import io
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import IO, Any

from electra.data import columnar, delimited, lines
from electra.data.json_rows import json_line_rows, json_rows
from electra.data.lines import (
    COMPRESSIONS,
    DAMAGE,
    HEAD,
    SURROGATES,
    SizeBudget,
    decode_head,
    encoding_of,
    guess_encoding,
    line_end,
    note_guess,
    open_text,
)
from electra.data.table_files import (
    FORMATS,
    TABLES,
    ZIP,
    files_of,
    parts_of,
    parts_pattern,
    saved_splits,
    split_name,
    unknown_extension,
)
from electra.data.tables import (
    DEFAULT_OPTIONS,
    EXPANSION_BYTES,
    EXPANSION_RATIO,
    ReadOptions,
    Row,
    Rows,
    Table,
    short_name,
)
from electra.foundation.errors import DataError
from electra.foundation.visible import plural

MAX_LINE = 1 << 27  # characters of a line
NUL_FOUND = "contains a NUL character, so it is not text"
EXCEL_SEPARATOR = re.compile("sep=.", re.IGNORECASE)  # a first line that names the delimiter
HIDDEN = re.compile(r"(^|/)(__MACOSX/|\.)")  # members of a zip file that are not read


def open_table(path: Path, options: ReadOptions = DEFAULT_OPTIONS) -> Table:
    """Opens labelled data, held in memory unless it is a csv or tsv; `columns` are those of all rows.

    Raises:
        DataError: the file is missing, empty, or cannot be read, or a text contains a NUL. Rows of a
            csv or tsv are checked as they are read.
    """
    table = stream_table(path, options)
    table.rows = _without_nuls(table.rows)
    if table.headed:
        return table
    rows = list(table.rows)
    if not rows:
        raise DataError("the file is empty", where=path)
    columns = tuple(dict.fromkeys(name for _, row in rows for name in row))
    return replace(table, columns=columns, rows=iter(rows))


def stream_table(path: Path, options: ReadOptions = DEFAULT_OPTIONS) -> Table:
    """Opens a file, a saved folder or a pattern of parts, to be read row by row in bounded memory.

    `columns` is empty if the columns are known only from the rows.

    Raises:
        DataError: the file is missing or cannot be read; faults of rows are raised as they are read.
    """
    parts = parts_of(path)
    if not parts:
        raise DataError("no such file", where=path)
    tables = [_open(part, options) for part in parts]
    first_table = tables[0]
    if len(tables) == 1:
        pattern = parts_pattern(path)
        if pattern != path and len(list(path.parent.glob(pattern.name))) > 1:
            first_table.notes += (f"this is one part of several; {pattern.name} matches all of them",)
        return first_table
    return replace(
        _joined(path, tables), notes=tuple(dict.fromkeys(n for table in tables for n in table.notes))
    )


def _joined(path: Path, tables: Sequence[Table]) -> Table:
    """Returns one table with the columns and rows of several."""
    columns = tuple(dict.fromkeys(name for table in tables for name in table.columns))
    return replace(
        tables[0], path=path, columns=columns, rows=chain.from_iterable(table.rows for table in tables)
    )


def max_expanded_size(path: Path, ratio: int = EXPANSION_RATIO) -> int:
    """Returns how many bytes a file may expand to; text compresses to a tenth, rarely to a fiftieth."""
    return EXPANSION_BYTES + ratio * path.stat().st_size


def read_bytes(path: Path) -> bytes:
    """Returns the whole file, decompressed. Raises DataError if it is damaged or expands too far."""
    with open_bytes(path) as stream:
        return stream.read()


def open_bytes(path: Path, ratio: int = EXPANSION_RATIO) -> io.BufferedReader:
    """Opens a file as a decompressed stream. Reading raises DataError if it is damaged or expands too far."""
    is_compressed = path.suffix.lower() in COMPRESSIONS and path.is_file()
    return lines.open_bytes(path, max_size=max_expanded_size(path, ratio) if is_compressed else None)


def _open(path: Path, options: ReadOptions) -> Table:
    if path.is_dir():
        if len(splits := saved_splits(path)) > 1:
            fix = f"Pass one: {', '.join(str(path / name) for name in splits)}"
            raise DataError("the data set has several splits", where=path, fix=fix)
        return _joined(path, [_columnar(file, "arrow", options) for file in files_of(path)])
    extension = split_name(path)[1]
    kind = options.format or FORMATS.get(extension, "zip" if extension == ZIP else "")
    if not path.exists():
        raise DataError("no such file", where=path)
    if not kind:
        raise unknown_extension(path, TABLES)
    if path.suffix.lower() == ZIP:
        return _zipped(path, options)
    if kind in columnar.READERS:
        return _columnar(path, kind, options)
    if kind in ("csv", "tsv"):
        return _delimited(path, kind, options)
    read = json_line_rows if kind == "jsonl" else json_rows
    return Table(path, (), read(path, _decoded(path, options.encoding, options), options))


def _columnar(path: Path, kind: str, options: ReadOptions) -> Table:
    columns_reader, rows_reader = columnar.READERS[kind]
    with ExitStack() as stack:
        plain_path = path
        if path.suffix.lower() in COMPRESSIONS:  # these formats need random access
            plain_path = _spooled(stack, open_bytes(path, options.ratio))
        names = columns_reader(plain_path, str(path))
        table = Table(path, names, iter(()))
        column = table.find_column(options.only) if options.only else None
        only = column and [column if column in names else column.partition(".")[0]]
        budget = SizeBudget(max_expanded_size(path, options.ratio), str(path))
        plain_rows = rows_reader(plain_path, str(path), budget, only or None)
        return replace(table, rows=_closing(stack.pop_all(), _numbered(path, plain_rows)))


def _spooled(stack: ExitStack, stream: IO[bytes]) -> Path:
    """Copies a stream to a file, which is removed when the stack is closed."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="electra-")))
    target = folder / "plain"
    with stream, open(target, "wb") as file:
        shutil.copyfileobj(stream, file, 1 << 20)
    return target


def _closing(stack: ExitStack, rows: Rows) -> Rows:
    with stack:
        yield from rows


def _numbered(path: Path, rows: Iterable[Row]) -> Rows:
    for number, row in enumerate(rows, 1):
        yield f"{path}: row {number}", row


def _zipped(path: Path, options: ReadOptions) -> Table:
    """Opens the only table in a zip file."""
    with ExitStack() as stack:
        try:
            archive = stack.enter_context(zipfile.ZipFile(path))
            names = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
            names = [name for name in names if not HIDDEN.search(name)]
            table_names = [name for name in names if split_name(Path(name))[1] in FORMATS]
            if len(table_names) != 1:
                problem = f"contains {len(table_names)} tables instead of one ({', '.join(names[:5])})"
                raise DataError(problem, where=path, fix="Unpack it and pass one file")
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="electra-")))
            target = folder / Path(table_names[0]).name
            budget = SizeBudget(max_expanded_size(path, options.ratio), str(path))
            with archive.open(table_names[0]) as stream, open(target, "wb") as file:
                while piece := stream.read(1 << 20):
                    budget.spend(len(piece))
                    file.write(piece)
        except (
            zipfile.BadZipFile,
            zipfile.LargeZipFile,
            NotImplementedError,
            RuntimeError,
            *DAMAGE,
        ) as error:
            fix = "Download or compress it again"
            raise DataError(f"damaged, or not a zip file ({error})", where=path, fix=fix) from None
        table = _open(target, replace(options, format=""))
        rows = ((where.replace(str(target), f"{path}/{table_names[0]}"), row) for where, row in table.rows)
        return replace(table, path=path, rows=_closing(stack.pop_all(), rows))


def _decoded(path: Path, encoding: str | None, options: ReadOptions) -> Iterator[str]:
    """Yields the lines of a file with their ends. Raises DataError for undecodable bytes unless lenient."""
    with open_bytes(path, options.ratio) as stream:
        head = stream.peek(HEAD)[:HEAD]
        codec = encoding_of(head, encoding)
        kind = options.format or FORMATS.get(split_name(path)[1], "")
        lines.refuse_other_content(decode_head(head, codec), kind, str(path))
        with open_text(stream, codec, newline=line_end(decode_head(head, codec))) as text:
            for number, line in enumerate(lines.lines(text, MAX_LINE, str(path)), 1):
                if not options.lenient and not line.isascii() and SURROGATES.search(line):
                    problem = f"not {'UTF-8' if codec == 'utf-8-sig' else codec}"
                    fix = "Save the file as UTF-8, or set `encoding`"
                    raise DataError(problem, where=f"{path}:{number}", fix=fix)
                yield line


def read_lines(path: Path, encoding: str | None = None) -> Iterator[tuple[int, str]]:
    """Yields (number from 1, line without its end). Raises DataError for a NUL or undecodable bytes."""
    for number, line in enumerate(_decoded(path, encoding, DEFAULT_OPTIONS), 1):
        refuse_nul(line, f"{path}:{number}")
        yield number, line.rstrip("\r\n")


def read_rows(path: Path) -> Rows:
    """Returns the rows of labelled data with their places; see `open_table`."""
    return open_table(path).rows


def _delimited(path: Path, kind: str, options: ReadOptions) -> Table:
    """Opens a csv or tsv, after detecting its encoding and dialect, and whether it has a header line."""
    encoding = options.encoding
    if encoding is None and not options.lenient:
        encoding = guess_encoding(read_bytes(path))
    decoded_lines = _decoded(path, encoding, options)
    head, size = [], 0
    for line in decoded_lines:
        head.append(line)
        size += len(line)
        if size >= HEAD:
            break
    if head and EXCEL_SEPARATOR.fullmatch(head[0].strip("\ufeff\r\n")):
        head[0] = "\n"  # keeps the numbers of the lines
    dialect = delimited.dialect_of(head, kind, is_complete=size < HEAD)
    rows = delimited.cells(chain(head, decoded_lines), dialect, str(path))
    first_row = next(rows, None)
    if first_row is None:
        raise DataError("the file is empty", where=path)
    header = [name.strip("\ufeff \t") for name in first_row[1]]
    names = list(header)
    default_header = options.header
    if default_header and not any(set(alternative) <= set(names) for alternative in options.required):
        without_optional = [name for name in default_header if name not in options.optional]
        names, rows = (
            list(default_header if len(names) != len(without_optional) else without_optional),
            chain([first_row], rows),
        )
        header = []
    for index, name in enumerate(names):  # the index of pandas, or empty columns of a spreadsheet
        if not name:
            names[index] = (
                default_header[index] if len(default_header) == len(names) else f"column {index + 1}"
            )
    if len(set(names)) < len(names):
        problem = f"two columns have the same name ({', '.join(map(short_name, names))})"
        fix = "Rename one; without a header, pass `columns`"
        raise DataError(problem, where=f"{path}:{first_row[0]}", fix=fix)
    notes = [dialect.note(kind)]
    if options.encoding is None and encoding not in (None, "utf-8-sig"):
        notes.append(f"{note_guess(str(encoding), ''.join(head))} (`encoding` sets another)")
    table = Table(path, tuple(names), iter(()), notes=tuple(filter(None, notes)), headed=True)
    table.rows = _rows_of_cells(table, rows, options, header)
    return table


def _rows_of_cells(
    table: Table, lines: Iterator[tuple[int, list[str]]], options: ReadOptions, header: Sequence[str]
) -> Rows:
    """Yields rows from numbered lines of cells.

    A repeated header or another number of cells goes to `options.leave_out`, or is dropped and counted.
    """
    expected = len(table.columns)
    for number, cells in lines:
        if header and [cell.strip("\ufeff \t") for cell in cells] == header:
            problem, fix = "the header line is repeated", "Remove it: files were joined here"
            options.leave_out(DataError(problem, where=f"{table.path}:{number}", fix=fix))
        elif len(cells) == expected:
            yield f"{table.path}:{number}", dict(zip(table.columns, cells, strict=True))
        elif options.drop_malformed:
            table.dropped += 1
        else:
            names = ", ".join(map(short_name, table.columns))
            problem = f"{plural(len(cells), 'column')} instead of {expected} ({names})"
            fix = "Fix the line; if the file has no header, pass `columns`"
            options.leave_out(DataError(problem, where=f"{table.path}:{number}", fix=fix))


def _without_nuls(rows: Rows) -> Rows:
    for where, row in rows:
        refuse_nul(row, where)
        yield where, row


def refuse_nul(value: Any, where: str) -> None:
    """Raises DataError if any string in a value contains a NUL, which our output files could not hold."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in items:
        refuse_nul(item, where)
    if isinstance(value, str) and "\0" in value:
        raise DataError(NUL_FOUND, where=where, fix="Remove it")
