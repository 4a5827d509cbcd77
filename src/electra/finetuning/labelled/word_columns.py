"""Reads files with one word per line as sentences of cells.

An empty line, or a line that begins with "-DOCSTART-", ends a sentence. CoNLL-U has ten columns or those in
its comment `# global.columns`; rows of multiword tokens (1-2) and empty nodes (1.1) are skipped. In any other
file columns are separated by tabs or else by white space, as in its first row, and every row has as many.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from electra.data.lines import Place, guess_encoding
from electra.data.table_files import Data
from electra.data.tables import read_bytes, read_lines
from electra.foundation.errors import DataError
from electra.foundation.terminal_text import plural

CONLLU = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
DOCUMENT = "-DOCSTART-"


class Block(NamedTuple):
    """The rows of a sentence."""

    name: str  # from the comment sent_id; "" without one
    where: Place  # its first word
    rows: list[list[str]]  # the cells of each word


@dataclass
class ColumnFile:
    """The sentences of a file of columns."""

    blocks: list[Block]
    width: int  # the number of columns
    names: tuple[str, ...]  # of CoNLL-U's columns; () for any other file
    notes: list[str] = field(default_factory=list)  # reported to the user

    @property
    def rows(self) -> list[list[str]]:
        """The rows of all sentences."""
        return [row for block in self.blocks for row in block.rows]


def read_blocks(source: Data, conllu: bool) -> ColumnFile:
    """Reads the sentences of a file.

    Raises:
        DataError: a row differs from the first in its number of columns, or from CoNLL-U's.
    """
    encoding = guess_encoding(read_bytes(source))
    lines = list(read_lines(source, encoding))
    filled = [line for _, line in lines if line.strip() and not line.startswith(DOCUMENT)]
    rows = [line for line in filled if not line.startswith("#")] or filled
    declared = next((line for line in filled if re.match(r"#\s*global\.columns\s*=", line)), "")
    names = tuple(declared.partition("=")[2].split()) or CONLLU if conllu else ()
    separator = "\t" if conllu or (rows and "\t" in rows[0]) else None
    table = [(place, line, line.rstrip().split(separator)) for place, line in lines]
    width = len(names) or next((len(cells) for _, line, cells in table if line in rows[:1]), 0)
    file = ColumnFile(list(_blocks(table, width, conllu)), width, names)
    if encoding not in ("utf-8", "utf-8-sig"):
        file.notes.append(f"not UTF-8: read as {encoding}")
    return file


def _blocks(table: Sequence[tuple[Place, str, list[str]]], width: int, conllu: bool) -> Iterator[Block]:
    last_cells = {cells[-1] for _, line, cells in table if cells and not line.startswith("#")}
    rows: list[list[str]] = []
    where, name = Place(""), ""
    for place, line, cells in [*table, (where, "", [])]:
        if not line.strip() or line.startswith(DOCUMENT):
            if rows:
                yield Block(name, where, rows)
            rows, name = [], ""
        elif line.startswith("#") and (conllu or (not rows and _is_comment(line, cells, width, last_cells))):
            key, _, value = line.removeprefix("#").partition("=")
            name = value.strip() if key.strip() == "sent_id" else name
        elif len(cells) != width:
            problem = f"{plural(len(cells), 'column')} instead of {width}"
            fix = "Write one word per line, the same columns in each, and an empty line after a sentence"
            raise DataError(problem, where=place, fix=fix)
        elif not conllu or cells[0].isdecimal():
            where = where if rows else place
            rows.append(cells)


def _is_comment(line: str, cells: Sequence[str], width: int, last_cells: set[str]) -> bool:
    """Whether a line that begins with "#" is a comment, rather than such a word with its tag."""
    return len(cells) != width or (line.startswith(("# ", "##")) and cells[-1] not in last_cells)
