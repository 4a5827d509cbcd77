"""Rows of named columns, from every format that tables come in: the one reader of tables.

csv, tsv        delimited.py; a header line names the columns
jsonl, ndjson   an object a line
json            a list of objects; an object with such a list; columns of equal length, as pandas writes them;
                or objects one after the other
parquet, arrow, feather, and folders that `datasets` saved: columnar.py
zip             with one such file in it

Each also compressed, and in parts (train-*-of-00008.parquet). Rows are streamed, each with its place
("file.csv:12", or "file.json: row 12" where lines do not count); a file that unfolds to far more than it
takes on disk is refused before memory is taken.
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
from electra.data.columnar import Room, Row
from electra.data.lines import (
    COMPRESSIONS,
    DAMAGE,
    HEAD,
    SURROGATES,
    decoded,
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
SAVED, SAVED_SPLITS = "state.json", "dataset_dict.json"  # what marks the folders that `datasets` saves
SMALL, RATIO = 64 << 20, 50  # bytes that any file may unfold to, and how often its own size beyond
LONGEST_RECORD = 1 << 27  # characters of a line
LONGEST_DOCUMENT = 1 << 28  # of a JSON value that is no list
NUL = "a NUL character: not text"
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # half of a pair, or a lone one
_BETWEEN = re.compile(r"[\s,]*")  # values
_PART = re.compile(r"(.*)-(\d{5})-of-(\d{5})(\..*)?")

Rows = Iterator[tuple[str, Row]]
"""Each row with its place."""


@dataclass
class Table:
    """A file being read: its columns, and its rows one by one."""

    path: Path
    columns: tuple[str, ...]  # () where only the rows tell
    rows: Rows
    dropped: int = 0  # malformed rows left out so far; grows while `rows` is read
    notes: tuple[str, ...] = ()  # what was done to read it
    headed: bool = False  # its columns are those of a header line

    def column(self, wanted: Sequence[str]) -> str | None:
        """The first of the wanted columns that the file has, with its own capitals."""
        return next((found for name in wanted if (found := self.named(name)) is not None), None)

    def named(self, name: str) -> str | None:
        """The column of that name; or of one that differs by case alone; or a field within one (a.b)."""
        if name in self.columns or ("." in name and name.partition(".")[0] in self.columns):
            return name
        alike = [column for column in self.columns if column.casefold() == name.casefold()]
        return alike[0] if len(alike) == 1 else None

    def no_column(self, wanted: Sequence[str], option: str) -> DataError:
        known = f"It has {', '.join(map(_short, self.columns))}: name one with {option}"
        if self.headed:
            known += "; if that is not a header line, name all columns with `columns`"
        return DataError(f"no column {' or '.join(wanted)}", where=self.path, fix=known)


def open_table(  # noqa: PLR0917
    path: Path,
    header: Sequence[str] = (),
    wanted: Sequence[Sequence[str]] = (),
    drop_malformed: bool = False,
    encoding: str | None = None,
    optional: Sequence[str] = (),
) -> Table:
    """Open labelled data, whose rows fit in memory. `columns` are those of all rows.

    header: the columns' names, for a csv or tsv that may come without a header line (GLUE's CoLA). Its first
        line is then taken as a header only when it has all the names of one of the alternatives in `wanted`.
    drop_malformed: leave out rows with a wrong number of cells and count them (QQP as distributed has some)
        instead of stopping.
    encoding: of a csv or tsv (None: UTF-8, or what else it looks like, with a note).
    optional: the names in `header` of which a file without a header line may lack one.
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
    """As `open_table`, row by row in bounded memory; `columns` are empty where only all rows tell them.

    format: one of the values of FORMATS (by default the ending tells).
    lenient: bytes that are not of the encoding (UTF-8 where none is given) come as surrogates, for the caller
        to count; else they are errors.
    ratio: how often its own size a file may unfold to, beyond what any may.
    only: the one column or field wanted, where others need not be read; JSON may then have it alone, as a
        string.
    broken: called with what is wrong with a row, which is then left out (by default that is raised).
    """
    parts = parts_of(path)
    if not parts:
        raise DataError("no such file", where=path)
    options = _Options(header, wanted, drop_malformed, encoding, optional, lenient, ratio, only, broken)
    tables = [_open(part, format, options) for part in parts]
    first = tables[0]
    if len(tables) == 1:
        whole = together(path)
        if whole != path and len(list(path.parent.glob(whole.name))) > 1:
            first.notes += (f"one part of several: {whole.name} names them all",)
        return first
    columns = tuple(dict.fromkeys(name for table in tables for name in table.columns))
    notes = tuple(dict.fromkeys(note for table in tables for note in table.notes))
    return replace(first, path=path, columns=columns, notes=notes, rows=chain(*(t.rows for t in tables)))


@dataclass(frozen=True)
class _Options:
    """What `stream_table` was given."""

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
        """Raise what is wrong with a row, unless the caller counts it."""
        if self.broken is None:
            raise error from None
        self.broken(error)


def get(row: Mapping[str, Any], column: str) -> Any:
    """A cell; or the field a.b.c within nested ones. None where there is none."""
    if column in row or "." not in column:
        return row.get(column)
    first, _, rest = column.partition(".")
    inner = row.get(first)
    return get(inner, rest) if isinstance(inner, Mapping) else None


def cell_text(row: Mapping[str, Any], column: str, where: str) -> str:
    """A cell that must be a text; a list of words is joined by spaces."""
    value = get(row, column)
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        value = " ".join(value)
    if not isinstance(value, str):
        fix = f"It has {', '.join(row)}; name columns with `text_column` and `label_column`"
        if value is None and column in row:
            what, fix = f"column {column!r} is empty", "Fill in a text, or leave the row out"
        elif value is None:
            what = f"no field {column!r}"
        else:
            what = f"column {column!r} has {value!r}, not a text"
        raise DataError(what, where=where, fix=fix)
    return value.encode("utf-8", "replace").decode()  # JSON can contain lone surrogates, which are not text


def row_id(row: Mapping[str, Any], column: str | None, number: int) -> str:
    """The id that a row gives itself, else its number from 0."""
    given = row.get(column) if column else None
    return str(number) if given in (None, "") else str(given)


# Which files belong to a path


def is_saved(folder: Path) -> bool:
    """Whether `datasets` saved a data set there."""
    return (folder / SAVED).is_file()


def saved_splits(folder: Path) -> dict[str, Path]:
    """The splits in a folder of several that `datasets` saved, by name; {} for another folder."""
    if not (folder / SAVED_SPLITS).is_file():
        return {}
    return {each.name: each for each in sorted(folder.iterdir()) if is_saved(each)}


def parts_of(path: Path) -> list[Path]:
    """The files or saved folders that a path stands for: itself, or those that its pattern matches. Raises
    DataError where it matches some of the parts that there should be.
    """
    if path.exists() or not any(character in path.name for character in "*?["):
        return [path]
    found = sorted(path.parent.glob(path.name))
    expected = re.search(r"-\*-of-(\d{5})", path.name)
    if expected and len(found) != int(expected[1]):
        fix = "Get the others, or pass one of them by its name"
        raise DataError(f"{len(found)} of {int(expected[1])} parts are here", where=path, fix=fix)
    return found


def data_digest(path: Path) -> str:
    """SHA-256 of a file, or of the digests of several that are read as one."""
    files = files_of(path)
    if files == [path]:
        return durable.sha256(path)
    return hashlib.sha256("".join(map(durable.sha256, files)).encode()).hexdigest()


def together(path: Path) -> Path:
    """The pattern of all parts of which this file is one (train-00000-of-00002.parquet), else the file."""
    part = _PART.fullmatch(path.name)
    if part and part[3] == "00001":
        return path
    return path.with_name(f"{part[1]}-*-of-{part[3]}{part[4] or ''}") if part else path


def split_name(path: Path) -> tuple[str, str]:
    """A file's name without its endings, and the ending: "train-10k.jsonl.gz" -> ("train-10k", ".jsonl"). Of
    parts and of folders that `datasets` saved the name is that of the whole: "train".
    """
    if is_saved(path):
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
    """How much a file of labelled data may unfold to: text shrinks to a tenth, hardly ever to a fiftieth."""
    return SMALL + ratio * path.stat().st_size


def read_bytes(path: Path) -> bytes:
    """The whole file, decompressed; DataError where it unfolds to more than any text does."""
    with open_bytes(path) as stream:
        return stream.read()


def open_bytes(path: Path, ratio: int = RATIO) -> io.BufferedReader:
    """A file, decompressed, as a stream that ends in a DataError where it is damaged or unfolds too far."""
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
    """A folder that `datasets` saved."""
    if several := saved_splits(path):
        if len(several) > 1:
            fix = f"Pass one: {', '.join(str(path / name) for name in several)}"
            raise DataError("a data set of several splits", where=path, fix=fix)
        return _folder(next(iter(several.values())), options)
    files = files_of(path)
    tables = [_columnar(file, "arrow", options) for file in files]
    columns = tuple(dict.fromkeys(name for table in tables for name in table.columns))
    return Table(path, columns, chain.from_iterable(table.rows for table in tables))


def files_of(path: Path) -> list[Path]:
    """The files read for a path: itself, its parts, or those of a folder that `datasets` saved."""
    found: list[Path] = []
    for part in parts_of(path):
        found += _saved_files(part) if part.is_dir() else [part]
    return found


def _saved_files(folder: Path) -> list[Path]:
    if several := saved_splits(folder):
        return [file for each in several.values() for file in _saved_files(each)]
    try:
        listed = json.loads((folder / SAVED).read_bytes())["_data_files"]
        names = [str(entry["filename"]) for entry in listed]
        if any(Path(name).name != name for name in names):
            raise ValueError("a file elsewhere")
    except FileNotFoundError:
        fix = "Pass a file, or a folder that save_to_disk wrote"
        raise DataError("this is a folder", where=folder, fix=fix) from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"names no data files ({error})", where=folder / SAVED) from None
    return [folder / name for name in names]


def _columnar(path: Path, kind: str, options: _Options) -> Table:
    columns, rows = columnar.READERS[kind]
    with ExitStack() as stack:
        plain = path
        if path.suffix.lower() in COMPRESSIONS:  # these formats are read from their end
            plain = _spooled(stack, open_bytes(path, options.ratio), path)
        names = columns(plain, str(path))
        table = Table(path, names, iter(()))
        wanted = table.named(options.only) if options.only else None
        only = wanted and [wanted if wanted in names else wanted.partition(".")[0]]
        room = Room(most_bytes(path, options.ratio), str(path))
        made = rows(plain, str(path), room, only or None)
        return replace(table, rows=_closing(stack.pop_all(), _numbered(path, made)))


def _spooled(stack: ExitStack, stream: IO[bytes], path: Path) -> Path:
    """A copy that is removed when the stack is closed."""
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
    """The one table in a zip file."""
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
                what = f"{len(tables)} tables in it ({', '.join(names[:5])})"
                raise DataError(what, where=path, fix="Unpack it, and pass one file")
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="electra-")))
            target = folder / Path(tables[0]).name
            room = Room(most_bytes(path, options.ratio), str(path))
            with archive.open(tables[0]) as stream, open(target, "wb") as file:
                while piece := stream.read(1 << 20):
                    room.spend(len(piece))
                    file.write(piece)
        except (
            zipfile.BadZipFile,
            zipfile.LargeZipFile,
            NotImplementedError,
            RuntimeError,
            *DAMAGE,
        ) as error:
            what, fix = f"damaged, or not a zip file ({error})", "Download or compress it again"
            raise DataError(what, where=path, fix=fix) from None
        table = _open(target, "", options)
        inner, shown = str(target), f"{path}/{tables[0]}"
        rows = ((where.replace(inner, shown), row) for where, row in table.rows)
        return replace(table, path=path, rows=_closing(stack.pop_all(), rows))


# Text


def _decoded(path: Path, encoding: str | None, options: _Options) -> Iterator[str]:
    """The lines of a file with their ends."""
    with open_bytes(path, options.ratio) as stream:
        head = stream.peek(HEAD)[:HEAD]
        used = encoding_of(head, encoding)
        with open_text(stream, used, newline=line_end(decoded(head, used))) as text:
            for number, line in enumerate(lines.lines(text, LONGEST_RECORD, str(path)), 1):
                if not options.lenient and not line.isascii() and SURROGATES.search(line):
                    what = f"not {'UTF-8' if used == 'utf-8-sig' else used}"
                    fix = "Save the file as UTF-8, or name its `encoding`"
                    raise DataError(what, where=f"{path}:{number}", fix=fix)
                yield line


def read_lines(path: Path, encoding: str | None = None) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, without their ends."""
    for number, line in enumerate(_decoded(path, encoding, _Options()), 1):
        refuse_nul(line, f"{path}:{number}")
        yield number, line.rstrip("\r\n")


def read_rows(path: Path) -> Rows:
    """The rows of labelled data, where the columns are not asked for."""
    return open_table(path).rows


def known_ending(path: Path, formats: Sequence[str]) -> str:
    """The file's ending, which must be one of `formats`."""
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
    given = options.header
    if given and not any(set(together) <= set(names) for together in options.wanted):
        kept = [name for name in given if name not in options.optional]
        names, rows = list(given if len(names) != len(kept) else kept), chain([first], rows)
        header = []
    for number, name in enumerate(names):  # an index of pandas, or columns that a spreadsheet left empty
        if not name:
            names[number] = given[number] if len(given) == len(names) else f"column {number + 1}"
    if len(set(names)) < len(names):
        what = f"two columns have one name ({', '.join(names)})"
        raise DataError(what, where=f"{path}:{first[0]}", fix="Rename one; without a header, pass `columns`")
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
            what, fix = "the header line again", "Remove it: files were joined here"
            options.leave_out(DataError(what, where=f"{table.path}:{number}", fix=fix))
        elif len(cells) == expected:
            yield f"{table.path}:{number}", dict(zip(table.columns, cells, strict=True))
        elif options.drop_malformed:
            table.dropped += 1
        else:
            what = f"{len(cells)} columns instead of {expected} ({', '.join(table.columns)})"
            fix = "Fix the line; if the file has no header, pass `columns`"
            options.leave_out(DataError(what, where=f"{table.path}:{number}", fix=fix))


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
        yield where, row if options.lenient or not _SURROGATE.search(line) else mended(row)


def _json(path: Path, options: _Options) -> Rows:
    """The rows of a JSON file, whichever way it has them."""
    document = _documents(path, options)
    first = next(document, None)
    second = next(document, None)
    rows: Iterator[Any] = chain((value for value in (first, second) if value is not None), document)
    listed = (
        next(_pieces(path, options), "").lstrip("\ufeff \t\r\n").startswith("[")
    )  # a list of one is a row
    if first is not None and second is None and isinstance(first, dict) and not listed:
        rows = _unfolded(first, path)
    number = 0
    for number, value in enumerate(rows, 1):
        where = f"{path}: row {number}"
        row = {options.only: value} if options.only and isinstance(value, str) else value
        if not isinstance(row, dict):
            options.leave_out(DataError("not a JSON object", where=where, fix="Write a list of objects"))
            continue
        yield where, row if options.lenient else mended(row)


def _documents(path: Path, options: _Options) -> Iterator[Any]:
    """The values of a list, or values that follow each other, one by one."""
    decode, pieces = json.JSONDecoder().raw_decode, _pieces(path, options)
    text, place, above, opened = "", 0, 1, False  # above: the number of the text's first line
    while True:
        gap = _BETWEEN.match(text, place)
        place = gap.end() if gap else place
        if place == len(text):
            above += text.count("\n")
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
        except (ValueError, RecursionError) as error:  # it may go on below
            where = f"{path}:{above + getattr(error, 'lineno', 1) - 1}"
            above += text.count("\n", 0, place)
            added = "".join(islice(pieces, max(1, (len(text) - place) >> 16)))
            text, place = text[place:] + added, 0
            if not added or len(text) > LONGEST_DOCUMENT or isinstance(error, RecursionError):
                raise DataError(f"not valid JSON ({error})", where=where) from None
            continue
        yield value


def _pieces(path: Path, options: _Options) -> Iterator[str]:
    size, held = 0, []
    for line in _decoded(path, options.encoding, options):
        held.append(line)
        size += len(line)
        if size >= 1 << 16:
            yield "".join(held)
            size, held = 0, []
    if held:
        yield "".join(held)


def _unfolded(document: Mapping[str, Any], path: Path) -> Iterator[Any]:
    """The rows of one object: those of a list in it; its columns, as lists or by number; or itself."""
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
        what = f"neither rows nor columns of equal length (it has {', '.join(document) or 'nothing'})"
        raise DataError(what, where=path, fix="Write a list of objects")
    else:
        yield document


def mended(value: Any) -> Any:
    """JSON can contain lone surrogates, which are not text and no file of ours could hold."""
    if isinstance(value, dict):
        return {mended(name): mended(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [mended(inner) for inner in value]
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _without_nuls(rows: Rows) -> Rows:
    for where, row in rows:
        refuse_nul(row, where)
        yield where, row


def refuse_nul(value: Any, where: str) -> None:
    """Refuse a value with a NUL in any of its texts: no line of our own files could hold that."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        refuse_nul(each, where)
    if isinstance(value, str) and "\0" in value:
        raise DataError(NUL, where=where, fix="Remove it")
