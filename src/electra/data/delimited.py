"""Reads and writes the cells of csv and tsv files, in several dialects.

A csv is quoted as in RFC 4180; a tsv is not quoted (GLUE's files contain lone double quotes, and reading them
as csv would swallow rows). If the beginning of a file does not fit, other dialects are tried, and the first
in which all rows have the same number of cells is used, with a note.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from electra.foundation.errors import DataError

MAX_CELL = 1 << 27  # characters; a longer cell has an unclosed quote
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}


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
            notes.append(f"its columns are separated by {_NAMES[self.delimiter]}")
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

    If the file has further lines (not `is_complete`), the last row of `head` may be incomplete. If no dialect
    fits, the usual one is returned.
    """
    first_line = re.sub(r'"[^"]*"?', "", next(filter(str.strip, head), ""))
    if kind == "tsv":
        default = Dialect("\t", quoted=False)
        candidates = [Dialect("\t")] if _is_quoted_throughout(head) else [default, Dialect("\t")]
        other_delimiters = ",;|"
    else:  # spreadsheets write semicolons in locales with decimal commas
        default = Dialect(";" if first_line.count(";") > first_line.count(",") else ",")
        after_spaces = re.compile(
            f'(?:^|{default.delimiter}) +"(?:[^"]|"")*" *(?:{default.delimiter}|$)', re.MULTILINE
        )
        default = replace(default, spaced=any(map(after_spaces.search, head)))
        candidates, other_delimiters = [default], ",;\t|"
    candidates += [each for each in map(Dialect, other_delimiters) if each not in candidates]
    candidates += [Dialect(each.delimiter, backslashes=True) for each in candidates if each.quoted]
    return next((dialect for dialect in candidates if _fits(head, dialect, is_complete)), default)


def _fits(head: Sequence[str], dialect: Dialect, is_complete: bool) -> bool:
    """Whether all rows have the same number of cells, which is more than one."""
    widths: list[int] = []
    try:
        widths.extend(len(row) for _, row in cells(head, dialect, ""))
    except DataError as error:
        if is_complete or "unexpected end" not in error.what:  # the last cell may continue after the head
            return False
    return len(set(widths)) == 1 and widths[0] > 1


def _is_quoted_throughout(head: Sequence[str]) -> bool:
    """Whether a tsv is quoted like a csv: in whole columns, or just in the cells that need quotes."""
    rows = [line.rstrip("\r\n").split("\t") for line in head if line.rstrip("\r\n")]
    cells_with_quotes = [cell for row in rows for cell in row if '"' in cell]
    if len(rows) < 3 or len({*map(len, rows)}) > 1 or not cells_with_quotes:
        return False
    if not all(map(_QUOTED.fullmatch, cells_with_quotes)):
        return False
    columns = list(zip(*rows[1:], strict=True))
    return all('""' in cell[1:-1] for cell in cells_with_quotes) or any(
        all(cell.startswith('"') for cell in column) for column in columns
    )


def format_tsv(rows: Sequence[Sequence[str]]) -> bytes:
    """Formats rows as an unquoted tsv; tabs and line ends inside a cell become spaces."""
    return "".join(
        "\t".join(" ".join(cell.splitlines()).replace("\t", " ") for cell in row) + "\n" for row in rows
    ).encode()


def read_tsv(content: bytes) -> list[list[str]]:
    """Parses the rows that `format_tsv` wrote."""
    return [line.split("\t") for line in content.decode().split("\n") if line]


def format_csv(rows: Sequence[Sequence[str]]) -> bytes:
    """Formats rows as in RFC 4180; an apostrophe keeps spreadsheets from reading a cell as a formula."""
    return "".join(_csv_line([_no_formula(cell) for cell in row]) for row in rows).encode()


def _no_formula(cell: str) -> str:
    is_risky = cell.startswith(("=", "+", "-", "@", "\t", "\r")) and not _NUMBER.fullmatch(cell)
    return f"'{cell}" if is_risky else cell


def _csv_line(row: Sequence[str]) -> str:
    line = io.StringIO(newline="")
    csv.writer(line).writerow(row)  # with "\n" as the line end, it would not quote a "\r"
    return line.getvalue().removesuffix("\r\n") + "\n"
