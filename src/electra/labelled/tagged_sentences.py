"""Sentences of tagged words.

.conllu          CoNLL-U: ten columns, of which ranges (1-2) and empty nodes (1.1) are skipped; a tag may also
                 be a key of MISC (GED=i)
.m2              sentences with edits (S and A lines): a word is "i" where an edit of the file's first
                 annotator (the lowest number) touches it, else "c"; where words are missing, the word after
                 the gap is "i", or the last word (the convention of Rei and Yannakoudakis 2016)
.jsonl .parquet  a list of words and a list of tags in each row; .csv the same as texts split at spaces
other endings    columns: one word a line, an empty line between sentences, tabs (or else spaces) between
                 columns; the word is the first, the tag the last unless named, here or in a first line with
                 such names (word, tag); a file of one column has no tags. Lines that begin with "-DOCSTART-"
                 are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from electra.data.rows import known_ending, open_table, read_lines, row_id
from electra.errors import DataError
from electra.labelled.examples import Example, Split

CONLLU = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
LISTS = (".jsonl", ".ndjson", ".parquet", ".csv")
COLUMNS = (".tsv", ".txt", ".conll", ".bio", ".iob", ".iob2", ".bioes")
FORMATS = (".conllu", ".m2", *LISTS, *COLUMNS)
NOTHING = "_"  # CoNLL-U's empty cell
CORRECT, INCORRECT = "c", "i"  # the labels of an M2 file
_LANGUAGE = re.compile(r"([a-z]{2,3}):")


@dataclass(frozen=True)
class TagColumns:
    """What to look for: alternatives for the column of the words and that of the tags."""

    word: tuple[str, ...]
    tag: tuple[str, ...]
    header: tuple[str, ...] = ()  # the columns' names, for a file of columns
    absent: str = "O"  # the tag of a word without the key, where the tag is a key of MISC

    def begin(self, rows: Sequence[Sequence[str]]) -> bool:
        """Whether the first of a file's rows is a header: the columns' names as given; or names of the words'
        column and of the tags'; or the words' name first, and last what is no tag of the sentence under it.
        """
        first, *others = rows
        if self.header:
            return tuple(first) == self.header[: len(first)]
        if {*self.word} & {*first} and {*self.tag} & {*first}:
            return True
        return first[0] in (*self.word, "form", "FORM") and (
            len(first) == 1 or first[-1] not in {row[-1] for row in others}
        )


@dataclass(frozen=True)
class Sentence:
    """Words with what the file says of each."""

    words: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]  # further columns, each as long as the words

    def __len__(self) -> int:
        return len(self.words)


def universal_dependencies(path: Path) -> list[Sentence]:
    """CoNLL-U as words with (universal part of speech, number of the head word from 1; 0 for the root)."""
    return read_columns(path, columns=(3, 6), word=1)


def read_columns(path: Path, columns: Sequence[int], word: int = 0) -> list[Sentence]:
    """CoNLL-U or a file of columns, the wanted columns given by number, counted from 0."""
    found = []
    for block in _blocks(path, ".conllu" in path.name):
        if (width := len(block.rows[0])) <= max(word, *columns):
            raise DataError(
                f"{width} columns instead of at least {max(word, *columns) + 1}", where=block.where
            )
        kept = tuple(tuple(row[column] for row in block.rows) for column in columns)
        found.append(Sentence(tuple(row[word] for row in block.rows), kept))
    if not found:
        raise DataError("no sentences: the file is empty", where=path)
    return found


class Block(NamedTuple):
    """A sentence in a file of columns."""

    name: str
    where: str
    rows: list[list[str]]  # a word's cells


def read_sentences(path: Path, names: TagColumns, labelled: bool) -> Split:
    """One example a sentence: its texts are the words, its gold their tags, None where the file has none."""
    ending = known_ending(path, FORMATS)
    found = (
        _m2(path)
        if ending == ".m2"
        else _lists(path, names)
        if ending in LISTS
        else _columns(path, names, ending == ".conllu", labelled)
    )
    examples = []
    for number, example in enumerate(found):
        if labelled and example.gold is None:
            what = f"no tags under {' or '.join(names.tag)}" if names.tag else "no tags"
            raise DataError(what, where=example.where, fix="Name their column with `label_column`")
        if example.gold is not None and len(example.gold) != len(example.texts):
            raise DataError(f"{len(example.gold)} tags for {len(example.texts)} words", where=example.where)
        examples.append(replace(example, id=example.id or str(number)))
    if not examples:
        raise DataError("no sentences: the file is empty", where=path)
    return _without_language(examples) if ending in COLUMNS else Split(tuple(examples))


def _blocks(path: Path, conllu: bool) -> Iterator[Block]:
    """The sentences of a file of columns, line by line."""
    lines: list[tuple[int, list[str]]] = []
    name, separator, width = "", "", len(CONLLU) if conllu else 0
    for number, line in [*read_lines(path), (0, "")]:
        if not line.strip():
            if lines:
                yield Block(name, f"{path}:{lines[0][0]}", [cells for _, cells in lines])
            lines, name = [], ""
        elif line.startswith("-DOCSTART-"):
            continue
        elif conllu and line.startswith("#"):
            key, _, value = line.removeprefix("#").partition("=")
            name = value.strip() if key.strip() == "sent_id" else name
        else:
            separator = separator or ("\t" if conllu or "\t" in line else " ")
            cells = line.split("\t") if separator == "\t" else [cell for cell in line.split(" ") if cell]
            width = width or len(cells)
            if len(cells) != width:
                fix = "One word a line, an empty line between sentences, the same columns in every line"
                raise DataError(f"{len(cells)} columns instead of {width}", where=f"{path}:{number}", fix=fix)
            if not conllu or cells[0].isdecimal():
                lines.append((number, cells))


def _columns(path: Path, names: TagColumns, conllu: bool, labelled: bool) -> Iterator[Example]:
    blocks = list(_blocks(path, conllu))
    width = len(blocks[0].rows[0]) if blocks else 0
    if blocks and not conllu and names.begin(blocks[0].rows):
        names = replace(names, header=tuple(blocks[0].rows.pop(0)))
        blocks = [block for block in blocks if block.rows]
    if names.header and not conllu and blocks and len(names.header) != width:
        if labelled or width > len(names.header):
            raise DataError(
                f"{width} columns, and `columns` names {len(names.header)}", where=blocks[0].where
            )
        names = replace(names, header=names.header[:width])  # a file to predict may lack the tags
    # columns have names (given, or CoNLL-U's) and numbers from 1; without names the first is "word" and the
    # last "tag"
    known = {str(i + 1): i for i in range(width)} | {
        name: i for i, name in enumerate(CONLLU if conllu else names.header)
    }
    if not conllu and not names.header:
        known |= {"word": 0} | ({"tag": width - 1} if width > 1 else {})
    word = next((known[name] for name in (*names.word, "form", "FORM") if name in known), None)
    if word is None and blocks:
        raise DataError(
            f"no column {' or '.join(names.word)}",
            where=path,
            fix=f"It has {', '.join(known)}: name one with `text_column`",
        )
    tags_of = _tags_of(blocks, known, names, conllu)
    for block in blocks:
        tags = tags_of(block)
        none = not tags or (conllu and set(tags) == {NOTHING})
        yield Example(
            block.name, block.where, tuple(row[word or 0] for row in block.rows), None if none else tags
        )


def _tags_of(
    blocks: Sequence[Block], known: dict[str, int], names: TagColumns, conllu: bool
) -> Callable[[Block], tuple[str, ...]]:
    """How to find the tags of a sentence: in a column, or under a key of MISC. () where there are none."""
    column = next((known[name] for name in names.tag if name in known), None)
    if column is not None:
        return lambda block: tuple(row[column] for row in block.rows)
    used = {key for block in blocks for row in block.rows for key in _misc(row)} if conllu else set()
    key = next((name for name in names.tag if name in used), None)
    if key is None:
        return lambda block: ()
    return lambda block: tuple(_misc(row).get(key, names.absent) for row in block.rows)


def _misc(row: Sequence[str]) -> dict[str, str]:
    return dict(pair.partition("=")[::2] for pair in row[-1].split("|"))


def _lists(path: Path, names: TagColumns) -> Iterator[Example]:
    table = open_table(path)
    word, tag = table.column(names.word), table.column(names.tag)
    if word is None:
        raise table.no_column(names.word, "`text_column`")
    for number, (where, row) in enumerate(table.rows):
        words, tags = _list(row.get(word), word, where), row.get(tag) if tag else None
        if words:
            found = _list(tags, tag or "", where) if tags is not None else None
            yield Example(row_id(row, "id", number), where, words, found)


def _list(value: Any, column: str, where: str) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(value.split())
    if isinstance(value, list) and all(isinstance(entry, str | int) for entry in value):
        return tuple(str(entry).encode("utf-8", "replace").decode() for entry in value)
    raise DataError(f"column {column!r} has {value!r}, not a list of words", where=where)


def _m2(path: Path) -> Iterator[Example]:
    words: tuple[str, ...] = ()
    tags: list[str] = []
    where, lines = "", list(read_lines(path))
    annotators = {line.rpartition("|||")[2] for _, line in lines if line.startswith("A ")}
    first = min(annotators, key=lambda name: (len(name), name), default="")  # numbers, 0 or 1 the lowest
    for number, line in [*lines, (0, "S")]:
        kind, _, rest = line.partition(" ")
        if kind == "S":
            if words:
                yield Example("", where, words, tuple(tags))
            where, words = f"{path}:{number}", tuple(rest.split())
            tags = [CORRECT] * len(words)
        elif kind == "A":
            fields = rest.split("|||")
            span = [int(place) for place in fields[0].split() if place.lstrip("-").isdecimal()]
            if len(fields) != 6 or len(span) != 2 or not (span[0] <= span[1] <= len(words)):
                raise DataError(
                    "not an edit within its sentence",
                    where=f"{path}:{number}",
                    fix="A FIRST END|||type|||correction|||...",
                )
            if fields[-1] == first and fields[1] != "noop" and words and span[0] >= 0:
                touched = range(span[0], span[1]) if span[0] < span[1] else [min(span[0], len(words) - 1)]
                for place in touched:
                    tags[place] = INCORRECT
        elif line.strip():
            raise DataError(
                "neither a sentence (S) nor an edit (A)",
                where=f"{path}:{number}",
                fix="See docs/finetuning.md, Tagging",
            )


def _without_language(examples: Sequence[Example]) -> Split:
    """WikiANN's columns have "en:Paris": a language that stands before every word of a file is taken off."""
    match = _LANGUAGE.match(examples[0].texts[0]) if examples[0].texts else None
    prefix = match[0] if match else ""
    if not prefix or not all(word.startswith(prefix) for example in examples for word in example.texts):
        return Split(tuple(examples))
    stripped = [
        replace(example, texts=tuple(word.removeprefix(prefix) for word in example.texts))
        for example in examples
    ]
    return Split(tuple(stripped), notes=(f"every word begins with {prefix!r}, which is removed",))
