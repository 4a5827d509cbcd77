"""Reads tables: rows of named columns, each with its place, from every supported format.

csv, tsv        delimited.py; a header line names the columns
jsonl, ndjson   one object per line
json            a list of objects, one object per line, or another layout of a table (layouts.py)
parquet, arrow, feather, and folders that `datasets` saved: columnar.py

Text formats may be compressed, and any file may be split into parts (train-*-of-00008.parquet). Rows are
streamed. Data in memory (`Given`) is read in the same way: rows from Python, or the bytes of standard input.
"""

import io
import json
import math
import re
from ast import literal_eval
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from reprlib import repr as shortened
from typing import IO, Any

from electra.data.tables import columnar, delimited, layouts, lines, table_files
from electra.data.tables.characters import visible
from electra.data.tables.lines import EXPANSION_RATIO, HEAD, SURROGATES, Place, decode_head
from electra.data.tables.table_files import Data, Given
from electra.foundation.errors import DataError, NoWords
from electra.foundation.terminal_text import plural, when

ID_COLUMNS = ("id", "idx", "index")
MAX_NAMES = 3  # that a message lists
SAMPLE = 200  # rows that tell whether a first line is a header
MAX_LINE = 1 << 27  # characters of a line
_ITEM = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d*)?|True|False""", re.DOTALL)
_ITEMS = rf"(?:{_ITEM.pattern})(?:(?:\s*,\s*|\s+)(?:{_ITEM.pattern}))*"
_PRINTED = re.compile(rf"(?:array\()?[\[({{]\s*{_ITEMS},?\s*[\])}}](?:,\s*dtype=\w+\))?", re.DOTALL)
_SCALAR = re.compile(r"np\.\w+\(('[^']*'|\"[^\"]*\"|[^()'\"]*)\)")  # as numpy 2 prints it
_ARRAY = re.compile(r"array\((\[[^\]]*\])(?:,\s*dtype=\w+)?\)")
_EXCEL_SEPARATOR = re.compile("sep=.", re.IGNORECASE)  # a first line that names the delimiter

Row = dict[str, Any]
Rows = Iterator[tuple[Place, Row]]


@dataclass
class Table:
    """A table being read: its columns, and its rows one by one."""

    source: Data
    columns: tuple[str, ...]  # () if they are known only from the rows
    rows: Rows
    dropped: int = 0  # malformed rows left out so far; increases while `rows` is read
    notes: tuple[str, ...] = ()  # for the user, on how the file was read
    headed: bool = False  # whether the columns come from a header line
    fields: tuple[str, ...] = ()  # the columns that have values, and of objects their fields (a.b), if known

    def first_column(self, names: Sequence[str]) -> str | None:
        """Returns the first of the names that is a column, spelled as in the file; None if there is none."""
        columns = map(self.find_column, names)
        return next((column for column in columns if column is not None), None)

    def find_column(self, name: str) -> str | None:
        """Returns the column `name`, a nested field (a.b), or a column that looks the same; else None.

        Case, spaces around a name and invisible characters make no difference.
        """
        outer, _, inner = name.partition(".")
        is_nested = outer in self.columns and (name in self.fields or "." in inner or not self.fields)
        if name in self.columns or (inner and is_nested):
            return name
        matches = [column for column in self.columns if key_of(column) == key_of(name)]
        return matches[0] if len(matches) == 1 else None

    def missing_column(self, names: Sequence[str], option: str, choose: str = "one") -> DataError:
        """Returns the error for a file without these names; `option` chooses `choose` of its columns."""
        names = [name for name in names if "." not in name] or names  # but those of Label Studio
        names = names if len(names) <= MAX_NAMES else [*names[: MAX_NAMES - 1], "other common names"]
        fix = f"It has {', '.join(map(short_name, self.fields))}: choose {choose} with {option}"
        if not self.fields:
            fix = f"It has only lists of objects or texts ({', '.join(map(short_name, self.columns))})"
            fix += ": write a row for each text"
        if self.headed:
            fix += "; if that is not a header line, name all columns with `columns`"
        return DataError(f"no column {' or '.join(names)}", where=self.source, fix=fix)


@dataclass(frozen=True)
class ReadOptions:
    """How a table is read."""

    format: str = ""  # one of the values of FORMATS ("": by the extension)
    header: Sequence[str] = ()  # the columns of a csv or tsv that may lack a header line (GLUE's CoLA)
    required: Sequence[Sequence[str]] = ()  # a header line then has all the names of one of these
    optional: Sequence[str] = ()  # names in `header`, one of which a file without a header line may lack
    drop_malformed: bool = False  # leave out and count rows with a wrong number of cells (QQP has some)
    lenient: bool = False  # return undecodable bytes as surrogates, for the caller to count
    ratio: int = EXPANSION_RATIO  # how many times its size a file may expand to; see `lines.open_bytes`
    only: str = ""  # the only column or field that is needed; JSON rows may then be plain strings
    on_broken: Callable[[DataError], None] | None = None  # receives the errors of rows that are left out
    name: str = ""  # of the file in places and messages ("": its path)

    def leave_out(self, error: DataError) -> None:
        """Passes the error of a row to `on_broken`, or raises it if that is None."""
        if self.on_broken is None:
            raise error from None
        self.on_broken(error)


DEFAULT_OPTIONS = ReadOptions()


# Reading


def open_table(source: Data, options: ReadOptions = DEFAULT_OPTIONS) -> Table:
    """Opens labelled data, held in memory unless it is a csv or tsv; `columns` are those of all rows.

    Raises DataError if the file is missing, empty, or cannot be read, or a text contains a NUL. Rows of a csv
    or tsv are checked as they are read.
    """
    table = stream_table(source, options)
    table.rows = _without_nuls(table.rows)
    table.fields = table.columns
    if not table.headed:
        rows = list(table.rows)
        if not rows:
            raise NoWords("the file is empty", where=source)
        table.columns = tuple(dict.fromkeys(name for _, row in rows for name in row))
        fields = dict.fromkeys(each for _, row in rows for name in row for each in _fields(name, row[name]))
        table.rows, table.fields = iter(rows), tuple(fields)
    if hidden := [name for name in table.columns if visible(name) != name.strip()]:
        listed = ", ".join(map(short_name, map(visible, hidden)))
        table.notes = (*table.notes, f"names of columns with invisible characters: {listed}")
    return table


def _fields(name: str, value: Any) -> list[str]:
    if isinstance(value, dict):
        return [f"{name}.{key}" for key, inner in value.items() if _fields("", inner)]
    items = value if isinstance(value, list) else []
    return [] if any(isinstance(item, dict | list) for item in items) or _are_texts(items) else [name]


def _are_texts(items: Sequence[Any]) -> bool:
    lengths = [len(item.split()) for item in items if isinstance(item, str)]
    return len(items) > 1 and 2 * sum(length > 3 for length in lengths) > len(items)


def read_rows(source: Data) -> Rows:
    """Returns the rows of labelled data with their places; see `open_table`."""
    return open_table(source).rows


def stream_table(source: Data, options: ReadOptions = DEFAULT_OPTIONS) -> Table:
    """Opens rows, a file, a saved folder or a pattern of parts, to be read row by row in bounded memory.

    `columns` is empty if the columns are known only from the rows. Raises DataError if the file is missing or
    cannot be read; faults of rows are raised as they are read.
    """
    if isinstance(source, Given):
        return _open(source, options)
    if source.is_dir() and len(splits := table_files.saved_splits(source)) > 1:
        fix = f"Pass one: {', '.join(str(source / name) for name in splits)}"
        raise DataError("the data set has several splits", where=source, fix=fix)
    files = table_files.files_of(source)
    if not files:
        raise DataError("no such file", where=source)
    # A table of several files has the columns and rows of all.
    tables = [_open(file, options) for file in files]
    notes = [note for table in tables for note in table.notes]
    pattern = table_files.parts_pattern(source)
    if not options.lenient and pattern != source and len(list(source.parent.glob(pattern.name))) > 1:
        notes.append(f"this is one part of several; {pattern.name} matches all of them")
    columns = tuple(dict.fromkeys(name for table in tables for name in table.columns))
    if len(tables) > 1:
        tables[0].rows = chain.from_iterable([table.rows for table in tables])
    tables[0].source, tables[0].columns, tables[0].notes = source, columns, tuple(dict.fromkeys(notes))
    return tables[0]


def _open(source: Data, options: ReadOptions) -> Table:
    options = replace(options, name=options.name or str(source))
    if isinstance(source, Given):
        if source.rows is not None:
            plain = map(columnar.plain, source.rows)
            return Table(source, (), ((Place(str(source), n, False), row) for n, row in enumerate(plain, 1)))
        kind = table_files.FORMATS[source.extension]
    elif not source.exists():
        problem = "a link that leads nowhere" if source.is_symlink() else "no such file"
        raise DataError(problem, where=options.name)
    else:
        kind = options.format or table_files.FORMATS.get(table_files.split_name(source)[1], "")
    if kind in ("parquet", "arrow") and isinstance(source, Path):
        columns, rows = columnar.open_columnar(source, kind, options.name, options.only)
        return Table(source, columns, ((Place(options.name, n, False), row) for n, row in enumerate(rows, 1)))
    if not kind:
        raise table_files.unknown_extension(Path(options.name), table_files.TABLES)
    if kind in ("csv", "tsv"):
        return _delimited(source, kind, options)
    read = _json_lines if kind == "jsonl" else _json
    return Table(source, (), _objects(read(_decoded(source, kind, None, options), options), options))


def _objects(values: Iterable[tuple[Place, Any]], options: ReadOptions) -> Rows:
    """Yields the values of JSON that are objects, or strings if only the text is needed."""
    for place, value in values:
        row = {options.only: value} if options.only and isinstance(value, str) else value
        problem, fix = "not a JSON object", "Write objects"
        match value:
            case [str(text), dict(annotations)]:  # as for the training of spaCy
                row = {"text": text, **annotations}
            case [*cells] if options.header and cells == [*options.header]:
                continue
            case [*cells] if len(cells) == len(options.header):
                row = dict(zip(options.header, cells, strict=True))
            case [*cells] if cells and not options.only:
                problem = f"the row is a list of {plural(len(cells), 'value')}, without names"
                fix = "Name all columns with `columns`"
        if isinstance(row, dict):
            yield place, row if options.lenient else _without_surrogates(row)
        else:
            options.leave_out(DataError(problem, where=place, fix=fix))


def _json_lines(lines: Iterator[str], options: ReadOptions, is_line: bool = True) -> Iterator[tuple[Place, Any]]:
    """Yields the value of each line; of labelled data that is not an object per line, the rows of all."""
    head = [] if options.lenient else [*_until_filled(lines), *_until_filled(lines)]
    if len([*filter(str.strip, head)]) == 1 and (rows := _rows("".join(head), options, is_line=is_line)):
        yield from rows
        return
    lines = chain(head, lines)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        place = Place(options.name, number)
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            if not options.lenient and (rows := _rows(line + "".join(lines), options, number)):
                yield from rows
                return
            fix = "Write one object per line"
            options.leave_out(DataError(f"not valid JSON ({error})", where=place, fix=fix))
            continue
        yield place, value


def _json(lines: Iterator[str], options: ReadOptions) -> Iterator[tuple[Place, Any]]:
    """Yields the rows of a .json file: of a document, read whole, or one value per line, streamed."""
    head = list(_until_filled(lines))
    try:
        is_object = isinstance(json.loads("".join(head).removeprefix("\ufeff") or "[]"), dict)
    except (ValueError, RecursionError):
        is_object = False
    if is_object:
        yield from _json_lines(chain(head, lines), options, is_line=False)
        return
    text = "".join(chain(head, lines)).removeprefix("\ufeff")
    if not options.lenient and (rows := _rows(text, options)):
        yield from rows
        return
    try:
        values = json.loads(text or "[]")
    except (ValueError, RecursionError) as error:
        place = Place(options.name, getattr(error, "lineno", 0))
        raise DataError(f"not valid JSON ({error})", where=place, fix="Write a list of objects") from None
    if not isinstance(values, list):
        fix = "Write a list of objects, such as pandas with orient='records'"
        raise DataError("not a list of rows", where=options.name, fix=fix)
    yield from ((Place(options.name, number, False), value) for number, value in enumerate(values, 1))


def _until_filled(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line
        if line.strip():
            return


def _rows(text: str, options: ReadOptions, line: int = 1, is_line: bool = False) -> list[tuple[Place, Any]]:
    """Returns the rows of JSON documents, [] if there are none; a single one is of this `line`."""
    try:
        values = [*layouts.glued(text)]
    except (ValueError, RecursionError):
        return []
    if len(values) == 1 and isinstance(values[0], dict | list):
        values = layouts.rows_of(values[0], options.name, is_line)
    if len(values) == 1:
        return [(Place(options.name, line), values[0])]
    return [(Place(options.name, number, False), value) for number, value in enumerate(values, line)]


def _without_surrogates(value: Any) -> Any:
    """Returns a JSON value with `?` for lone surrogates in strings, since UTF-8 files cannot hold them."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def open_bytes(source: Data, ratio: int = EXPANSION_RATIO, name: str = "") -> IO[bytes]:
    """Opens data as a decompressed stream. Reading raises DataError if it is damaged or expands too far."""
    if isinstance(source, Given):
        return io.BufferedReader(source.stream or io.BytesIO(source.content))  # type: ignore[type-var]
    return lines.open_bytes(source, ratio, name)


def read_bytes(source: Data) -> bytes:
    """Returns all bytes, decompressed. Raises DataError if they are damaged or expand too far."""
    with open_bytes(source) as stream:
        return stream.read()


def read_lines(source: Data, codec: str | None = None) -> Iterator[tuple[Place, str]]:
    """Yields each line's place and text without its end. Raises DataError for a NUL or undecodable bytes."""
    kind = table_files.FORMATS.get(table_files.extension_of(source), "")
    for number, line in enumerate(_decoded(source, kind, codec, DEFAULT_OPTIONS), 1):
        place = Place(str(source), number)
        refuse_nul(line, place)
        yield place, line.rstrip("\r\n")


def _decoded(source: Data, kind: str, codec: str | None, options: ReadOptions) -> Iterator[str]:
    """Yields the lines of a file with their ends. Raises DataError for undecodable bytes unless lenient."""
    name = options.name or str(source)
    with open_bytes(source, options.ratio, name) as stream:
        head = stream.peek(HEAD)[:HEAD]  # type: ignore[attr-defined]
        lines.refuse_binary(head, kind, name)
        codec = codec or lines.encoding_of(head)
        beginning = decode_head(head, codec)
        lines.refuse_other_content(beginning, kind, name)
        with lines.open_text(stream, codec, newline=lines.line_end(beginning)) as text:
            for number, line in enumerate(lines.lines(text, MAX_LINE, name), 1):
                if not options.lenient and not line.isascii() and SURROGATES.search(line):
                    problem = f"not {'UTF-8' if codec == 'utf-8-sig' else codec}"
                    raise DataError(problem, where=Place(name, number), fix=lines.IN_UTF8)
                yield line


def _delimited(source: Data, kind: str, options: ReadOptions) -> Table:
    """Opens a csv or tsv, after detecting its encoding and dialect, and whether it has a header line."""
    where = options.name
    with open_bytes(source, options.ratio, where) as stream:  # of a corpus, only the beginning is read
        content = stream.peek(HEAD)[:HEAD] if options.lenient else stream.read()  # type: ignore[attr-defined]
    codec = lines.guess_encoding(content, is_complete=not options.lenient or len(content) < HEAD)
    decoded_lines = _decoded(source, kind, codec, options)
    head, size = [], 0
    for line in decoded_lines:
        head.append(line)
        size += len(line)
        if size >= HEAD:
            break
    if head and _EXCEL_SEPARATOR.fullmatch(head[0].strip("\ufeff\r\n")):
        head[0] = "\n"  # keeps the numbers of the lines
    dialect = delimited.dialect_of(head, kind, is_complete=size < HEAD)
    rows = delimited.cells(chain(head, decoded_lines), dialect, where)
    first_row = next(rows, None)
    if first_row is None:
        raise NoWords("the file is empty", where=where)
    header = [name.strip("\ufeff \t") for name in first_row[1]]
    names, default, notes = list(header), list(options.header), [dialect.note(kind)]
    if default and not any(set(alternative) <= set(names) for alternative in options.required):
        without_optional = [name for name in default if name not in options.optional]
        names = without_optional if len(names) == len(without_optional) else list(default)
        sample = list(islice(rows, SAMPLE))
        shown = ", ".join(map(short_name, header))
        if len(names) == len(header) and delimited.is_header(header, [row for _, row in sample]):
            notes.append(f"its first line ({shown}) names columns, and is not a row")
            rows = chain(sample, rows)
        else:
            if delimited.are_names(header):
                notes.append(f"its first line ({shown}) is read as a row")
            rows, header = chain([first_row], sample, rows), []
    for index, name in enumerate(names):  # the index of pandas, or empty columns of a spreadsheet
        if not name:
            names[index] = default[index] if len(default) == len(names) else f"column {index + 1}"
    if len(set(names)) < len(names):
        problem = f"two columns have the same name ({', '.join(map(short_name, names))})"
        fix = "Rename one; without a header, pass `columns`"
        raise DataError(problem, where=Place(where, first_row[0]), fix=fix)
    if codec != "utf-8-sig":
        notes.append(lines.note_guess(codec, "".join(head)))
    table = Table(source, tuple(names), iter(()), notes=tuple(filter(None, notes)), headed=True)
    table.rows = _rows_of_cells(table, rows, options, header, dialect)
    return table


def _rows_of_cells(
    table: Table,
    cells_of_lines: Iterator[tuple[int, list[str]]],
    options: ReadOptions,
    header: Sequence[str],
    dialect: delimited.Dialect,
) -> Rows:
    """Yields rows; a repeated header or another number of cells is left out, or dropped and counted."""
    expected = len(table.columns)
    for number, cells in cells_of_lines:
        place = Place(options.name, number)
        if header and [cell.strip("\ufeff \t") for cell in cells] == header:
            problem, fix = "the header line is repeated", "Remove it: files were joined here"
            options.leave_out(DataError(problem, where=place, fix=fix))
        elif len(cells) == expected:
            yield place, dict(zip(table.columns, cells, strict=True))
        elif options.drop_malformed:
            table.dropped += 1
        else:
            names = ", ".join(map(short_name, table.columns))
            separator = delimited.SEPARATORS[dialect.delimiter]
            problem = f"{plural(len(cells), 'column')} between {separator} instead of {expected} ({names})"
            fix = "Fix the line" + when(not options.header, "; if the file has no header, pass `columns`")
            if dialect.delimiter == "\t" and len(cells) > expected:
                fix += f", or drop the columns after these: cut -f1-{expected}"
            options.leave_out(DataError(problem, where=place, fix=fix))


def _without_nuls(rows: Rows) -> Rows:
    for place, row in rows:
        refuse_nul(row, place)
        yield place, row


def refuse_nul(value: Any, where: object) -> None:
    """Raises DataError if any string in a value contains a NUL, which our output files could not hold."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in items:
        refuse_nul(item, where)
    if isinstance(value, str) and "\0" in value:
        raise DataError("contains a NUL character, so it is not text", where=where, fix="Remove it")


# Cells

# Cells without a text or an answer: what pandas reads as missing, and what spreadsheets and databases write.
MISSING = {
    "",
    "#N/A N/A",
    *str.split("\\N NaT (null) <NA> NaN nan -NaN -nan 1.#IND -1.#IND 1.#QNAN -1.#QNAN"),
}
MISSING |= {*str.split("#N/A #NA #VALUE! #REF! #DIV/0! #NAME? #NUM! #NULL!")}
# Cells that mean the same, unless they look like labels of their column; see `answers.unanswered`.
MARKS = {*str.split("? - -- --- \u2013 \u2014 \u2212 NA N/A n/a n.a. None NULL Null null")}


def lacks_text(value: Any, source: Data | None = None) -> bool:
    """Whether a cell has no text: None, NaN or, in a file (`source`), what is written for these there."""
    if isinstance(value, str):
        cell = value.strip()
        is_file = isinstance(source, Path) or (source is not None and source.rows is None)
        is_mark = cell in MISSING or (cell in MARKS and any(map(str.isalnum, cell)))
        return lines.is_blank(value) or (is_file and is_mark)
    is_nan = isinstance(value, float) and math.isnan(value)
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


def get_field(row: Mapping[str, Any], column: str) -> Any:
    """Returns a cell, or the nested field a.b.c; None if there is none."""
    if column in row or "." not in column:
        return row.get(column)
    first, _, rest = column.partition(".")
    inner = row.get(first)
    return get_field(inner, rest) if isinstance(inner, Mapping) else None


def cell_text(row: Mapping[str, Any], column: str, where: object, empty: Data | None = None) -> str:
    """Returns the text of a cell; words in a list are joined by spaces.

    Raises DataError for other values, and without one unless `empty`, the row's table, is passed: then "".
    """
    value, problem = get_field(row, column), ""
    has_column = column in row or value is not None
    if empty is not None and has_column and lacks_text(value, empty):
        return ""
    fix = f"It has {', '.join(row)}; choose columns with `text_column` and `label_column`"
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        if _are_texts(value):
            problem, fix = f"column {column!r} has a list of texts, not of words", "Write a row for each text"
        value = " ".join(value)
    elif value is None and column in row:
        problem, fix = f"column {column!r} is empty", "Add text, or remove the row"
    elif isinstance(value, dict) and value:
        problem = f"column {column!r} has an object, not text"
        fix = f"Name one of its fields with `text_column`, such as {column}.{next(iter(value))}"
    elif not isinstance(value, str):
        problem = f"column {column!r} has {shortened(value)}, not text"
        problem = f"no field {column!r}" if value is None else problem
    if problem:
        raise DataError(problem, where=where, fix=fix)
    return str(value).encode("utf-8", "replace").decode()  # JSON may have lone surrogates, which are not text


def printed_list(text: str) -> Any:
    """Returns the list or object that JSON, Python or numpy printed, [text] for printed bytes; else None."""
    text = _SCALAR.sub(r"\1", text)
    with suppress(ValueError, RecursionError):
        return value if isinstance(value := json.loads(text), list | dict) else None
    if _PRINTED.fullmatch(text.strip()):
        return list(map(literal_eval, _ITEM.findall(text)))
    with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
        value = literal_eval(_ARRAY.sub(r"\1", text)) if text[:2] in {"b'", 'b"', "{'"} else None
        return [value.decode("utf-8", "replace")] if isinstance(value, bytes) else value
    return None


def row_id(row: Mapping[str, Any], column: str | None, index: int) -> str:
    """Returns a row's id from `column`, or its index (from 0) if it has none."""
    value = row.get(column) if column else None
    return str(index) if value in (None, "") else str(value)


def key_of(name: str) -> str:
    """Returns what columns that look the same have in common."""
    return visible(name).casefold()


def short_name(name: str) -> str:
    """Returns a column's name for a message, without its end if it is long."""
    return name if len(name) <= 30 else f"{name[:27]}..."
