"""Reads rows of named columns from every supported format; the only reader of tables.

csv, tsv        delimited.py; a header line names the columns
jsonl, ndjson   one object per line
json            a list of objects; an object with such a list; columns of equal length, as pandas writes them;
                or objects one after the other
parquet, arrow, feather, and folders that `datasets` saved: columnar.py
zip             containing one such file

Files may be compressed, or in parts (train-*-of-00008.parquet). Rows are streamed, each with its place
("file.csv:12", or "file.json: row 12" if rows are not lines). A file that expands to far more than its size
on disk is refused before it fills the memory.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from electra.data import columnar, delimited, lines
from electra.data.columnar import Row, SizeBudget
from electra.data.lines import (
    COMPRESSIONS,
    DAMAGE,
    HEAD,
    SURROGATES,
    decode_head,
    encoding_of,
    guess_encoding,
    line_end,
    open_text,
)
from electra.foundation import durable
from electra.foundation.errors import DataError

FORMATS = {
    ".tsv": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".tab": "tsv",
}
ZIP = ".zip"
ID_COLUMNS = ("id", "idx", "index")
TABLES = (*FORMATS, ZIP)
SAVED, SAVED_SPLITS = "state.json", "dataset_dict.json"  # mark the folders that `datasets` saves
SMALL, RATIO = 64 << 20, 50  # a file may expand to SMALL bytes plus RATIO times its size
LONGEST_RECORD = 1 << 27  # characters of a line
LONGEST_DOCUMENT = 1 << 28  # characters of a JSON value that is not a list
NUL = "a NUL character: not text"
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # an escape that is half of a pair, or a lone surrogate
_BETWEEN = re.compile(r"[\s,]*")  # separators of JSON values
_PART = re.compile(r"(.*)-(\d{5})-of-(\d{5})(\..*)?")

Rows = Iterator[tuple[str, Row]]
"""Each row with its place."""


@dataclass
class Table:
    """A file being read: its columns, and its rows one by one."""

    path: Path
    columns: tuple[str, ...]  # () if only the rows show them
    rows: Rows
    dropped: int = 0  # malformed rows left out so far; grows while `rows` is read
    notes: tuple[str, ...] = ()  # on how the file was read, for the user
    headed: bool = False  # whether the columns come from a header line

    def first_column(self, names: Sequence[str]) -> str | None:
        """Returns the first of the names that is a column, spelled as in the file; None if none is."""
        columns = map(self.find_column, names)
        return next((column for column in columns if column is not None), None)

    def find_column(self, name: str) -> str | None:
        """Returns the column `name`, one that differs only in case, or a nested field (a.b); else None."""
        if name in self.columns or ("." in name and name.partition(".")[0] in self.columns):
            return name
        alike = [column for column in self.columns if column.casefold() == name.casefold()]
        return alike[0] if len(alike) == 1 else None

    def missing_column(self, names: Sequence[str], option: str) -> DataError:
        """Returns the error for a file with none of these columns; `option` sets the name of the column."""
        known = f"It has {', '.join(map(_short, self.columns))}: choose one with {option}"
        if self.headed:
            known += "; if that is not a header line, name all columns with `columns`"
        return DataError(f"no column {' or '.join(names)}", where=self.path, fix=known)


def open_table(  # noqa: PLR0917
    path: Path,
    header: Sequence[str] = (),
    wanted: Sequence[Sequence[str]] = (),
    drop_malformed: bool = False,
    encoding: str | None = None,
    optional: Sequence[str] = (),
) -> Table:
    """Opens labelled data, whose rows must fit in memory; `columns` are those of all rows.

    Args:
        path: the file, folder, or pattern of parts.
        header: the columns of a csv or tsv that may lack a header line (GLUE's CoLA). The first line is then
            taken as a header only if it has all the names of one of the alternatives in `wanted`.
        wanted: alternative sets of column names; see `header`.
        drop_malformed: leave out rows with a wrong number of cells and count them (QQP as distributed has
            some) instead of raising.
        encoding: the encoding of a csv or tsv (None: UTF-8, or a guess, with a note).
        optional: names in `header`, one of which may be missing in a file without a header line.

    Raises:
        DataError: the file is missing, empty, or cannot be read.
    """
    table = stream_table(path, header, wanted, drop_malformed, encoding, optional)
    table.rows = _without_nuls(table.rows)
    if table.headed:
        return table
    rows = list(table.rows)
    if not rows:
        raise DataError("the file is empty", where=path)
    return replace(
        table, columns=tuple(dict.fromkeys(name for _, row in rows for name in row)), rows=iter(rows)
    )


def stream_table(  # noqa: PLR0917
    path: Path,
    header: Sequence[str] = (),
    wanted: Sequence[Sequence[str]] = (),
    drop_malformed: bool = False,
    encoding: str | None = None,
    optional: Sequence[str] = (),
    *,
    format: str = "",
    lenient: bool = False,
    ratio: int = RATIO,
    only: str = "",
    broken: Callable[[DataError], None] | None = None,
) -> Table:
    """Opens a table to be read row by row in bounded memory; `columns` is empty if only the rows show them.

    Args:
        path: the file, folder, or pattern of parts.
        header: see `open_table`.
        wanted: see `open_table`.
        drop_malformed: see `open_table`.
        encoding: the encoding of text formats (None: UTF-8, or by byte order mark).
        optional: see `open_table`.
        format: one of the values of FORMATS ("": by the extension).
        lenient: return undecodable bytes as surrogates, for the caller to count, instead of raising.
        ratio: how many times its size a file may expand to, in addition to SMALL.
        only: the only column or field that is needed; JSON rows may then be plain strings.
        broken: called with the error of a row, which is then left out (None: the error is raised).

    Raises:
        DataError: the file is missing, empty, or cannot be read.
    """
    parts = parts_of(path)
    if not parts:
        raise DataError("no such file", where=path)
    options = _Options(header, wanted, drop_malformed, encoding, optional, lenient, ratio, only, broken)
    tables = [_open(part, format, options) for part in parts]
    first = tables[0]
    if len(tables) == 1:
        whole = parts_pattern(path)
        if whole != path and len(list(path.parent.glob(whole.name))) > 1:
            first.notes += (f"this is one part of several; {whole.name} matches all of them",)
        return first
    columns = tuple(dict.fromkeys(name for table in tables for name in table.columns))
    notes = tuple(dict.fromkeys(note for table in tables for note in table.notes))
    return replace(first, path=path, columns=columns, notes=notes, rows=chain(*(t.rows for t in tables)))


@dataclass(frozen=True)
class _Options:
    """The arguments of `stream_table`."""

    header: Sequence[str] = ()
    wanted: Sequence[Sequence[str]] = ()
    drop_malformed: bool = False
    encoding: str | None = None
    optional: Sequence[str] = ()
    lenient: bool = False
    ratio: int = RATIO
    only: str = ""
    broken: Callable[[DataError], None] | None = None

    def leave_out(self, error: DataError) -> None:
        """Raises the error of a row, unless the caller counts such errors."""
        if self.broken is None:
            raise error from None
        self.broken(error)


def get_field(row: Mapping[str, Any], column: str) -> Any:
    """Returns a cell, or the nested field a.b.c; None if there is none."""
    if column in row or "." not in column:
        return row.get(column)
    first, _, rest = column.partition(".")
    inner = row.get(first)
    return get_field(inner, rest) if isinstance(inner, Mapping) else None


def cell_text(row: Mapping[str, Any], column: str, where: str) -> str:
    """Returns a cell that must be a text; a list of words is joined by spaces. Raises DataError."""
    value = get_field(row, column)
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        value = " ".join(value)
    if not isinstance(value, str):
        fix = f"It has {', '.join(row)}; choose columns with `text_column` and `label_column`"
        if value is None and column in row:
            problem, fix = f"column {column!r} is empty", "Fill in a text, or remove the row"
        elif value is None:
            problem = f"no field {column!r}"
        else:
            problem = f"column {column!r} has {value!r}, not a text"
        raise DataError(problem, where=where, fix=fix)
    return value.encode("utf-8", "replace").decode()  # JSON may contain lone surrogates, which are not text


def row_id(row: Mapping[str, Any], column: str | None, number: int) -> str:
    """Returns a row's id from `column`, or its number (from 0) if it has none."""
    value = row.get(column) if column else None
    return str(number) if value in (None, "") else str(value)


# Which files belong to a path


def is_saved_dataset(folder: Path) -> bool:
    """Whether the folder is a data set saved by `datasets`."""
    return (folder / SAVED).is_file()


def saved_splits(folder: Path) -> dict[str, Path]:
    """Returns the folders of the splits that `datasets` saved, by name; {} for any other folder."""
    if not (folder / SAVED_SPLITS).is_file():
        return {}
    return {each.name: each for each in sorted(folder.iterdir()) if is_saved_dataset(each)}


def parts_of(path: Path) -> list[Path]:
    """Returns the files or saved folders that a path or pattern stands for.

    Raises:
        DataError: a pattern matches only some of the parts that should exist.
    """
    if path.exists() or not any(character in path.name for character in "*?["):
        return [path]
    parts = sorted(path.parent.glob(path.name))
    expected = re.search(r"-\*-of-(\d{5})", path.name)
    if expected and len(parts) != int(expected[1]):
        fix = "Get the others, or pass one of them by its name"
        raise DataError(f"only {len(parts)} of {int(expected[1])} parts exist", where=path, fix=fix)
    return parts


def data_digest(path: Path) -> str:
    """Returns the SHA-256 of a file, or of the joined digests of several files that are read as one."""
    files = files_of(path)
    if files == [path]:
        return durable.sha256(path)
    return hashlib.sha256("".join(map(durable.sha256, files)).encode()).hexdigest()


def parts_pattern(path: Path) -> Path:
    """Returns the pattern of all parts if the file is one of several (train-00000-of-00002.parquet)."""
    part = _PART.fullmatch(path.name)
    if part and part[3] == "00001":
        return path
    return path.with_name(f"{part[1]}-*-of-{part[3]}{part[4] or ''}") if part else path


def split_name(path: Path) -> tuple[str, str]:
    """Splits a file name into stem and extension: "train-10k.jsonl.gz" -> ("train-10k", ".jsonl").

    Parts, and folders that `datasets` saved, have the name of the whole: "train".
    """
    if is_saved_dataset(path):
        return path.name.lower(), ".arrow"
    name = path.name.lower()
    for ending in COMPRESSIONS:
        name = name.removesuffix(ending)
    if name.endswith(ZIP) and Path(name).with_suffix("").suffix in FORMATS:
        name = name.removesuffix(ZIP)
    if part := re.fullmatch(r"(.*)-(?:\d{5}|\*)-of-\d{5}(\..*)?", name):
        name = part[1] + (part[2] or "")
    return Path(name).stem, Path(name).suffix


# One file


def most_bytes(path: Path, ratio: int = RATIO) -> int:
    """Returns the bytes that a file may expand to; text compresses to a tenth, rarely to a fiftieth."""
    return SMALL + ratio * path.stat().st_size


def read_bytes(path: Path) -> bytes:
    """Returns the whole file, decompressed. Raises DataError if it is damaged or expands too far."""
    with open_bytes(path) as stream:
        return stream.read()


def open_bytes(path: Path, ratio: int = RATIO) -> io.BufferedReader:
    """Opens a file as a decompressed stream. Reading raises DataError if it is damaged or expands too far."""
    packed = path.suffix.lower() in COMPRESSIONS and path.is_file()
    return lines.open_bytes(path, most=most_bytes(path, ratio) if packed else None)


def _open(path: Path, format: str, options: _Options) -> Table:
    if path.is_dir():
        return _folder(path, options)
    ending = split_name(path)[1]
    kind = format or FORMATS.get(ending, "zip" if ending == ZIP else "")
    if not kind:
        known = f"Use {', '.join(TABLES)}, each also {', '.join(COMPRESSIONS)}"
        raise DataError("unrecognised file extension", where=path, fix=known)
    if path.suffix.lower() == ZIP:
        return _zipped(path, options)
    if kind in columnar.READERS:
        return _columnar(path, kind, options)
    if kind in ("csv", "tsv"):
        return _delimited(path, kind, options)
    return Table(path, (), (_json_lines if kind == "jsonl" else _json)(path, options))


def _folder(path: Path, options: _Options) -> Table:
    """Opens a folder that `datasets` saved."""
    if several := saved_splits(path):
        if len(several) > 1:
            fix = f"Pass one: {', '.join(str(path / name) for name in several)}"
            raise DataError("the data set has several splits", where=path, fix=fix)
        return _folder(next(iter(several.values())), options)
    files = files_of(path)
    tables = [_columnar(file, "arrow", options) for file in files]
    columns = tuple(dict.fromkeys(name for table in tables for name in table.columns))
    return Table(path, columns, chain.from_iterable(table.rows for table in tables))


def files_of(path: Path) -> list[Path]:
    """Returns the files that are read for a path: itself, its parts, or those of a saved data set."""
    files: list[Path] = []
    for part in parts_of(path):
        files += _saved_files(part) if part.is_dir() else [part]
    return files


def _saved_files(folder: Path) -> list[Path]:
    if several := saved_splits(folder):
        return [file for each in several.values() for file in _saved_files(each)]
    try:
        listed = json.loads((folder / SAVED).read_bytes())["_data_files"]
        names = [str(entry["filename"]) for entry in listed]
        if any(Path(name).name != name for name in names):
            raise ValueError("a file in another folder")
    except FileNotFoundError:
        fix = "Pass a file, or a folder that save_to_disk wrote"
        raise DataError("a folder, not a file", where=folder, fix=fix) from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"names no data files ({error})", where=folder / SAVED) from None
    return [folder / name for name in names]


def _columnar(path: Path, kind: str, options: _Options) -> Table:
    columns, rows = columnar.READERS[kind]
    with ExitStack() as stack:
        plain = path
        if path.suffix.lower() in COMPRESSIONS:  # these formats need random access
            plain = _spooled(stack, open_bytes(path, options.ratio), path)
        names = columns(plain, str(path))
        table = Table(path, names, iter(()))
        column = table.find_column(options.only) if options.only else None
        only = column and [column if column in names else column.partition(".")[0]]
        budget = SizeBudget(most_bytes(path, options.ratio), str(path))
        plain_rows = rows(plain, str(path), budget, only or None)
        return replace(table, rows=_closing(stack.pop_all(), _numbered(path, plain_rows)))


def _spooled(stack: ExitStack, stream: IO[bytes], path: Path) -> Path:
    """Copies a stream to a file that is removed when the stack is closed."""
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


def _zipped(path: Path, options: _Options) -> Table:
    """Opens the only table in a zip file."""
    with ExitStack() as stack:
        try:
            archive = stack.enter_context(zipfile.ZipFile(path))
            names = [
                entry.filename
                for entry in archive.infolist()
                if not entry.is_dir() and not re.search(r"(^|/)(__MACOSX/|\.)", entry.filename)
            ]
            tables = [name for name in names if split_name(Path(name))[1] in FORMATS]
            if len(tables) != 1:
                problem = f"contains {len(tables)} tables instead of one ({', '.join(names[:5])})"
                raise DataError(problem, where=path, fix="Unpack it and pass one file")
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="electra-")))
            target = folder / Path(tables[0]).name
            budget = SizeBudget(most_bytes(path, options.ratio), str(path))
            with archive.open(tables[0]) as stream, open(target, "wb") as file:
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
        table = _open(target, "", options)
        inner, shown = str(target), f"{path}/{tables[0]}"
        rows = ((where.replace(inner, shown), row) for where, row in table.rows)
        return replace(table, path=path, rows=_closing(stack.pop_all(), rows))


# Text


def _decoded(path: Path, encoding: str | None, options: _Options) -> Iterator[str]:
    """Yields the lines of a file with their ends."""
    with open_bytes(path, options.ratio) as stream:
        head = stream.peek(HEAD)[:HEAD]
        used = encoding_of(head, encoding)
        with open_text(stream, used, newline=line_end(decode_head(head, used))) as text:
            for number, line in enumerate(lines.lines(text, LONGEST_RECORD, str(path)), 1):
                if not options.lenient and not line.isascii() and SURROGATES.search(line):
                    problem = f"not {'UTF-8' if used == 'utf-8-sig' else used}"
                    fix = "Save the file as UTF-8, or set `encoding`"
                    raise DataError(problem, where=f"{path}:{number}", fix=fix)
                yield line


def read_lines(path: Path, encoding: str | None = None) -> Iterator[tuple[int, str]]:
    """Yields (number from 1, line without its end). Raises DataError for a NUL or undecodable bytes."""
    for number, line in enumerate(_decoded(path, encoding, _Options()), 1):
        refuse_nul(line, f"{path}:{number}")
        yield number, line.rstrip("\r\n")


def read_rows(path: Path) -> Rows:
    """Returns the rows of labelled data with their places; see `open_table`."""
    return open_table(path).rows


def known_ending(path: Path, formats: Sequence[str]) -> str:
    """Returns the file's extension. Raises DataError if it is not one of `formats`."""
    ending = split_name(path)[1]
    if ending not in formats:
        fix = f"Use one of {', '.join(formats)}, compressed or not"
        raise DataError("unrecognised file extension", where=path, fix=fix)
    return ending


def _delimited(path: Path, kind: str, options: _Options) -> Table:
    used = options.encoding
    if used is None and not options.lenient:
        used = guess_encoding(read_bytes(path))
    decoded_lines = _decoded(path, used, options)
    head, size = [], 0
    for line in decoded_lines:
        head.append(line)
        size += len(line)
        if size >= HEAD:
            break
    dialect = delimited.dialect_of(head, kind, whole=size < HEAD)
    rows = delimited.cells(chain(head, decoded_lines), dialect, str(path))
    first = next(rows, None)
    if first is None:
        raise DataError("the file is empty", where=path)
    header = [name.strip("\ufeff \t") for name in first[1]]
    names = list(header)
    fallback = options.header
    if fallback and not any(set(alternative) <= set(names) for alternative in options.wanted):
        required = [name for name in fallback if name not in options.optional]
        names, rows = list(fallback if len(names) != len(required) else required), chain([first], rows)
        header = []
    for number, name in enumerate(names):  # the index of pandas, or empty columns of a spreadsheet
        if not name:
            names[number] = fallback[number] if len(fallback) == len(names) else f"column {number + 1}"
    if len(set(names)) < len(names):
        problem = f"two columns have the same name ({', '.join(names)})"
        fix = "Rename one; without a header, pass `columns`"
        raise DataError(problem, where=f"{path}:{first[0]}", fix=fix)
    notes = [dialect.note(kind)]
    if options.encoding is None and used not in (None, "utf-8-sig"):
        notes.append(f"not UTF-8: read as {used} (`encoding` sets another)")
    table = Table(path, tuple(names), iter(()), notes=tuple(filter(None, notes)), headed=True)
    table.rows = _of_width(table, rows, options, header)
    return table


def _of_width(
    table: Table, lines: Iterator[tuple[int, list[str]]], options: _Options, header: Sequence[str]
) -> Rows:
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
            problem = f"{len(cells)} columns instead of {expected} ({', '.join(table.columns)})"
            fix = "Fix the line; if the file has no header, pass `columns`"
            options.leave_out(DataError(problem, where=f"{table.path}:{number}", fix=fix))


def _short(name: str) -> str:
    return name if len(name) <= 30 else f"{name[:27]}..."


# JSON


def _json_lines(path: Path, options: _Options) -> Rows:
    for number, line in enumerate(_decoded(path, options.encoding, options), 1):
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


def _json(path: Path, options: _Options) -> Rows:
    """Yields the rows of a JSON file in any of the supported layouts."""
    document = _documents(path, options)
    first = next(document, None)
    second = next(document, None)
    rows: Iterator[Any] = chain((value for value in (first, second) if value is not None), document)
    is_list = next(_pieces(path, options), "").lstrip("\ufeff \t\r\n").startswith("[")
    if first is not None and second is None and isinstance(first, dict) and not is_list:
        rows = _unfolded(first, path)
    number = 0
    for number, value in enumerate(rows, 1):
        where = f"{path}: row {number}"
        row = {options.only: value} if options.only and isinstance(value, str) else value
        if not isinstance(row, dict):
            options.leave_out(DataError("not a JSON object", where=where, fix="Write a list of objects"))
            continue
        yield where, row if options.lenient else without_surrogates(row)


def _documents(path: Path, options: _Options) -> Iterator[Any]:
    """Yields the values of a JSON list, or of JSON values one after the other."""
    decode, pieces = json.JSONDecoder().raw_decode, _pieces(path, options)
    text, place, first_line, opened = "", 0, 1, False  # first_line: of `text`, counted from 1
    while True:
        gap = _BETWEEN.match(text, place)
        place = gap.end() if gap else place
        if place == len(text):
            first_line += text.count("\n")
            text, place = next(pieces, ""), 0
            if not text:
                if opened:
                    raise DataError("not valid JSON (the list does not end)", where=path)
                return
            continue
        if text[place] in "[]" and opened == (text[place] == "]"):
            opened, place = not opened, place + 1
            if not opened:
                if rest := (text[place:] + "".join(pieces)).strip():
                    raise DataError(f"not valid JSON ({rest[:20]!r} after the list)", where=path)
                return
            continue
        try:
            value, place = decode(text, place)
        except (ValueError, RecursionError) as error:  # the value may continue in the next piece
            where = f"{path}:{first_line + getattr(error, 'lineno', 1) - 1}"
            first_line += text.count("\n", 0, place)
            added = "".join(islice(pieces, max(1, (len(text) - place) >> 16)))
            text, place = text[place:] + added, 0
            if not added or len(text) > LONGEST_DOCUMENT or isinstance(error, RecursionError):
                raise DataError(f"not valid JSON ({error})", where=where) from None
            continue
        yield value


def _pieces(path: Path, options: _Options) -> Iterator[str]:
    size, pending = 0, []
    for line in _decoded(path, options.encoding, options):
        pending.append(line)
        size += len(line)
        if size >= 1 << 16:
            yield "".join(pending)
            size, pending = 0, []
    if pending:
        yield "".join(pending)


def _unfolded(document: Mapping[str, Any], path: Path) -> Iterator[Any]:
    """Yields the rows of an object: a list in it, its columns (lists or by number), or the object itself."""
    lists = {name: value for name, value in document.items() if isinstance(value, list)}
    rows = [name for name, value in lists.items() if value and all(isinstance(row, dict) for row in value)]
    names = document.get("columns")
    if isinstance(names, list) and isinstance(document.get("data"), list):  # pandas: orient="split"
        yield from (dict(zip(names, row, strict=False)) for row in document["data"])
    elif rows and ("data" in rows or len(rows) == 1):
        yield from document["data" if "data" in rows else rows[0]]
    elif lists and len(lists) == len(document) and len({*map(len, lists.values())}) == 1:
        yield from (dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True))
    elif document and all(isinstance(value, dict) for value in document.values()):
        if all(name.isdecimal() for name in document):  # pandas: orient="index"
            yield from document.values()
        else:
            numbers = dict.fromkeys(key for column in document.values() for key in column)
            yield from ({name: column.get(key) for name, column in document.items()} for key in numbers)
    elif lists or not document:
        problem = f"neither rows nor columns of equal length (it has {', '.join(document) or 'nothing'})"
        raise DataError(problem, where=path, fix="Write a list of objects")
    else:
        yield document


def without_surrogates(value: Any) -> Any:
    """Replaces lone surrogates, which JSON may contain but UTF-8 files cannot, in all texts of a value."""
    if isinstance(value, dict):
        return {without_surrogates(name): without_surrogates(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [without_surrogates(inner) for inner in value]
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _without_nuls(rows: Rows) -> Rows:
    for where, row in rows:
        refuse_nul(row, where)
        yield where, row


def refuse_nul(value: Any, where: str) -> None:
    """Raises DataError if any text of a value contains a NUL, which our output files could not hold."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        refuse_nul(each, where)
    if isinstance(value, str) and "\0" in value:
        raise DataError(NUL, where=where, fix="Remove it")
