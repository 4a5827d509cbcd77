"""Reads sentences of tagged words.

.conllu          CoNLL-U: ten columns; rows of multiword tokens (1-2) and empty nodes (1.1) are skipped; the
                 tags may also be values of a key in MISC (GED=i)
.m2              sentences with edits (S and A lines): a word is "i" if an edit by the file's first annotator
                 (the lowest number) touches it, else "c"; for a missing word, the word after the gap is "i",
                 or else the last word (the convention of Rei and Yannakoudakis 2016)
tables           a list of words and a list of tags in each row (in csv, as JSON, Python or NumPy prints it,
                 or separated by spaces); or one word per row, with a column that numbers the sentences
other endings    columns (word_columns.py): one word per line, an empty line between sentences

Files to be tagged may also have a text in each row of a table, or on each line of a .txt file.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from electra.data.lines import Place
from electra.data.table_files import FORMATS as TABLES
from electra.data.table_files import ZIP, Data, known_extension
from electra.data.tables import ReadOptions, Row, open_table, read_lines, row_id
from electra.finetuning.labelled.examples import Example, Split
from electra.finetuning.labelled.word_columns import (
    MISSING,
    Block,
    ColumnFile,
    columns_by_content,
    read_blocks,
    sentence_column,
    sentence_numbers,
    split_by_column,
)
from electra.finetuning.labelled.words import Spans, Splitting, split_text
from electra.foundation.errors import DataError
from electra.foundation.terminal_text import plural

COLUMN_FORMATS = (".tsv", ".tab", ".txt", ".conll", ".conllup", ".bio", ".iob", ".iob2", ".bioes")
TABLE_FORMATS = (*(ending for ending in TABLES if ending not in COLUMN_FORMATS), ZIP)
FORMATS = (".conllu", ".m2", *TABLE_FORMATS, *COLUMN_FORMATS)
CORRECT, INCORRECT = "c", "i"  # labels of words
TEXT_COLUMNS = ("text", "sentence")  # names of columns whose texts are split into words
MAX_PLAUSIBLE_WORDS = 200  # a sentence of more words suggests that the file lacks empty lines
_LANGUAGE = re.compile(r"([a-z]{2,3}):")
_ITEM = re.compile(r"""\s*,?\s*('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s,\[\]'"]+)""")


@dataclass(frozen=True)
class TagReaderOptions:
    """Names of the columns of words and tags, and how to read them."""

    word: tuple[str, ...]  # possible names of the words' column, in order of preference
    tag: tuple[str, ...]  # possible names of the tags' column, in order of preference
    header: tuple[str, ...] = ()  # column names for files of columns
    absent: str = "O"  # if tags are in MISC, the tag of a word without their key
    is_entity: Callable[[str], bool] = lambda tag: False  # whether a tag is an entity tag
    split: Splitting = "punctuation"  # how texts are split into words
    split_in: tuple[str, ...] = ("word", "token", "tokens", "words")  # columns split at spaces
    skip_unlabelled: bool = False  # leave out sentences with missing tags

    def is_header(self, rows: Sequence[Sequence[str]]) -> bool:
        """Whether the first row of a file is a header.

        If `header` is set, the row must equal its beginning. Otherwise the row must name the words' column.
        If there are other columns, it must also name that of the tags or sentences, or have a last cell that
        no other row ends with.
        """
        first_row, *other_rows = rows
        if self.header:
            return tuple(first_row) == self.header[: len(first_row)]
        names = {cell.casefold() for cell in first_row}
        has_words = not names.isdisjoint(name.casefold() for name in (*self.word, "form"))
        has_tags = not names.isdisjoint(map(str.casefold, self.tag)) or sentence_column(first_row) is not None
        is_new = len(first_row) == 1 or first_row[-1] not in {row[-1] for row in other_rows}
        return has_words and (has_tags or is_new)


@dataclass(frozen=True)
class Sentence:
    """The words of a sentence and other columns of its rows."""

    words: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]  # each as long as the words

    def __len__(self) -> int:
        return len(self.words)


def read_universal_dependencies(path: Path) -> list[Sentence]:
    """Reads the sentences of a CoNLL-U file, with the columns UPOS and HEAD (from 1; 0 for the root).

    Raises:
        DataError: the file has too few columns or no sentences.
    """
    return read_columns(path, columns=(3, 6), word=1)


def read_columns(path: Path, columns: Sequence[int], word: int = 0) -> list[Sentence]:
    """Reads the sentences of a CoNLL-U file or another file with one word per line.

    Args:
        path: the file.
        columns: the indices of the columns to return.
        word: the index of the words' column.

    Raises:
        DataError: the file has too few columns or no sentences.
    """
    file = read_blocks(path, ".conllu" in path.name)
    if not file.blocks:
        raise DataError("no sentences: the file is empty", where=path)
    if file.width <= max(word, *columns):
        problem = f"{file.width} columns, but at least {max(word, *columns) + 1} are needed"
        raise DataError(problem, where=file.blocks[0].where)
    return [
        Sentence(
            tuple(row[word] for row in block.rows),
            tuple(tuple(row[column] for row in block.rows) for column in columns),
        )
        for block in file.blocks
    ]


def read_sentences(source: Data, options: TagReaderOptions, labelled: bool) -> Split:
    """Returns an example for each sentence.

    Args:
        source: the file.
        options: the columns to read, and how.
        labelled: whether tags are required.

    Returns:
        Examples with the words as texts and their tags as gold (None without tags).

    Raises:
        DataError: the file is invalid, or tags are required and missing.
    """
    is_folder = isinstance(source, Path) and source.is_dir()
    ending = ".arrow" if is_folder else known_extension(source, FORMATS)
    notes: list[str] = []
    if ending == ".m2":
        sentences = list(_read_m2(source))
    elif ending in TABLE_FORMATS:
        sentences, notes = _read_table(source, options, labelled)
    elif not labelled and not options.header and ending == ".txt" and _is_text(source, options):
        sentences, notes = _read_texts(source, options)
    else:
        sentences, notes = _read_word_lines(source, options, ending == ".conllu", labelled)
    examples = []
    for index, example in enumerate(sentences):
        gold = _checked_tags(example, options, labelled, notes)
        if gold is not None or not (labelled and options.skip_unlabelled):
            examples.append(replace(example, gold=gold, id=example.id or str(index)))
    if not examples:
        problem = "every sentence lacks tags" if sentences else "no sentences: the file is empty"
        raise DataError(problem, where=source)
    if num_skipped := len(sentences) - len(examples):
        notes.append(f"{plural(num_skipped, 'sentence')} with missing tags left out")
    notes += _odd_tags({tag for example in examples for tag in example.gold or ()})
    if num_unspaced := sum(any(map(_unspaced, example.texts)) for example in examples if example.spans):
        problem = "have no spaces between words and were split only at punctuation"
        notes.append(f"{num_unspaced} of {len(examples)} texts {problem}: pass lists of words instead")
    if ending in COLUMN_FORMATS:
        examples = _without_language(examples, notes)
    return Split(tuple(examples), notes=tuple(notes))


def _checked_tags(
    example: Example, options: TagReaderOptions, labelled: bool, notes: Sequence[str]
) -> tuple[str, ...] | None:
    """Returns the tags of a sentence, or None if they are missing, which is an error if they are required."""
    gold = None if example.gold is None else tuple(map(str.strip, example.gold))
    if gold is not None and len(gold) != len(example.texts):
        problem = f"{len(gold)} tags for {len(example.texts)} words"
        raise DataError(problem, where=example.where, fix="Give each word one tag")
    pairs = zip(example.texts, gold or (), strict=False)
    untagged = [(word, tag) for word, tag in pairs if tag in MISSING and (word != tag or not word)]
    if not untagged and (gold is not None or not labelled):
        return gold
    if not labelled or options.skip_unlabelled:
        return None
    if gold and len(untagged) < len(gold):
        problem = "the tag of {!r} is missing ({!r} marks a missing value)".format(*untagged[0])
        fix = "Write its tag (such as O), or leave such sentences out with `skip_unlabelled`"
        raise DataError(problem, where=example.where, fix=fix)
    problem, fix = (
        f"no column of tags named {' or '.join(options.tag)}",
        "Name their column with `label_column`",
    )
    if example.row:
        fix = f"The columns are {', '.join(example.row)}. {fix}"
    fix = "; ".join([fix, *(note for note in notes if note.startswith("MISC has"))])
    if untagged:
        problem = f"every tag of this sentence is {untagged[0][1]!r}, which marks a missing value"
        fix += ", or leave such sentences out with `skip_unlabelled`"
    raise DataError(problem, where=example.where, fix=fix)


def _odd_tags(tags: set[str]) -> Iterator[str]:
    """Yields a note on tags that are numbers, or that differ only in case."""
    if tags and all(map(is_number, tags)):
        low, high = min(map(float, tags)), max(map(float, tags))
        yield f"the tags are numbers ({low:g} to {high:g}), and the file has no names for them"
    elif cased := [tag for tag in sorted(tags) if tag != tag.casefold() and tag.casefold() in tags]:
        yield f"{cased[0]!r} and {cased[0].casefold()!r} differ only in case: read as two tags"


def is_number(tag: str) -> bool:
    """Whether a tag is a number, such as 3 or -1.0."""
    return bool(re.fullmatch(r"-?\d+(\.\d*)?", tag))


# Files of columns


def _read_word_lines(
    source: Data, options: TagReaderOptions, conllu: bool, labelled: bool
) -> tuple[list[Example], list[str]]:
    file = read_blocks(source, conllu)
    rows = [row for block in file.blocks for row in block.rows]
    if rows and not file.conllu:
        _take_header(file, options, rows, labelled)
    if not file.blocks:
        return [], []
    if (sentence_position := sentence_column(file.header)) is not None and not file.conllu:
        file.blocks = split_by_column(file.blocks, sentence_position)
    # Users refer to columns by name (from an option, a header or CoNLL-U) or by number, from 1.
    positions = {str(i + 1): i for i in range(file.width)}
    positions |= {name.casefold(): i for i, name in reversed([*enumerate(file.header)])}
    positions |= {name: i for i, name in enumerate(file.header)}
    guessed: dict[str, int] = {}
    if not file.header:
        word, tag = columns_by_content(file, options.is_entity)
        if (numbered := sentence_numbers(file, word)) is not None:
            file.blocks = split_by_column(file.blocks, numbered)
            file.notes.append(f"no empty lines: column {numbered + 1} numbers the sentences")
        guessed = {"word": word} if tag is None else {"word": word, "tag": tag}
    word_position = _find_column((*options.word, "form"), positions | guessed)
    if word_position is None:
        fix = f"The columns are {', '.join(positions)}; name one with `text_column`"
        raise DataError(f"no column {' or '.join(options.word)}", where=source, fix=fix)
    word_cells = [row[word_position] for block in file.blocks for row in block.rows]
    if file.header and not file.conllu and _are_printed_lists(word_cells):
        return _read_table(source, options, labelled)
    tag_position = _find_column(options.tag, positions | guessed)
    if labelled and tag_position is None and not file.header and file.width > 1:
        problem = f"no column of the {file.width} is clearly that of the tags"
        raise DataError(problem, where=source, fix="Name it with `label_column`, such as 2")
    if guessed and (file.width > 2 or word_position):
        found = {"word": word_position} | ({} if tag_position is None else {"tag": tag_position})
        roles = ", ".join(f"{name}s are column {column + 1}" for name, column in found.items())
        file.notes.append(f"{roles} of {file.width} (to use others, pass `text_column` and `label_column`)")
    _check_empty_lines(source, file, word_cells, labelled)
    tags_of: Callable[[Block], list[str]] | None = None
    if tag_position is not None:
        tags_of = lambda block: [row[tag_position] for row in block.rows]  # noqa: E731
    elif file.conllu:
        tags_of = _tags_of_misc(file, options)
    column_names = file.header or tuple(map(str, range(1, file.width + 1)))
    examples = []
    for block in file.blocks:
        other_cells: dict[str, Any] = {
            name: [row[i] for row in block.rows] for i, name in enumerate(column_names) if i != word_position
        }
        if block.comments:
            other_cells["comments"] = ["\n".join(block.comments), *[""] * (len(block.rows) - 1)]
        words = tuple(row[word_position] for row in block.rows)
        tags = tuple(tags_of(block)) if tags_of else None
        examples.append(Example(block.name, block.where, words, tags, row=other_cells))
    return examples, file.notes


def _take_header(
    file: ColumnFile, options: TagReaderOptions, rows: Sequence[Sequence[str]], labelled: bool
) -> None:
    """Removes a header line, and names the columns by it or by the user's option."""
    options = replace(options, header=options.header or file.header)
    file.header = options.header
    if options.is_header(rows):
        first, *others = file.blocks
        place = first.where._replace(number=first.where.number + 1)
        file.header = tuple(rows[0])
        rest = [first._replace(rows=first.rows[1:], where=place)] if len(first.rows) > 1 else []
        file.blocks = [*rest, *others]
    if file.header and len(file.header) != file.width and file.blocks:
        if labelled or file.width > len(file.header):
            problem = f"{file.width} columns, but `columns` names {len(file.header)}"
            raise DataError(problem, where=file.blocks[0].where)
        file.header = file.header[: file.width]  # a file to predict may lack the tags


def _find_column(names: Sequence[str], positions: Mapping[str, int]) -> int | None:
    columns = (positions.get(name, positions.get(name.casefold())) for name in names)
    return next((column for column in columns if column is not None), None)


def _check_empty_lines(source: Data, file: ColumnFile, words: Sequence[str], labelled: bool) -> None:
    """Refuses labelled words that are probably many sentences, and notes it for others."""
    if len(file.blocks) > 1 or (len(words) <= MAX_PLAUSIBLE_WORDS and words.count(".") < 2):
        return
    problem = f"no empty lines: all {len(words):,} words are read as one sentence"
    if labelled:
        command = """awk '{print} $1=="."{print ""}' FILE"""
        fix = f"Insert an empty line after each sentence; after full stops: {command}"
        raise DataError(problem, where=source, fix=fix)
    file.notes.append(problem)


def _tags_of_misc(file: ColumnFile, options: TagReaderOptions) -> Callable[[Block], list[str]] | None:
    """Returns a function from a sentence to its tags in MISC; None if no word has a key in `options.tag`."""
    keys = [key for block in file.blocks for row in block.rows for key in _misc(row)]
    key = next((name for name in options.tag if name in keys), None)
    if key is None:
        if keys:
            file.notes.append(f"MISC has {', '.join(f'{name}=' for name in dict.fromkeys(keys))}")
        return None
    num_words = sum(len(block.rows) for block in file.blocks)
    if num_without := num_words - keys.count(key):
        found = f"{num_without:,} of {num_words:,} words have no {key}= in MISC"
        file.notes.append(f"{found}: read as {options.absent!r}")
    return lambda block: [_misc(row).get(key, options.absent) for row in block.rows]


def _misc(row: Sequence[str]) -> dict[str, str]:
    """Returns the key-value pairs of MISC, which some files separate by other signs than "|"."""
    pairs = re.split(r"\s*\|\s*|[\s;,]+(?=[\w.:-]+=)", row[-1].strip())
    return {key: value for key, equals, value in (pair.partition("=") for pair in pairs) if equals}


# Tables


def _read_table(source: Data, options: TagReaderOptions, labelled: bool) -> tuple[list[Example], list[str]]:
    texts = () if labelled else TEXT_COLUMNS
    table = open_table(
        source, ReadOptions(header=options.header, required=[(name,) for name in options.word])
    )
    word = table.first_column((*options.word, *texts))
    if word is None:
        raise table.missing_column(options.word, "`text_column`")
    tag, notes, rows = table.first_column(options.tag), list(table.notes), list(table.rows)
    values = [row.get(word) for _, row in rows]
    is_printed, id_position = _are_printed_lists(values), sentence_column(table.columns)
    are_strings = not is_printed and not any(isinstance(value, list) for value in values)
    if id_position is not None and table.columns[id_position] != word and are_strings:
        columns = (word, tag, table.columns[id_position])
        return list(_group_words(rows, columns, table.columns, notes)), notes
    has_words = word.casefold() in options.split_in
    are_single = are_strings and not any(re.search(r"\s", str(value).strip()) for value in values)
    if labelled and has_words and are_single and len(rows) > 1:
        fix = "Add a column `sentence_id`, or write a list of words in each row"
        problem = "each row has one word, and no column numbers the sentences"
        raise DataError(problem, where=source, fix=fix)
    are_tags_printed = tag is not None and _are_printed_lists([row.get(tag) for _, row in rows])
    examples = []
    for index, (where, row) in enumerate(rows):
        value, spans, gold = row.get(word), Spans(), None
        if not labelled and not has_words and isinstance(value, str) and not is_printed:
            words, spans = split_text(value, options.split)
        else:
            words = _parse_words(value, word, where, is_printed)
        if not words:
            continue
        if tag and (tags := row.get(tag)) is not None:
            gold = _parse_words(tags, tag, where, are_tags_printed, tags=True)
            if isinstance(tags, str) and gold and len(gold) != len(words):  # B-PER,O,O
                gold = tuple(re.split(r"\s*[,;|]\s*", tags.strip()))
        other_cells = {name: cell for name, cell in row.items() if name != word}
        examples.append(Example(row_id(row, "id", index), where, words, gold, other_cells, spans))
    if num_empty := len(rows) - len(examples):
        notes.append(f"{num_empty} of {len(rows)} rows without words left out")
    return examples, notes


def _group_words(
    rows: Sequence[tuple[Place, Row]],
    columns: tuple[str, str | None, str],
    names: Sequence[str],
    notes: list[str],
) -> Iterator[Example]:
    """Groups rows with one word each into sentences; an empty sentence id continues the sentence."""
    word, tag, sentence = columns
    groups: list[list[tuple[Place, Row]]] = []
    ids: list[Any] = []
    for place, row in rows:
        value = row.get(sentence)
        if row.get(word) is None:
            raise DataError(f"no word in column {word!r}", where=place)
        if not ids or (value != ids[-1] and str(value).strip().lower() not in ("", "nan", "none", "null")):
            groups.append([])
            ids.append(value)
        groups[-1].append((place, row))
    if num_repeated := len(ids) - len({*map(str, ids)}):
        problem = f"{num_repeated} values of column {sentence!r} recur after other values"
        notes.append(f"{problem}: read as separate sentences")
    for value, group in zip(ids, groups, strict=True):
        cells = [row for _, row in group]
        gold = tuple("" if row.get(tag) is None else str(row[tag]) for row in cells) if tag else None
        others = {name: [row.get(name) for row in cells] for name in names if name not in (word, sentence)}
        words = tuple(str(row[word]) for row in cells)
        yield Example(str(value or ""), group[0][0], words, gold, others)


def _are_printed_lists(values: Sequence[Any]) -> bool:
    """Whether all non-empty strings of a column are bracketed lists."""
    texts = [value.strip() for value in values if isinstance(value, str) and value.strip()]
    return bool(texts) and all(text[0] in "[(" and text[-1] in "])" for text in texts)


def _parse_words(
    value: Any, column: str, where: object, printed: bool = False, tags: bool = False
) -> tuple[str, ...]:
    """Returns the words or tags of a cell: a list, a printed list, or strings separated by white space."""
    if isinstance(value, str):
        return _parse_printed_list(value, column, where) if printed else tuple(value.split())
    if not isinstance(value, list):
        raise DataError(f"column {column!r} must contain a list of words, not {value!r}", where=where)
    value = ["" if entry is None else entry for entry in value] if tags else value
    for number, entry in enumerate(value, 1):
        if not isinstance(entry, str | int):
            problem, fix = f"{entry!r}, not a string", 'Write every word as a string, such as "null"'
            if isinstance(entry, list | dict):
                problem, fix = f"{entry!r}: spans, not tags", "Write one tag for each word, such as B-PER"
            raise DataError(f"item {number} in column {column!r} is {problem}", where=where, fix=fix)
    return tuple(str(entry).encode("utf-8", "replace").decode() for entry in value)


def _parse_printed_list(text: str, column: str, where: object) -> tuple[str, ...]:
    """Parses a list printed by JSON, Python or numpy. Raises DataError if it is incomplete or invalid."""
    text = text.strip()
    try:
        if isinstance(items := json.loads(text), list) and all(isinstance(item, str | int) for item in items):
            return tuple(map(str, items))
    except (ValueError, RecursionError):
        pass
    words, position, inner = [], 0, text[1:-1].rstrip().removesuffix(",")
    while position < len(inner):
        item = _ITEM.match(inner, position)
        if item is None or item[1] in ("...", "None", "nan"):
            shown = text if len(text) <= 60 else f"{text[:57]}..."
            problem = f"column {column!r} has an incomplete or invalid list of words, {shown}"
            raise DataError(problem, where=where, fix='Write lists as JSON: ["one", "two"]')
        words.append(str(ast.literal_eval(item[1])) if item[1][0] in "'\"" else item[1])
        position = item.end()
    return tuple(words)


# Texts


def _is_text(source: Data, options: TagReaderOptions) -> bool:
    """Whether the lines of a file without tags are texts.

    Lines with tabs are not. Other lines are texts if they differ in their number of words, if one is long and
    in a script without spaces, or if their last words are too varied to be tags.
    """
    lines = [line for _, line in read_lines(source) if line.strip() and not line.startswith("-DOCSTART-")]
    if not lines or any("\t" in line for line in lines):
        return False
    word_counts = {len(line.split()) for line in lines}
    if word_counts == {1}:
        single_text = len(lines) == 1 and len(split_text(lines[0], options.split)[0]) > 1
        return single_text or any(map(_unspaced, lines))
    last_words = {line.split()[-1] for line in lines}
    return len(word_counts) > 1 or (
        not all(map(options.is_entity, last_words)) and 2 * len(last_words) > len(lines)
    )


def _unspaced(text: str) -> bool:
    """Whether a text is in a script without spaces between words, and long enough to be a sentence."""
    letters = re.findall("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u9fff]", text)
    return len(text) > 6 and 2 * len(letters) > len(text)


def _read_texts(source: Data, options: TagReaderOptions) -> tuple[list[Example], list[str]]:
    split = [(place, *split_text(line, options.split)) for place, line in read_lines(source)]
    examples = [
        Example(str(place.number - 1), place, words, spans=spans) for place, words, spans in split if words
    ]
    return examples, [f"read as one text per line, {len(examples)} in all"]


def _read_m2(source: Data) -> Iterator[Example]:
    words: tuple[str, ...] = ()
    tags: list[str] = []
    lines, where = list(read_lines(source)), Place("")
    annotators = {line.rpartition("|||")[2] for _, line in lines if line.startswith("A ")}
    first_annotator = min(annotators, key=lambda name: (len(name), name), default="")  # the lowest number
    for place, line in [*lines, (Place(""), "S")]:
        kind, _, rest = line.partition(" ")
        if kind == "S":
            if words:
                yield Example("", where, words, tuple(tags))
            where, words = place, tuple(rest.split())
            tags = [CORRECT] * len(words)
        elif kind == "A":
            fields = rest.split("|||")
            span = [int(offset) for offset in fields[0].split() if re.fullmatch(r"-?\d+", offset)]
            if len(fields) != 6 or len(span) != 2 or not (span[0] <= span[1] <= len(words)):
                fix = "Write A FIRST END|||type|||correction|||..."
                raise DataError("not an edit within its sentence", where=place, fix=fix)
            if fields[-1] == first_annotator and fields[1] != "noop" and words and span[0] >= 0:
                start, end = min(span[0], len(words) - 1), max(span[0] + 1, span[1])
                tags[start:end] = [INCORRECT] * (min(end, len(words)) - start)
        elif line.strip():
            fix = "See docs/finetuning-data.md, Tagging"
            raise DataError("neither a sentence (S) nor an edit (A)", where=place, fix=fix)


def _without_language(examples: list[Example], notes: list[str]) -> list[Example]:
    """Removes a language code if every word of a file begins with it, as in WikiANN's "en:Paris"."""
    match = _LANGUAGE.match(examples[0].texts[0]) if examples[0].texts else None
    prefix = match[0] if match else ""
    if not prefix or not all(word.startswith(prefix) for example in examples for word in example.texts):
        return examples
    notes.append(f"removed {prefix!r}, which every word began with")
    return [
        replace(example, texts=tuple(word.removeprefix(prefix) for word in example.texts))
        for example in examples
    ]
