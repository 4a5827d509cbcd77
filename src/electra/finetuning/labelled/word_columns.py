"""Splits files with one word per line into sentences and columns, and infers the columns' roles.

An empty line, or a line that begins with "-DOCSTART-", ends a sentence. Columns are separated by tabs, runs
of spaces and tabs, commas, vertical bars or semicolons, whichever gives most lines the same number of
columns. Lines before a sentence that begin with "#" are comments, unless they look like a word with a tag.
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
MISSING = frozenset({"", "_", "-", "-100"})  # cells that mean a missing value
SENTENCE_COLUMNS = {"sentence", "sent", "sentenceid", "sentid", "sid", "sentenceno", "sentenceidx", "sentno"}
SENTENCE_COLUMNS |= {"sentencenumber", "sentencenum", "sentnum", "sentenceindex", "sentidx", "sentencenr"}
MIN_WORDS_FOR_DISTINCT = 20  # from this many words on, a column of mostly distinct cells cannot be tags
MAX_PLAUSIBLE_WORDS = 200  # a sentence of more words suggests that the file lacks empty lines


class Block(NamedTuple):
    """The lines of a sentence."""

    name: str  # from the comment sent_id or a sentence column; "" without one
    where: str  # file:line of its first word
    rows: list[list[str]]  # the cells of each word
    comments: tuple[str, ...] = ()


@dataclass
class ColumnFile:
    """The sentences of a file of columns."""

    blocks: list[Block]
    width: int  # the number of columns
    conllu: bool
    header: tuple[str, ...] = ()  # column names, if a comment has them
    notes: list[str] = field(default_factory=list)  # reported to the user


def sentence_column(names: Sequence[str]) -> int | None:
    """Returns the index of the column whose name says that it numbers sentences; None if there is none."""
    folded_names = [re.sub("[^a-z]", "", name.casefold()) for name in names]
    return next((position for position, name in enumerate(folded_names) if name in SENTENCE_COLUMNS), None)


def read_blocks(path: Path, conllu: bool) -> ColumnFile:
    """Reads the sentences of a file, as CoNLL-U if `conllu`, or if it has CoNLL-U's ten columns and ids.

    Raises:
        DataError: a line differs from most lines in its number of columns.
    """
    encoding = guess_encoding(read_bytes(path))
    lines = list(read_lines(path, encoding))
    word_lines = [line for _, line in lines if line.strip() and not line.startswith(("#", "-DOCSTART-"))]
    word_lines = word_lines or [line for _, line in lines if line.strip()]
    separator = "\t" if conllu else detect_separator(word_lines)
    widths = Counter(len(split_cells(line, separator)) for line in word_lines)
    width = len(CONLLU) if conllu else max(widths, key=lambda w: (widths[w], w), default=0)
    file = ColumnFile([], width, conllu)
    if encoding not in ("utf-8", "utf-8-sig"):
        file.notes.append(f"not UTF-8: read as {encoding}")
    if not conllu and separator == "\t" and width == len(CONLLU) and _has_conllu_ids(word_lines):
        file.conllu = True
        file.notes.append("ten columns that begin with numbers: read as CoNLL-U")
    file.blocks = list(_blocks(path, lines, separator, file))
    if not file.conllu and (num_comments := sum(len(block.comments) for block in file.blocks)):
        file.notes.append(f"{plural(num_comments, 'line')} beginning with '#' read as comments")
    return file


def detect_separator(lines: Sequence[str]) -> str:
    """Returns the separator that splits the most lines into the same number of cells, at least two.

    " " stands for any number of spaces and tabs.
    """

    def agreement(separator: str) -> float:
        widths = Counter(len(split_cells(line, separator)) for line in lines)
        return max((count for width, count in widths.items() if width > 1), default=0) / max(len(lines), 1)

    return max("\t ,;|", key=agreement)


def split_cells(line: str, separator: str, width: int = 0) -> list[str]:
    """Splits a line into cells.

    If a line has more than `width` cells (0: any number), only its last separators count, because a word may
    be an unquoted comma.
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
    sentence_id = ""
    for line_number, line in [*lines, (0, "")]:
        if not line.strip() or line.startswith("-DOCSTART-"):
            if rows:
                yield Block(
                    sentence_id, f"{path}:{rows[0][0]}", [cells for _, cells in rows], tuple(comments)
                )
                rows, comments, sentence_id = [], [], ""
            continue
        cells = split(line)
        if line.startswith("#") and (file.conllu or not rows) and _is_comment(line, cells, file, tags):
            comments.append(line)
            key, _, value = (part.strip() for part in line.removeprefix("#").partition("="))
            sentence_id = value if key == "sent_id" else sentence_id
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
            raise DataError(problem, where=f"{path}:{line_number}", fix=fix)
        if not file.conllu or cells[0].isdecimal():
            rows.append((line_number, cells))


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


def numbered_unit(blocks: Sequence[Block], column: int) -> str:
    """Determines whether a column numbers words or sentences.

    Returns:
        "words" (1, 2, 3 in each sentence, or throughout the file), "sentences" (all words of a sentence have
        the same number), or "" if the column numbers neither.
    """
    cells = [[row[column] for row in block.rows] for block in blocks]
    if not all(cell.isdecimal() for row in cells for cell in row) or sum(map(len, cells)) < 2:
        return ""
    numbers = [list(map(int, row)) for row in cells]
    flat_numbers = [number for row in numbers for number in row]
    if flat_numbers == list(range(flat_numbers[0], flat_numbers[0] + len(flat_numbers))):
        return "words"
    if all(row[0] in (0, 1) and row == list(range(row[0], row[0] + len(row))) for row in numbers):
        return "words"
    steps = {after - before for before, after in pairwise(flat_numbers)}
    if len(blocks) > 1:
        steps = {number - row[0] for row in numbers for number in row}
        return "sentences" if steps == {0} and any(len(row) > 1 for row in numbers) else ""
    return "sentences" if steps == {0, 1} else ""


def word_column(file: ColumnFile) -> int:
    """Returns the first column that numbers neither words nor sentences.

    Raises:
        DataError: there is no such column.
    """
    kinds = [numbered_unit(file.blocks, column) for column in range(file.width)]
    word_position = next((column for column, kind in enumerate(kinds) if not kind), None)
    if word_position is None:
        problem = f"column 1 numbers the {kinds[0]} (1, 2, ...), and no column has words"
        fix = "Name the column of the words with `text_column`"
        raise DataError(problem, where=file.blocks[0].where, fix=fix)
    return word_position


def word_column_after_tags(file: ColumnFile, word: int, is_tag: Callable[[str], bool]) -> int | None:
    """Returns the last column if it must hold the words because column `word` has the tags; else None."""
    rows = [row for block in file.blocks for row in block.rows]
    word_cells, last_cells = {row[word] for row in rows}, {row[-1] for row in rows}
    if (
        len(word_cells) < 2
        or not all(map(is_tag, word_cells))
        or all(map(is_tag, last_cells))
        or last_cells <= MISSING
    ):
        return None
    return file.width - 1


def tag_column(
    file: ColumnFile, word: int, is_tag: Callable[[str], bool], entities: bool = False
) -> tuple[int | None, dict[int, str]]:
    """Returns the last column that can be tags.

    Args:
        file: the file.
        word: the column of the words.
        is_tag: says whether a cell is an entity tag. A column of entity tags is preferred to a later column
            with a single value.
        entities: whether a column of entity tags is preferred to any later column.

    Returns:
        The column (None if there is none), and the reason for each column that cannot be tags.
    """
    cells = {
        column: [row[column] for block in file.blocks for row in block.rows] for column in range(file.width)
    }
    rejection_reasons: dict[int, str] = {}
    for column, values in cells.items():
        distinct_cells = {*values}
        if column == word:
            continue
        if distinct_cells <= MISSING:
            rejection_reasons[column] = f"is always {values[0]!r}" if len(distinct_cells) == 1 else "is empty"
        elif kind := numbered_unit(file.blocks, column):
            rejection_reasons[column] = f"numbers the {kind}"
        elif len(values) >= MIN_WORDS_FOR_DISTINCT and 2 * len(distinct_cells) > len(values):
            rejection_reasons[column] = (
                f"has {len(distinct_cells):,} different values for {len(values):,} words"
            )
    candidates = [column for column in cells if column != word and column not in rejection_reasons]
    entity_columns = [
        column for column in candidates if len({*cells[column]}) > 1 and all(map(is_tag, cells[column]))
    ]
    if entity_columns and (len({*cells[candidates[-1]]}) == 1 or entities):
        return entity_columns[-1], rejection_reasons
    return (candidates[-1] if candidates else None), rejection_reasons


def split_by_column(blocks: Sequence[Block], column: int) -> list[Block]:
    """Splits blocks into sentences at changes of a column; an empty cell continues the sentence."""
    sentences: list[Block] = []
    for block in blocks:
        path, _, line = block.where.rpartition(":")
        last_value = ""
        for offset, row in enumerate(block.rows):
            if not sentences or offset == 0 or row[column] not in ("", last_value):
                where = f"{path}:{int(line) + offset}" if line.isdecimal() else block.where
                sentences.append(Block(row[column], where, []))
                last_value = row[column]
            sentences[-1].rows.append(row)
    return sentences
