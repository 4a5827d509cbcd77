"""Sentences of tagged words.

.conllu          CoNLL-U: ten columns, of which ranges (1-2) and empty nodes (1.1) are skipped; a tag may also
                 be a key of MISC (GED=i)
.m2              sentences with edits (S and A lines): a word is "i" where an edit of the file's first
                 annotator (the lowest number) touches it, else "c"; where words are missing, the word after
                 the gap is "i", or the last word (the convention of Rei and Yannakoudakis 2016)
tables           a list of words and a list of tags in each row (csv: as JSON, Python or numpy print lists, or
                 texts split at spaces); or a word in each row, with a column that numbers the sentences
other endings    columns (word_columns.py): one word a line, an empty line between sentences. The word is the
                 first column that does not count, the tag the last that can be tags, unless named, here or
                 in a first line with such names (word, tag); a file of one column has no tags.

Without tags there may also be a text in each row, or on each line of a .txt file.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from electra.data.rows import FORMATS as TABLES
from electra.data.rows import ZIP, Table, known_ending, open_table, read_lines, row_id, split_name
from electra.finetuning.labelled.examples import Example, Split
from electra.finetuning.labelled.word_columns import (
    CONLLU,
    LONG,
    MISSING,
    Block,
    ColumnFile,
    by_sentence_column,
    numbering,
    read_blocks,
    sentence_column,
    tag_column,
    tags_before_words,
    without_empty_columns,
    word_column,
)
from electra.finetuning.labelled.words import Spans, Splitting, split_text
from electra.foundation.errors import DataError

COLUMNS = (".tsv", ".tab", ".txt", ".conll", ".conllup", ".bio", ".iob", ".iob2", ".bioes")
LISTS = (*(ending for ending in TABLES if ending not in COLUMNS), ZIP)
FORMATS = (".conllu", ".m2", *LISTS, *COLUMNS)
CORRECT, INCORRECT = "c", "i"  # the labels of an M2 file
TEXTS = ("text", "sentence")  # columns of texts to be split into words
_LANGUAGE = re.compile(r"([a-z]{2,3}):")
_ITEM = re.compile(r"""\s*,?\s*('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s,\[\]'"]+)""")


@dataclass(frozen=True)
class TagColumns:
    """What to look for: alternatives for the column of the words and that of the tags."""

    word: tuple[str, ...]
    tag: tuple[str, ...]
    header: tuple[str, ...] = ()  # the columns' names, for a file of columns
    absent: str = "O"  # the tag of a word without the key, where the tag is a key of MISC
    is_entity: Callable[[str], bool] = lambda tag: False  # whether a tag is one of named entities
    entities: bool = False  # whether the tags must be such
    split: Splitting = "punctuation"  # texts into words
    split_in: tuple[str, ...] = (
        "word",
        "token",
        "tokens",
        "words",
    )  # columns whose texts are split at spaces
    skip_unlabelled: bool = False  # leave out sentences of which a word has no tag

    def begin(self, rows: Sequence[Sequence[str]]) -> bool:
        """Whether the first of a file's rows is a header: the columns' names as given; or names of the words'
        column and of the tags', or of the sentences'; or the words' name first, and last what is no tag of
        the file.
        """
        first, *others = rows
        if self.header:
            return tuple(first) == self.header[: len(first)]
        names = [cell.casefold() for cell in first]
        words = {name.casefold() for name in (*self.word, "form")}
        if words & {*names} and (
            {name.casefold() for name in self.tag} & {*names} or sentence_column(first) is not None
        ):
            return True
        new = first[-1] not in {row[-1] for row in others}
        return bool(words & {*names}) and new if len(first) > 1 else names[0] in words


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
    file = read_blocks(path, ".conllu" in path.name)
    for block in file.blocks:
        if file.width <= max(word, *columns):
            raise DataError(
                f"{file.width} columns instead of at least {max(word, *columns) + 1}", where=block.where
            )
        kept = tuple(tuple(row[column] for row in block.rows) for column in columns)
        found.append(Sentence(tuple(row[word] for row in block.rows), kept))
    if not found:
        raise DataError("no sentences: the file is empty", where=path)
    return found


def read_sentences(path: Path, names: TagColumns, labelled: bool) -> Split:
    """One example a sentence: its texts are the words, its gold their tags, None where the file has none."""
    ending = ".arrow" if path.is_dir() else known_ending(path, FORMATS)
    notes: list[str] = []
    if ending == ".m2":
        found = list(_m2(path))
    elif ending in LISTS:
        found, notes = _table(path, names, labelled)
    elif not labelled and not names.header and ending == ".txt" and _is_text(path, names):
        found, notes = _lines(path, names)
    else:
        found, notes = _columns(path, names, ending == ".conllu", labelled)
    examples = []
    skipped = 0
    for number, example in enumerate(found):
        gold = None if example.gold is None else tuple(map(str.strip, example.gold))
        if gold is not None and len(gold) != len(example.texts):
            what = f"{len(gold)} tags for {len(example.texts)} words"
            raise DataError(what, where=example.where, fix="Give each word one tag")
        without = [word for word, tag in zip(example.texts, gold or (), strict=False) if tag in MISSING]
        if gold is not None and without:
            whole = len(without) == len(gold)
            if labelled and not whole and not names.skip_unlabelled:
                tag = next(tag for tag in gold if tag in MISSING)
                what = f"the word {without[0]!r} has {tag!r} for its tag, which marks a missing value"
                fix = "Write its tag (such as O), or leave such sentences out with `skip_unlabelled`"
                raise DataError(what, where=example.where, fix=fix)
            gold = None
        if labelled and gold is None:
            if names.skip_unlabelled:
                skipped += 1
                continue
            what, fix = f"no tags under {' or '.join(names.tag)}", "Name their column with `label_column`"
            fix = f"It has {', '.join(example.row)}. {fix}" if example.row else fix
            fix = "; ".join([fix, *(note for note in notes if note.startswith("MISC has"))])
            if without:
                what = f"every word of this sentence has {example.gold[0]!r} for its tag: a missing value"
                fix += ", or leave such sentences out with `skip_unlabelled`"
            raise DataError(what, where=example.where, fix=fix)
        examples.append(replace(example, gold=gold, id=example.id or str(number)))
    if not examples:
        left = "no sentence has all its tags" if skipped else "no sentences: the file is empty"
        raise DataError(left, where=path)
    if skipped:
        notes.append(f"{skipped} sentences with missing tags are left out")
    tags = {tag for example in examples for tag in example.gold or ()}
    if tags and all(map(is_number, tags)):
        low, high = min(map(float, tags)), max(map(float, tags))
        notes.append(f"the tags are numbers ({low:g} to {high:g}), and the file has no names for them")
    elif alike := [tag for tag in sorted(tags) if tag != tag.casefold() and tag.casefold() in tags]:
        notes.append(f"{alike[0]!r} and {alike[0].casefold()!r} differ by capitals alone: read as two tags")
    alone = sum(any(map(_unspaced, example.texts)) for example in examples if example.spans)
    if alone:
        what = "without spaces: what stands between marks is read as one word: pass lists of words instead"
        notes.append(f"{alone} of {len(examples)} texts {what}")
    split = _without_language(examples) if ending in COLUMNS else Split(tuple(examples))
    return replace(split, notes=(*notes, *split.notes))


def is_number(tag: str) -> bool:
    return bool(re.fullmatch(r"-?\d+(\.\d*)?", tag))


# Files of columns


def _columns(path: Path, names: TagColumns, conllu: bool, labelled: bool) -> tuple[list[Example], list[str]]:
    file = read_blocks(path, conllu)
    blocks, conllu = file.blocks, file.conllu
    if not blocks:
        return [], []
    if not conllu:
        without_empty_columns(file)
    rows = [row for block in blocks for row in block.rows]
    names = replace(names, header=names.header or file.header)
    if not conllu and names.begin(rows):
        first = blocks[0]
        path_name, _, line = first.where.rpartition(":")
        blocks[0] = first._replace(rows=first.rows[1:], where=f"{path_name}:{int(line) + 1}")
        names = replace(names, header=tuple(first.rows[0]))
        file.blocks = blocks = [block for block in blocks if block.rows]
    if names.header and not conllu and blocks and len(names.header) != file.width:
        if labelled or file.width > len(names.header):
            raise DataError(
                f"{file.width} columns, and `columns` names {len(names.header)}", where=blocks[0].where
            )
        names = replace(names, header=names.header[: file.width])  # a file to predict may lack the tags
    if not blocks:
        return [], []
    header = CONLLU if conllu else names.header
    if (place := sentence_column(header)) is not None and not conllu:
        file.blocks = blocks = by_sentence_column(blocks, place)
    # columns have names (given, or CoNLL-U's) and numbers from 1; without names "word" and "tag" are those
    # that can be
    known = {str(i + 1): i for i in range(file.width)} | {name: i for i, name in enumerate(header)}
    if not header:
        known |= _by_content(path, file, names, labelled)
        blocks = file.blocks
    folded = {name.casefold(): place for name, place in reversed(known.items())}
    word = _place((*names.word, "form"), known, folded)
    if word is None:
        fix = f"It has {', '.join(known)}: name one with `text_column`"
        raise DataError(f"no column {' or '.join(names.word)}", where=path, fix=fix)
    if header and not conllu and _bracketed([row[word] for block in blocks for row in block.rows]):
        return _table(path, names, labelled)
    if len(blocks) == 1 and len(blocks[0].rows) > LONG:
        what = f"no empty lines: its {len(blocks[0].rows):,} words are one sentence"
        if labelled:
            after = """awk '{print} $1=="."{print ""}' FILE"""
            fix = f"Put an empty line after each sentence, as after full stops: {after}"
            raise DataError(what, where=path, fix=fix)
        file.notes.append(what)
    column = _place(names.tag, known, folded)
    tags_of = (lambda block: [row[column] for row in block.rows]) if column is not None else None
    if tags_of is None and conllu and names.tag:
        tags_of = _tags_of_misc(path, blocks, names, file)
    titles = header or tuple(map(str, range(1, file.width + 1)))
    found = []
    for block in blocks:
        tags = tags_of(block) if tags_of else None
        own: dict[str, Any] = {
            title: [row[i] for row in block.rows] for i, title in enumerate(titles) if i != word
        }
        if block.comments:
            own["comments"] = ["\n".join(block.comments), *[""] * (len(block.rows) - 1)]
        words = tuple(row[word] for row in block.rows)
        found.append(Example(block.name, block.where, words, tuple(tags) if tags else None, row=own))
    return found, file.notes


def _place(wanted: Sequence[str], known: Mapping[str, int], folded: Mapping[str, int]) -> int | None:
    places = (known.get(name, folded.get(name.casefold())) for name in wanted)
    return next((place for place in places if place is not None), None)


def _by_content(path: Path, file: ColumnFile, names: TagColumns, labelled: bool) -> dict[str, int]:
    """The columns of the words and the tags in a file that does not name them."""
    word = word_column(file)
    if len(file.blocks) == 1:
        for column in range(word):
            if numbering(file.blocks, column) == "sentences":
                file.blocks = by_sentence_column(file.blocks, column)
                file.notes.append(f"no empty lines: column {column + 1} numbers the sentences")
    if (swapped := tags_before_words(file, word, names.is_entity)) is not None:
        word = swapped
    found, refused = {"word": word}, dict[int, str]()
    if file.width > 1 and "tag" in names.tag:
        tag, refused = tag_column(file, word, names.is_entity, names.entities)
        if tag is not None:
            found["tag"] = tag
        elif labelled:
            reasons = ", ".join(f"column {column + 1} {why}" for column, why in refused.items())
            what = f"no column of tags{f': {reasons}' if reasons else ''}"
            raise DataError(what, where=path, fix="Name their column with `label_column`")
    if file.width > 2 or word:
        told = ", ".join(f"{name}s are column {column + 1}" for name, column in found.items())
        file.notes.append(f"{told} of {file.width} (`text_column` and `label_column` name others)")
    return found


def _tags_of_misc(
    path: Path, blocks: Sequence[Block], names: TagColumns, file: ColumnFile
) -> Callable[[Block], list[str]] | None:
    """How to find the tags of a sentence under a key of MISC; None where no word has one."""
    used = Counter(key for block in blocks for row in block.rows for key in _misc(row))
    key = next((name for name in names.tag if name in used), None)
    if key is None:
        _refuse_hidden(blocks, names)
        if used:
            file.notes.append(f"MISC has {', '.join(f'{name}=' for name, _ in used.most_common(5))}")
        return None
    _refuse_hidden(blocks, replace(names, tag=(key,)))
    words = sum(len(block.rows) for block in blocks)
    if used[key] < words:
        count = words - used[key]
        file.notes.append(f"{count:,} of {words:,} words have no {key}= in MISC: read as {names.absent!r}")
    return lambda block: [_misc(row).get(key, names.absent) for row in block.rows]


def _misc(row: Sequence[str]) -> dict[str, str]:
    """MISC by key. Pairs are separated by "|"; some files have spaces there."""
    pairs = re.split(r"\s*\|\s*|\s+(?=[\w.:-]+=)", row[-1].strip())
    return {key: value for key, equals, value in (pair.partition("=") for pair in pairs) if equals}


def _refuse_hidden(blocks: Sequence[Block], names: TagColumns) -> None:
    """Raise DataError where a key stands in MISC, and not as the beginning of a pair."""
    hidden = re.compile(rf"(?<![\w.:-])(?:{'|'.join(map(re.escape, names.tag))})=") if names.tag else None
    for block in blocks:
        for row in block.rows:
            if hidden and (match := hidden.search(row[-1])) and match[0][:-1] not in _misc(row):
                what = f"MISC has {row[-1]!r}, whose parts are not separated by '|'"
                raise DataError(what, where=block.where, fix="Separate them as CoNLL-U does: A=b|C=d")


# Tables


def _table(path: Path, names: TagColumns, labelled: bool) -> tuple[list[Example], list[str]]:
    texts = () if labelled else TEXTS
    table = open_table(path, header=names.header, wanted=[(name,) for name in names.word])
    word = table.first_column((*names.word, *texts))
    if word is None:
        raise table.missing_column(names.word, "`text_column`")
    tag, notes = table.first_column(names.tag), list(table.notes)
    rows = list(table.rows)
    values = [row.get(word) for _, row in rows]
    lists, place = any(isinstance(value, list) for value in values), sentence_column(table.columns)
    sentence = None if place is None or table.columns[place] == word else table.columns[place]
    bare = (
        word.casefold() in names.split_in
        and not lists
        and not any(re.search(r"\s", str(value).strip()) for value in values)
    )
    if sentence is not None and not lists and not _bracketed(values):
        return _words_of_rows(rows, (word, tag, sentence), table, notes), notes
    if bare and len(rows) > 1 and not _bracketed(values):
        if split_name(path)[1] == ".csv" and any(not line.strip() for _, line in list(read_lines(path))[:-1]):
            return _columns(path, names, False, labelled)
        if labelled:
            what = "each row has one word, and no column says which sentence it belongs to"
            raise DataError(
                what, where=path, fix="Add a column `sentence_id`, or a list of words to each row"
            )
    as_list, tags_as_list = (
        _bracketed(values),
        tag is not None and _bracketed([row.get(tag) for _, row in rows]),
    )
    is_text = not labelled and word.casefold() not in names.split_in
    examples = []
    for number, (where, row) in enumerate(rows):
        value, spans = row.get(word), Spans()
        if is_text and isinstance(value, str) and not as_list:
            words, spans = split_text(value, names.split)
        else:
            words = _list(value, word, where, as_list)
        given = row.get(tag) if tag else None
        if words:
            gold = None if given is None else _list(given, tag or "", where, tags_as_list, tags=True)
            if isinstance(given, str) and gold and len(gold) != len(words):  # B-PER,O,O
                gold = tuple(re.split(r"\s*[,;|]\s*", given.strip()))
            own = {name: cell for name, cell in row.items() if name != word}
            examples.append(Example(row_id(row, "id", number), where, words, gold, own, spans))
    if empty := len(rows) - len(examples):
        notes.append(f"{empty} of {len(rows)} rows have no words and are left out")
    return examples, notes


def _words_of_rows(
    rows: Sequence[tuple[str, Mapping[str, Any]]],
    columns: tuple[str, str | None, str],
    table: Table,
    notes: list[str],
) -> list[Example]:
    """Sentences of rows with a word each."""
    word, tag, sentence = columns
    found: list[list[tuple[str, Mapping[str, Any]]]] = []
    last: object = None
    for where, row in rows:
        here = row.get(sentence)
        if not found or (here != last and str(here).strip().lower() not in ("", "nan", "none", "null")):
            found.append([])
            last = here
        found[-1].append((where, row))
    if again := len(found) - len({str(members[0][1].get(sentence)) for members in found}):
        what = f"column {sentence!r} comes back to {again} of its values: sentences of their own"
        notes.append(f"{what}, as only rows that follow each other are one")
    examples = []
    for members in found:
        cells = [row for _, row in members]
        for where, row in members:
            if row.get(word) is None:
                raise DataError(f"column {word!r} has no word", where=where)
        words = tuple(str(row[word]) for row in cells)
        gold = tuple("" if row.get(tag) is None else str(row[tag]) for row in cells) if tag else None
        own = {
            name: [row.get(name) for row in cells] for name in table.columns if name not in (word, sentence)
        }
        examples.append(Example(str(cells[0].get(sentence) or ""), members[0][0], words, gold, own))
    return examples


def _bracketed(values: Sequence[Any]) -> bool:
    """Whether the cells of a column are lists in print."""
    texts = [value.strip() for value in values if isinstance(value, str) and value.strip()]
    return bool(texts) and all(text[0] in "[(" and text[-1] in "])" for text in texts)


def _list(value: Any, column: str, where: str, printed: bool = False, tags: bool = False) -> tuple[str, ...]:
    if isinstance(value, str):
        return _printed(value, column, where) if printed else tuple(value.split())
    if isinstance(value, list):
        if tags:
            value = ["" if entry is None else entry for entry in value]
        if all(isinstance(entry, str | int) for entry in value):
            return tuple(str(entry).encode("utf-8", "replace").decode() for entry in value)
        odd = next(n for n, entry in enumerate(value, 1) if not isinstance(entry, str | int))
        what = f"column {column!r} has {value[odd - 1]!r} for word {odd}, not a text"
        raise DataError(what, where=where, fix='Write every word as a text, such as "null"')
    raise DataError(f"column {column!r} has {value!r}, not a list of words", where=where)


def _printed(text: str, column: str, where: str) -> tuple[str, ...]:
    """A list as JSON, Python or numpy print it."""
    text = text.strip()
    try:
        if isinstance(read := json.loads(text), list) and all(isinstance(entry, str | int) for entry in read):
            return tuple(map(str, read))
    except (ValueError, RecursionError):
        pass
    words, place, inner = [], 0, text[1:-1].rstrip().removesuffix(",")
    while place < len(inner):
        item = _ITEM.match(inner, place)
        if item is None or item[1] in ("...", "None", "nan"):
            what = f"column {column!r} has {_short(text)}, which is not a whole list of words"
            raise DataError(what, where=where, fix='Write lists as JSON: ["one", "two"]')
        words.append(str(ast.literal_eval(item[1])) if item[1][0] in "'\"" else item[1])
        place = item.end()
    return tuple(words)


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


# Texts


def _is_text(path: Path, names: TagColumns) -> bool:
    """Whether the lines of a file without tags are texts: no tabs, and lines with different numbers of words,
    or without spaces and longer than words are.
    """
    lines = [line for _, line in read_lines(path) if line.strip() and not line.startswith("-DOCSTART-")]
    if not lines or any("\t" in line for line in lines):
        return False
    widths = {len(line.split()) for line in lines}
    if widths == {1}:
        alone = len(lines) == 1 and len(split_text(lines[0], names.split)[0]) > 1
        return alone or any(map(_unspaced, lines))
    last = {line.split()[-1] for line in lines}
    return len(widths) > 1 or (not all(map(names.is_entity, last)) and 2 * len(last) > len(lines))


def _unspaced(text: str) -> bool:
    """Whether a text is in a script that puts no spaces between words, and rather a sentence than a word."""
    return len(text) > 6 and 2 * len(
        re.findall("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u9fff]", text)
    ) > len(text)


def _lines(path: Path, names: TagColumns) -> tuple[list[Example], list[str]]:
    found = []
    for number, line in read_lines(path):
        words, spans = split_text(line, names.split)
        if words:
            found.append(Example(str(number - 1), f"{path}:{number}", words, spans=spans))
    return found, [f"read as a text on each line, {len(found)} in all"]


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
            span = [int(place) for place in fields[0].split() if re.fullmatch(r"-?\d+", place)]
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
                fix="See docs/finetuning-data.md, Tagging",
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
