"""Reads files with one word per line as sentences of cells.

An empty line, a line that begins with "-DOCSTART-", or markup such as <s> ends a sentence. CoNLL-U has ten
columns or those in its comment `# global.columns`; rows of multiword tokens (1-2) and empty nodes (1.1) are
skipped. In any other file columns are separated by tabs or else by white space, as in its first row, and
every row has as many; in files of predicates and arguments (CoNLL-2012), sentences may differ, and the
columns that all have are read. Lines such as "the/DET film/NOUN" are sentences, too.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from electra.data.tables.lines import Place, guess_encoding
from electra.data.tables.table import read_bytes, read_lines
from electra.data.tables.table_files import Data
from electra.foundation.errors import DataError
from electra.foundation.terminal_text import plural

CONLLU = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
WIDE = 10  # columns; from here on, sentences may differ in their number
SAMPLE = 1000  # cells that show whether lines hold sentences
BOUNDARY = re.compile(r"-DOCSTART-.*|EOS|</?[a-zA-Z]\w*( [^<>]*)?/?>")


class Block(NamedTuple):
    """The rows of a sentence."""

    name: str  # from the comment sent_id; "" without one
    where: Place  # its first word
    rows: list[list[Any]]  # the cells of each word


@dataclass
class ColumnFile:
    """The sentences of a file of columns."""

    blocks: list[Block]
    width: int  # the number of columns
    names: tuple[str, ...]  # of CoNLL-U's columns; () for any other file
    notes: list[str]  # reported to the user
    lines: list[tuple[Place, str]]  # all, as they are in the file

    @property
    def rows(self) -> list[list[str]]:
        """The rows of all sentences."""
        return [row for block in self.blocks for row in block.rows]


def read_blocks(source: Data, conllu: bool) -> ColumnFile:
    """Reads the sentences of a file (`conllu`: of CoNLL-U); DataError if rows differ in their columns."""
    encoding, notes = guess_encoding(read_bytes(source)), list[str]()
    all_lines = [*read_lines(source, encoding)]
    lines = [(place, line) for place, line in all_lines if line.strip() != "<g/>"]
    if not conllu and (mark := joining_mark([line for _, line in lines])):
        notes.append(f"read as a sentence per line, with {mark!r} between word and tag")
        cells = [(place, cell) for place, line in lines for cell in [*line.split(), ""]]
        lines = [(place, "\t".join(cell.rsplit(mark, 1))) for place, cell in cells]
    filled = [line for _, line in lines if line.strip() and not BOUNDARY.fullmatch(line.strip())]
    first = next((line for line in filled if not line.startswith("#")), filled[0] if filled else "")
    declared = next((line for line in filled if re.match(r"#\s*global\.columns\s*=", line)), "")
    names = tuple(declared.partition("=")[2].split()) or (CONLLU if conllu else ())
    separator = "\t" if names or "\t" in first else None
    table = [(place, line, line.rstrip().split(separator)) for place, line in lines]
    file = ColumnFile([], len(names) or len(first.rstrip().split(separator)), names, notes, all_lines)
    _fill(file, table)
    if widths := {len(block.rows[0]) for block in file.blocks}:
        file.width = min(widths)
    if len(widths) > 1:
        notes.append(f"sentences have {file.width} to {max(widths)} columns: the first {file.width} are read")
        for block in file.blocks:
            block.rows[:] = [row[: file.width] for row in block.rows]
    if encoding not in ("utf-8", "utf-8-sig"):
        notes.append(f"not UTF-8: read as {encoding}")
    return file


def joining_mark(lines: Sequence[str]) -> str:
    """Returns what joins words and tags in lines such as "the/DET film/NOUN"; "" in any other file."""
    cells = [*islice((cell for line in lines for cell in line.split()), SAMPLE)]
    if len(cells) > 3 and not any("\t" in line.strip() for line in lines):
        for mark in "/_|":
            joined = [cell for cell in cells if re.fullmatch(rf".+[{mark}][^{mark}]+", cell)]
            if len(joined) > 0.95 * len(cells):
                return mark
    return ""


def _fill(file: ColumnFile, table: Sequence[tuple[Place, str, list[str]]]) -> None:
    width, has_numbers = file.width, file.names[:1] == ("ID",)
    tags = {cells[-1] for _, line, cells in table if cells and not line.startswith("#")}
    rows: list[list[str]] = []
    doubtful: list[str] = []
    name, skipped = "", Counter[str]()
    for place, line, cells in table:
        is_boundary = len(cells) != width and BOUNDARY.fullmatch(line.strip())
        expected = len(rows[0]) if rows else width
        if not line.strip() or is_boundary or line.startswith("-DOCSTART-"):
            rows, name = [], ""
        elif line.startswith("#") and (has_numbers or (not rows and _is_comment(line, cells, width, tags))):
            key, _, value = line.removeprefix("#").partition("=")
            name = value.strip() if key.strip() == "sent_id" else name
            doubtful += [line] if len(cells) == width and not has_numbers else []
        elif len(cells) != expected and (rows or file.names or min(len(cells), width) < WIDE):
            problem = f"{plural(len(cells), 'column')} instead of {expected}: {line[:40]!r}"
            fix = "Write one word per line, the same columns in each, and an empty line after a sentence"
            raise DataError(problem, where=place, fix=fix)
        elif not has_numbers or cells[0].isdecimal():
            if not rows:
                file.blocks.append(Block(name, place, rows))
            rows.append(cells)
        else:
            skipped["multiword token" if "-" in cells[0] else "empty node"] += 1
    if skipped:
        listed = " and ".join(plural(count, name) for name, count in sorted(skipped.items(), reverse=True))
        file.notes.append(f"{listed} left out: the words are read")
    if doubtful:
        file.notes.append(f"{plural(len(doubtful), 'line')} read as comments, such as {doubtful[0][:40]!r}")


def _is_comment(line: str, cells: Sequence[str], width: int, tags: set[str]) -> bool:
    """Whether a line before a sentence that begins with "#" is a comment, rather than such a word."""
    if len(cells) != width:
        return re.match(r"#([\s#]|begin|end|[\w.]+\s*[=:])", line) is not None
    return line.startswith(("# ", "##")) and cells[-1] not in {*tags, cells[0]}
