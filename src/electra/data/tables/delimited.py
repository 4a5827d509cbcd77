"""Reads and writes the cells of csv and tsv files, in several dialects.

A csv is quoted as in RFC 4180; a tsv is not quoted (GLUE's files contain lone double quotes, and reading them
as csv would swallow rows). If the beginning of a file does not fit, other dialects are tried, and the first
in which most rows have the same number of cells is used, with a note.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from electra.foundation.errors import DataError

MAX_CELL = 1 << 27  # characters; a longer cell has an unclosed quote
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
SEPARATORS = {"\n": "line breaks", "|": "vertical bars", ";": "semicolons", ",": "commas", "\t": "tabs"}
_NAME = re.compile(r"(?!(?:NA|N/A|NaN|nan|None|NULL|null)$)[^\W\d][\w./#() -]{0,30}")  # of a column


@dataclass(frozen=True)
class Dialect:
    """How the cells of a line are separated and quoted."""

    delimiter: str
    quoted: bool = True
    backslashes: bool = False  # quotes inside cells are escaped by backslashes, not doubled
    spaced: bool = False  # spaces between delimiter and quote

    def note(self, kind: str) -> str:
        """Describes what is unusual about this dialect in a file of this kind; "" if nothing is."""
        usual_delimiters = "\t" if kind == "tsv" else ",;"
        notes = []
        if self.delimiter not in usual_delimiters:
            notes.append(f"its columns are separated by {SEPARATORS[self.delimiter]}")
        if kind == "tsv" and self.delimiter == "\t" and self.quoted:
            notes.append("its cells are quoted as in a csv, so the quotes are removed")
        if self.spaced:
            notes.append("its quoted cells begin after spaces, which are removed")
        if self.backslashes:
            notes.append("quotes inside its cells are escaped by backslashes, which are removed")
        return ", and ".join(notes)


def cells(lines: Iterable[str], dialect: Dialect, where: str) -> Iterator[tuple[int, list[str]]]:
    """Yields (number of the first line, cells) of each row that is not empty; `lines` include their ends.

    `where` is the file's name in messages. Raises DataError for lines that are not valid in this dialect.
    """
    if not dialect.quoted:
        for number, line in enumerate(lines, 1):
            if content := line.rstrip("\r\n"):
                yield number, content.split(dialect.delimiter)
        return
    csv.field_size_limit(MAX_CELL)
    reader = csv.reader(
        lines,
        delimiter=dialect.delimiter,
        strict=True,
        doublequote=not dialect.backslashes,
        escapechar="\\" if dialect.backslashes else None,
        skipinitialspace=dialect.spaced,
    )
    first_line = 1  # where the current row begins; a quoted cell may span several lines
    try:
        for row in reader:
            if row:
                yield first_line, row
            first_line = reader.line_num + 1
    except csv.Error as error:
        problem, fix = f"not valid csv ({error})", ""
        if "new-line character" in str(error):  # Python's own advice is for programmers
            problem, fix = "a carriage return in an unquoted cell", "Use the same line end everywhere"
        raise DataError(problem, where=f"{where}:{first_line}", fix=fix) from None


def dialect_of(head: Sequence[str], kind: str, is_complete: bool) -> Dialect:
    """Detects the dialect of a file of this kind ("csv" or "tsv") from its first lines.

    If the file has further lines (not `is_complete`), the last row of `head` may be incomplete. If several
    dialects fit equally well, the usual one is returned.
    """
    first_line = re.sub(r'"[^"]*"?', "", next(filter(str.strip, head), ""))
    if kind == "tsv":
        default = Dialect("\t", quoted=False)
        candidates = [Dialect("\t")] if _is_quoted_throughout(head) else [default, Dialect("\t")]
        other_delimiters = ",;|"
    else:  # spreadsheets write semicolons in locales with decimal commas
        default = Dialect(";" if first_line.count(";") > first_line.count(",") else ",")
        mark = default.delimiter
        after_spaces = re.compile(f'(?:^|{mark}) +"(?:[^"]|"")*" *(?:{mark}|$)', re.MULTILINE)
        default = replace(default, spaced=any(map(after_spaces.search, head)))
        candidates, other_delimiters = [default], ",;\t|"
    candidates += [each for each in map(Dialect, other_delimiters) if each not in candidates]
    candidates += [Dialect(each.delimiter, backslashes=True) for each in candidates if each.quoted]
    candidates += [Dialect("\t", quoted=False)]
    return max(candidates, key=lambda dialect: _regularity(head, dialect, is_complete))


def _regularity(head: Sequence[str], dialect: Dialect, is_complete: bool) -> float:
    """Returns the share of rows with the usual number of cells; 0 if that is one, or the dialect is wrong."""
    widths: Counter[int] = Counter()
    try:
        for _, row in cells(head, dialect, ""):
            widths[len(row)] += 1
    except DataError as error:
        if is_complete or "unexpected end" not in error.what:  # the last cell may continue after the head
            return 0.0
    (width, count), *_ = widths.most_common(1) or [(1, 0)]
    return count / widths.total() if width > 1 else 0.0


def are_names(cells: Sequence[str]) -> bool:
    """Whether all cells of a row could be names of columns: a few words without numbers before them."""
    return all(len(cell.split()) < 4 and _NAME.fullmatch(cell.strip()) for cell in cells)


def is_header(first: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether a first row certainly names the columns of the others.

    No other row has one of its names in that column, and a column has only numbers, or few different values.
    """
    columns = list(zip(*(row for row in rows if len(row) == len(first)), strict=True))
    numbers = [column for column in columns if all(map(_NUMBER.fullmatch, column))]
    is_regular = bool(numbers) or any(3 * len({*column}) <= len(column) for column in columns)
    is_new = not any(name in column for name, column in zip(first, columns, strict=False))
    return are_names(first) and is_regular and is_new


def _is_quoted_throughout(head: Sequence[str]) -> bool:
    """Whether a tsv is quoted like a csv: in whole columns, or just in the cells that need quotes."""
    rows = [line.rstrip("\r\n").split("\t") for line in head if line.rstrip("\r\n")]
    cells_with_quotes = [cell for row in rows for cell in row if '"' in cell]
    if len(rows) < 3 or len({*map(len, rows)}) > 1 or not cells_with_quotes:
        return False
    if not all(map(_QUOTED.fullmatch, cells_with_quotes)):
        return False
    columns = list(zip(*rows[1:], strict=True))
    are_escaped = all('""' in cell[1:-1] for cell in cells_with_quotes)
    return are_escaped or any(all(cell.startswith('"') for cell in column) for column in columns)


def format_tsv(rows: Sequence[Sequence[str]]) -> bytes:
    """Formats rows as an unquoted tsv; tabs and line ends inside a cell become spaces."""
    lines = ("\t".join(" ".join(cell.splitlines()).replace("\t", " ") for cell in row) for row in rows)
    return "".join(f"{line}\n" for line in lines).encode()


def read_tsv(content: bytes) -> list[list[str]]:
    """Parses the rows that `format_tsv` wrote."""
    return [line.split("\t") for line in content.decode().split("\n") if line]


def format_csv(rows: Sequence[Sequence[str]], copied: Collection[str] = ()) -> bytes:
    """Formats rows as in RFC 4180; the first is the header.

    An apostrophe keeps spreadsheets from reading a cell as a formula, except in the columns `copied`.
    """
    as_is = [name in copied for name in rows[0]]
    guarded = ([c if own else _no_formula(c) for own, c in zip(as_is, row, strict=True)] for row in rows)
    return "".join(map(_csv_line, guarded)).encode()


def _no_formula(cell: str) -> str:
    is_risky = cell.startswith(("=", "+", "-", "@", "\t", "\r")) and not _NUMBER.fullmatch(cell)
    return f"'{cell}" if is_risky else cell


def _csv_line(row: Sequence[str]) -> str:
    line = io.StringIO(newline="")
    csv.writer(line).writerow(row)  # with "\n" as the line end, it would not quote a "\r"
    return line.getvalue().removesuffix("\r\n") + "\n"
