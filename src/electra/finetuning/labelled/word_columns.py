"""Reads files with one word per line as sentences of cells.

An empty line, or a line that begins with "-DOCSTART-", ends a sentence. Columns are separated by tabs, runs
of spaces and tabs, commas, vertical bars or semicolons, whichever gives most lines the same number of
columns. Columns have names in CoNLL-U, in a comment `# global.columns`, or in a header line; otherwise the
words are the first column that is not all numbers, and the tags are the last column of entity tags, or the
only other column.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from electra.data.lines import Place, guess_encoding
from electra.data.table_files import Data
from electra.data.tables import read_bytes, read_lines
from electra.foundation.errors import DataError
from electra.foundation.terminal_text import plural

CONLLU = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
MISSING = frozenset({"", "_", "-", "-100"})  # cells that mean a missing value
SENTENCE_COLUMN = re.compile("(sentence|sent|s)(id|no|idx|number|num|index|nr)?|sid")  # without other signs
MIN_WORDS_FOR_DISTINCT = 20  # from this many words on, a column of mostly distinct cells cannot be tags


class Block(NamedTuple):
    """The lines of a sentence."""

    name: str  # from the comment sent_id or a sentence column; "" without one
    where: Place  # its first word
    rows: list[list[str]]  # the cells of each word
    comments: tuple[str, ...] = ()


@dataclass
class ColumnFile:
    """The sentences of a file of columns."""

    blocks: list[Block]
    width: int  # the number of columns
    conllu: bool
    header: tuple[str, ...] = ()  # the names of the columns; () if the file has none
    notes: list[str] = field(default_factory=list)  # reported to the user


def sentence_column(names: Sequence[str]) -> int | None:
    """Returns the index of the column whose name says that it numbers sentences; None if there is none."""
    folded_names = [re.sub("[^a-z]", "", name.casefold()) for name in names]
    found = (i for i, name in enumerate(folded_names) if name != "s" and SENTENCE_COLUMN.fullmatch(name))
    return next(found, None)


def read_blocks(source: Data, conllu: bool) -> ColumnFile:
    """Reads the sentences of a file, as CoNLL-U if `conllu`, or if it has CoNLL-U's ten columns and ids.

    Raises:
        DataError: a line differs from most lines in its number of columns.
    """
    encoding = guess_encoding(read_bytes(source))
    lines = list(read_lines(source, encoding))
    texts = [line for _, line in lines if line.strip()]
    texts = [line for line in texts if not line.startswith(("#", "-DOCSTART-"))] or texts
    separator = "\t" if conllu else detect_separator(texts)
    split = partial(split_cells, separator=separator)
    widths = Counter(len(_without_empty_end(split(line))) for line in texts)
    file = ColumnFile([], max(widths, key=lambda width: (widths[width], width), default=0), conllu)
    declared = next((line for _, line in lines if re.match(r"#\s*global\.columns\s*=", line)), "")
    file.header = tuple(declared.partition("=")[2].split())
    if encoding not in ("utf-8", "utf-8-sig"):
        file.notes.append(f"not UTF-8: read as {encoding}")
    has_ids = separator == "\t" and all(re.match(r"\d+([-.]\d+)?\t", line) for line in texts)
    if not conllu and has_ids and file.width == len(CONLLU):
        file.conllu = True
        file.notes.append("ten columns that begin with numbers: read as CoNLL-U")
    if file.conllu:
        file.header = file.header or CONLLU
        file.width = len(file.header)
    file.blocks = list(_blocks(lines, partial(split, width=file.width), file))
    if not file.conllu and (num_comments := sum(len(block.comments) for block in file.blocks)):
        file.notes.append(f"{plural(num_comments, 'line')} beginning with '#' read as comments")
    return file


def detect_separator(lines: Sequence[str]) -> str:
    """Returns the separator that splits the most lines into the same number of cells, at least two.

    " " stands for any number of spaces and tabs.
    """

    def agreement(separator: str) -> int:
        widths = Counter(len(split_cells(line, separator)) for line in lines)
        return max((count for width, count in widths.items() if width > 1), default=0)

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


def _without_empty_end(cells: list[str]) -> list[str]:
    while len(cells) > 1 and not cells[-1]:
        cells = cells[:-1]
    return cells


def _blocks(
    lines: Sequence[tuple[Place, str]], split: Callable[[str], list[str]], file: ColumnFile
) -> Iterator[Block]:
    tags = {split(line)[-1] for _, line in lines if line.strip() and not line.startswith("#")}
    rows: list[tuple[Place, list[str]]] = []
    comments: list[str] = []
    name = ""
    for place, line in [*lines, (Place(""), "")]:
        if not line.strip() or line.startswith("-DOCSTART-"):
            if rows:
                yield Block(name, rows[0][0], [cells for _, cells in rows], tuple(comments))
                rows, comments, name = [], [], ""
            continue
        cells = split(line)
        if line.startswith("#") and (file.conllu or not rows) and _is_comment(line, cells, file, tags):
            comments.append(line)
            key, _, value = (part.strip() for part in line.removeprefix("#").partition("="))
            name = value if key == "sent_id" else name
            continue
        if len(cells) > file.width:
            cells = [*cells[: file.width], *_without_empty_end(cells[file.width - 1 :])[1:]]
        if len(cells) != file.width:
            problem = f"{plural(len(cells), 'column')}, but most lines have {file.width}"
            fix = (
                "Write one word per line, the same columns in every line, and an empty line after a sentence"
            )
            raise DataError(problem, where=place, fix=fix)
        if not file.conllu or cells[0].isdecimal():
            rows.append((place, cells))


def _is_comment(line: str, cells: Sequence[str], file: ColumnFile, tags: set[str]) -> bool:
    """Whether a line that begins with "#" is a comment, rather than such a word with its tag."""
    if file.conllu or len(cells) != file.width:
        return True
    return file.width > 1 and line.startswith(("# ", "##")) and cells[-1] not in tags


def split_by_column(blocks: Sequence[Block], column: int) -> list[Block]:
    """Splits blocks into sentences at changes of a column; an empty cell continues the sentence."""
    sentences: list[Block] = []
    for block in blocks:
        last_value = ""
        for offset, row in enumerate(block.rows):
            if not sentences or offset == 0 or row[column] not in ("", last_value):
                place = block.where._replace(number=block.where.number + offset)
                sentences.append(Block(row[column], place, []))
                last_value = row[column]
            sentences[-1].rows.append(row)
    return sentences


def columns_by_content(file: ColumnFile, is_tag: Callable[[str], bool]) -> tuple[int, int | None]:
    """Returns the columns of the words and of the tags in a file whose columns have no names.

    The tags are None if no column can be tags, or several can.

    Raises:
        DataError: there is no column of words.
    """
    columns = list(zip(*(row for block in file.blocks for row in block.rows), strict=True))
    numbers = [all(map(str.isdecimal, cells)) for cells in columns]
    if all(numbers):
        fix = "Name the column of the words with `text_column`"
        raise DataError("every column has only numbers", where=file.blocks[0].where, fix=fix)
    word = numbers.index(False)
    entities = [i for i, cells in enumerate(columns) if len({*cells}) > 1 and all(map(is_tag, cells))]
    if word in entities and file.width - 1 not in entities:  # the tag before its word
        return file.width - 1, word
    others = [
        i
        for i, cells in enumerate(columns)
        if i != word
        and not {*cells} <= MISSING
        and (len(cells) < MIN_WORDS_FOR_DISTINCT or 2 * len({*cells}) <= len(cells))
    ]
    tags = [i for i in entities if i != word][-1:] or [i for i in others if not numbers[i]] or others
    return word, tags[0] if len(tags) == 1 else None


def sentence_numbers(file: ColumnFile, word: int) -> int | None:
    """Returns the column before the words that numbers the sentences, in a file without empty lines."""
    for column in range(word if len(file.blocks) == 1 else 0):
        if any(above[column] == below[column] for above, below in pairwise(file.blocks[0].rows)):
            return column
    return None
