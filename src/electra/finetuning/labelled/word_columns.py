"""Files with one word per line: their lines, sentences and columns.

An empty line, or a line that begins with "-DOCSTART-", ends a sentence. Columns are separated by tabs, else
by spaces and tabs, commas, semicolons or vertical bars: whichever gives all lines the same number of columns.
Lines before a sentence that begin with "#" are comments, unless they are a word with a tag.
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
from electra.foundation.visible import plural

CONLLU = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
MISSING = frozenset({"", "_", "-", "-100"})  # marks of an empty cell
SENTENCE_COLUMNS = {"sentence", "sent", "sentenceid", "sentid", "sid", "sentenceno", "sentenceidx", "sentno"}
SENTENCE_COLUMNS |= {"sentencenumber", "sentencenum", "sentnum", "sentenceindex", "sentidx", "sentencenr"}
MANY = 20  # words from which a column of mostly distinct cells cannot be tags
LONG = 200  # words from which a sentence suggests that the file lacks empty lines


class Block(NamedTuple):
    """The lines of a sentence."""

    name: str
    where: str
    rows: list[list[str]]  # the cells of each word
    comments: tuple[str, ...] = ()


@dataclass
class ColumnFile:
    """The sentences of a file of columns."""

    blocks: list[Block]
    width: int  # columns
    conllu: bool
    header: tuple[str, ...] = ()  # column names, if a comment has them
    notes: list[str] = field(default_factory=list)  # reported to the user


def sentence_column(names: Sequence[str]) -> int | None:
    """Returns the position of the column that numbers the sentences, by its name."""
    plain = [re.sub("[^a-z]", "", name.casefold()) for name in names]
    return next((position for position, name in enumerate(plain) if name in SENTENCE_COLUMNS), None)


def read_blocks(path: Path, conllu: bool) -> ColumnFile:
    """Reads the sentences of a file; one with CoNLL-U's ten columns and ids is CoNLL-U with any ending."""
    encoding = guess_encoding(read_bytes(path))
    lines = list(read_lines(path, encoding))
    words = [line for _, line in lines if line.strip() and not line.startswith(("#", "-DOCSTART-"))]
    words = words or [line for _, line in lines if line.strip()]
    separator = "\t" if conllu else detect_separator(words)
    widths = Counter(len(split_cells(line, separator)) for line in words)
    width = len(CONLLU) if conllu else max(widths, key=lambda w: (widths[w], w), default=0)
    file = ColumnFile([], width, conllu)
    if encoding not in ("utf-8", "utf-8-sig"):
        file.notes.append(f"not UTF-8: read as {encoding}")
    if not conllu and separator == "\t" and width == len(CONLLU) and _has_conllu_ids(words):
        file.conllu = True
        file.notes.append("ten columns that begin with numbers: read as CoNLL-U")
    file.blocks = list(_blocks(path, lines, separator, file))
    if not file.conllu and (comments := sum(len(block.comments) for block in file.blocks)):
        file.notes.append(f"{plural(comments, 'line')} beginning with '#' read as comments")
    return file


def detect_separator(lines: Sequence[str]) -> str:
    """Returns the separator with which most lines have the same number of cells, and more than one.

    " " stands for any number of spaces and tabs.
    """

    def agreement(separator: str) -> float:
        widths = Counter(len(split_cells(line, separator)) for line in lines)
        return max((count for width, count in widths.items() if width > 1), default=0) / max(len(lines), 1)

    return max("\t ,;|", key=agreement)


def split_cells(line: str, separator: str, width: int = 0) -> list[str]:
    """Splits a line into cells.

    If there are more than `width` (0: any number), only the last separators count: a word may be an unquoted
    comma.
    """
    if separator in "\t ":
        return line.split("\t") if separator == "\t" else [cell for cell in re.split("[ \t]+", line) if cell]
    try:
        cells = next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        cells = line.split(separator)
    return cells if not width or len(cells) == width else line.rsplit(separator, width - 1)


def _has_conllu_ids(lines: Sequence[str]) -> bool:
    return all(re.match(r"\d+([-.]\d+)?\t", line) for line in lines)


def _blocks(
    path: Path, lines: Sequence[tuple[int, str]], separator: str, file: ColumnFile
) -> Iterator[Block]:
    split = partial(split_cells, separator=separator, width=file.width)
    tags = {split(line)[-1] for _, line in lines if line.strip() and not line.startswith("#")}
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
        if line.startswith("#") and (file.conllu or not rows) and _is_comment(line, cells, file, tags):
            comments.append(line)
            key, _, value = (part.strip() for part in line.removeprefix("#").partition("="))
            name = value if key == "sent_id" else name
            if key == "global.columns":
                file.header = tuple(value.split())
            continue
        while len(cells) > file.width and not cells[-1]:
            cells.pop()
        if len(cells) != file.width:
            problem = f"{plural(len(cells), 'column')}, but most lines have {file.width}"
            fix = (
                "Write one word per line, the same columns in every line, and an empty line between sentences"
            )
            raise DataError(problem, where=f"{path}:{number}", fix=fix)
        if not file.conllu or cells[0].isdecimal():
            rows.append((number, cells))


def _is_comment(line: str, cells: Sequence[str], file: ColumnFile, tags: set[str]) -> bool:
    if file.conllu or len(cells) != file.width:
        return True
    return file.width > 1 and line[1:2].isspace() and cells[-1] not in tags


# The roles of columns


def drop_empty_columns(file: ColumnFile) -> None:
    """Removes trailing columns that are empty in all lines (tabs at the ends of lines)."""
    while file.width > 1 and all(not row[-1] for block in file.blocks for row in block.rows):
        file.width -= 1
        for block in file.blocks:
            for row in block.rows:
                row.pop()


def numbering(blocks: Sequence[Block], column: int) -> str:
    """Returns what a column of numbers counts.

    "words" (1, 2, 3 in each sentence, or throughout), "sentences" (the same number for each word of one), or
    "" if it contains anything else.
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
    """Returns the first column that is not a numbering."""
    kinds = [numbering(file.blocks, column) for column in range(file.width)]
    words = next((column for column, kind in enumerate(kinds) if not kind), None)
    if words is None:
        problem = f"column 1 numbers the {kinds[0]} (1, 2, ...), and no column has words"
        fix = "Name the column of the words with `text_column`"
        raise DataError(problem, where=file.blocks[0].where, fix=fix)
    return words


def tags_before_words(file: ColumnFile, word: int, is_tag: Callable[[str], bool]) -> int | None:
    """Returns the last column as that of the words if only column `word` has entity tags; else None."""
    rows = [row for block in file.blocks for row in block.rows]
    first, last = {row[word] for row in rows}, {row[-1] for row in rows}
    if len(first) < 2 or not all(map(is_tag, first)) or all(map(is_tag, last)) or last <= MISSING:
        return None
    return file.width - 1


def tag_column(
    file: ColumnFile, word: int, is_tag: Callable[[str], bool], entities: bool = False
) -> tuple[int | None, dict[int, str]]:
    """Finds the last column that can be tags.

    Args:
        file: the file.
        word: the column of the words.
        is_tag: whether a cell is an entity tag. A column of entity tags is preferred to a later one with a
            single value.
        entities: prefer a column of entity tags to any later one.

    Returns:
        The column (None if there is none), and for each column that cannot be tags, why.
    """
    cells = {
        column: [row[column] for block in file.blocks for row in block.rows] for column in range(file.width)
    }
    refused: dict[int, str] = {}
    for column, values in cells.items():
        distinct = {*values}
        if column == word:
            continue
        if distinct <= MISSING:
            refused[column] = f"is always {values[0]!r}" if len(distinct) == 1 else "is empty"
        elif kind := numbering(file.blocks, column):
            refused[column] = f"numbers the {kind}"
        elif len(values) >= MANY and 2 * len(distinct) > len(values):
            refused[column] = f"has {len(distinct):,} different values for {len(values):,} words"
    candidates = [column for column in cells if column != word and column not in refused]
    of_entities = [c for c in candidates if len({*cells[c]}) > 1 and all(map(is_tag, cells[c]))]
    if of_entities and (len({*cells[candidates[-1]]}) == 1 or entities):
        return of_entities[-1], refused
    return (candidates[-1] if candidates else None), refused


def split_by_column(blocks: Sequence[Block], column: int) -> list[Block]:
    """Splits blocks into sentences at changes of a column; an empty cell continues the sentence."""
    sentences: list[Block] = []
    for block in blocks:
        path, _, line = block.where.rpartition(":")
        last = ""
        for offset, row in enumerate(block.rows):
            if not sentences or offset == 0 or row[column] not in ("", last):
                where = f"{path}:{int(line) + offset}" if line.isdecimal() else block.where
                sentences.append(Block(row[column], where, []))
                last = row[column]
            sentences[-1].rows.append(row)
    return sentences
