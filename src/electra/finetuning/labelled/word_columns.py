"""Files with one word a line: their lines, sentences and columns.

An empty line, or a line that begins with "-DOCSTART-", ends a sentence. Columns are separated by tabs, else
by spaces and tabs, commas, semicolons or vertical bars: by what gives all lines as many columns. Lines that
begin with "#" before a sentence are comments where they are no word with a tag.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from electra.data.lines import guess_encoding
from electra.data.rows import read_bytes, read_lines
from electra.foundation.errors import DataError

CONLLU = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
MISSING = frozenset({"", "_", "-", "-100"})  # marks of a cell without a value
SENTENCE_COLUMNS = {"sentence", "sent", "sentenceid", "sentid", "sid", "sentenceno", "sentenceidx", "sentno"}
SENTENCE_COLUMNS |= {"sentencenumber", "sentencenum", "sentnum", "sentenceindex", "sentidx", "sentencenr"}
MANY = 20  # words from which a column of all different cells cannot be tags
LONG = 200  # words of a sentence that is rather a file without empty lines


class Block(NamedTuple):
    """A sentence."""

    name: str
    where: str
    rows: list[list[str]]  # a word's cells
    comments: tuple[str, ...] = ()


@dataclass
class ColumnFile:
    blocks: list[Block]
    width: int
    conllu: bool
    header: tuple[str, ...] = ()  # where a comment names the columns
    notes: list[str] = field(default_factory=list)


def sentence_column(names: Sequence[str]) -> int | None:
    """The column that says which sentence a word belongs to, by its name."""
    plain = [re.sub("[^a-z]", "", name.casefold()) for name in names]
    return next((place for place, name in enumerate(plain) if name in SENTENCE_COLUMNS), None)


def read_blocks(path: Path, conllu: bool) -> ColumnFile:
    """The sentences of a file. A file of any ending with CoNLL-U's ten columns is read as CoNLL-U."""
    encoding = guess_encoding(read_bytes(path))
    lines = list(read_lines(path, encoding))
    words = [line for _, line in lines if line.strip() and not line.startswith(("#", "-DOCSTART-"))]
    words = words or [line for _, line in lines if line.strip()]
    between = "\t" if conllu else separator(words)
    widths = Counter(len(cells_of(line, between)) for line in words)
    width = len(CONLLU) if conllu else max(widths, key=lambda w: (widths[w], w), default=0)
    found = ColumnFile([], width, conllu)
    if encoding not in ("utf-8", "utf-8-sig"):
        found.notes.append(f"not UTF-8: read as {encoding}")
    if not conllu and between == "\t" and width == len(CONLLU) and _conllu_ids(words):
        found.conllu = True
        found.notes.append("ten columns that begin with numbers: read as CoNLL-U")
    found.blocks = list(_blocks(path, lines, between, found))
    if not found.conllu and (comments := sum(len(block.comments) for block in found.blocks)):
        found.notes.append(f"{comments} comment lines that begin with '#' are no words")
    return found


def separator(lines: Sequence[str]) -> str:
    """What gives all lines as many cells and more than one; else most of them. " " stands for any number of
    spaces and tabs.
    """

    def agreeing(separator: str) -> float:
        widths = Counter(len(cells_of(line, separator)) for line in lines)
        return max((count for width, count in widths.items() if width > 1), default=0) / max(len(lines), 1)

    return max("\t ,;|", key=agreeing)


def cells_of(line: str, separator: str, width: int = 0) -> list[str]:
    """The cells of a line. Where it has more than `width`, as words may be commas that are not quoted, its
    last separators count.
    """
    if separator in "\t ":
        return line.split("\t") if separator == "\t" else [cell for cell in re.split("[ \t]+", line) if cell]
    try:
        cells = next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        cells = line.split(separator)
    return cells if not width or len(cells) == width else line.rsplit(separator, width - 1)


def _conllu_ids(lines: Sequence[str]) -> bool:
    return all(re.match(r"\d+([-.]\d+)?\t", line) for line in lines)


def _blocks(path: Path, lines: Sequence[tuple[int, str]], between: str, file: ColumnFile) -> Iterator[Block]:
    split = partial(cells_of, separator=between, width=file.width)
    others = {split(line)[-1] for _, line in lines if line.strip() and not line.startswith("#")}
    rows: list[tuple[int, list[str]]] = []
    comments: list[str] = []
    name = ""
    for number, line in [*lines, (0, "")]:
        if not line.strip() or line.startswith("-DOCSTART-"):
            if rows:
                yield Block(name, f"{path}:{rows[0][0]}", [cells for _, cells in rows], tuple(comments))
                rows, comments, name = [], [], ""
            continue
        cells = split(line)
        if line.startswith("#") and (file.conllu or not rows) and _is_comment(line, cells, file, others):
            comments.append(line)
            key, _, value = (part.strip() for part in line.removeprefix("#").partition("="))
            name = value if key == "sent_id" else name
            if key == "global.columns":
                file.header = tuple(value.split())
            continue
        while len(cells) > file.width and not cells[-1]:
            cells.pop()
        if len(cells) != file.width:
            columns = f"{len(cells)} column{'s' * (len(cells) != 1)}"
            what = f"{columns} instead of {file.width}, which most lines have"
            fix = "One word a line, an empty line between sentences, the same columns in every line"
            raise DataError(what, where=f"{path}:{number}", fix=fix)
        if not file.conllu or cells[0].isdecimal():
            rows.append((number, cells))


def _is_comment(line: str, cells: Sequence[str], file: ColumnFile, tags: set[str]) -> bool:
    if file.conllu or len(cells) != file.width:
        return True
    return file.width > 1 and line[1:2].isspace() and cells[-1] not in tags


# Which column is what


def without_empty_columns(file: ColumnFile) -> None:
    """Remove last columns in which no line has anything: tabs at the ends of lines."""
    while file.width > 1 and all(not row[-1] for block in file.blocks for row in block.rows):
        file.width -= 1
        for block in file.blocks:
            for row in block.rows:
                row.pop()


def numbering(blocks: Sequence[Block], column: int) -> str:
    """What a column of numbers counts: "words" (1, 2, 3 in each sentence, or throughout), "sentences" (the
    same number for each word of one), or "" where it holds something else.
    """
    cells = [[row[column] for row in block.rows] for block in blocks]
    if not all(cell.isdecimal() for row in cells for cell in row) or sum(map(len, cells)) < 2:
        return ""
    numbers = [list(map(int, row)) for row in cells]
    flat = [number for row in numbers for number in row]
    if flat == list(range(flat[0], flat[0] + len(flat))):
        return "words"
    if all(row[0] in (0, 1) and row == list(range(row[0], row[0] + len(row))) for row in numbers):
        return "words"
    steps = {after - before for before, after in pairwise(flat)}
    if len(blocks) > 1:
        steps = {number - row[0] for row in numbers for number in row}
        return "sentences" if steps == {0} and any(len(row) > 1 for row in numbers) else ""
    return "sentences" if steps == {0, 1} else ""


def word_column(file: ColumnFile) -> int:
    """The first column that does not count."""
    kinds = [numbering(file.blocks, column) for column in range(file.width)]
    found = next((column for column, kind in enumerate(kinds) if not kind), None)
    if found is None:
        what = f"column 1 counts {kinds[0]} (1, 2, ...), and no column has words"
        raise DataError(what, where=file.blocks[0].where, fix="Name the words' column with `text_column`")
    return found


def tags_before_words(file: ColumnFile, word: int, is_tag: Callable[[str], bool]) -> int | None:
    """The column of the words where the first has tags of entities, and the last has other cells."""
    rows = [row for block in file.blocks for row in block.rows]
    first, last = {row[word] for row in rows}, {row[-1] for row in rows}
    if len(first) < 2 or not all(map(is_tag, first)) or all(map(is_tag, last)) or last <= MISSING:
        return None
    return file.width - 1


def tag_column(
    file: ColumnFile, word: int, is_tag: Callable[[str], bool], entities: bool = False
) -> tuple[int | None, dict[int, str]]:
    """The last column that can be tags: (its number, why each other after the word cannot).

    is_tag: whether it is a tag of a named entity. A column of one value throughout gives way to one of such;
        where `entities` are wanted, any other column does.
    """
    cells = {
        column: [row[column] for block in file.blocks for row in block.rows] for column in range(file.width)
    }
    refused: dict[int, str] = {}
    for column, values in cells.items():
        different = {*values}
        if column == word:
            continue
        if different <= MISSING:
            refused[column] = f"is {values[0]!r} throughout" if len(different) == 1 else "is empty"
        elif kind := numbering(file.blocks, column):
            refused[column] = f"counts {kind}"
        elif len(values) >= MANY and 2 * len(different) > len(values):
            refused[column] = f"has {len(different):,} different values in {len(values):,} words"
    left = [column for column in cells if column != word and column not in refused]
    found = [c for c in left if len({*cells[c]}) > 1 and all(map(is_tag, cells[c]))]
    if left and found and (len({*cells[left[-1]]}) == 1 or entities):
        return found[-1], refused
    return (left[-1] if left else None), refused


def by_sentence_column(blocks: Sequence[Block], column: int) -> list[Block]:
    """Sentences cut where a column has another value; an empty cell goes with the row above."""
    made: list[Block] = []
    for block in blocks:
        path, _, line = block.where.rpartition(":")
        last = ""
        for offset, row in enumerate(block.rows):
            if not made or offset == 0 or row[column] not in ("", last):
                where = f"{path}:{int(line) + offset}" if line.isdecimal() else block.where
                made.append(Block(row[column], where, []))
                last = row[column]
            made[-1].rows.append(row)
    return made
