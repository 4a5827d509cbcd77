"""Reads sentences of tagged words.

.conllu          CoNLL-U: ten columns; rows of multiword tokens (1-2) and empty nodes (1.1) are skipped; the
                 tags may also be values of a key in MISC (GED=i)
.m2              sentences with edits (S and A lines): a word is "i" if an edit by the file's first annotator
                 (the lowest number) touches it, else "c"; for a missing word, the word after the gap is "i",
                 or else the last word (the convention of Rei and Yannakoudakis 2016)
tables           a list of words and a list of tags in each row (in csv, as JSON, Python or NumPy prints it,
                 or separated by spaces); or one word per row, with a column that numbers the sentences
other endings    columns (word_columns.py): one word per line, an empty line between sentences. The words are
                 the first column that does not number words or sentences, and the tags are the last column
                 that can be tags, unless an option or the first line names them (word, tag). A file with one
                 column has no tags.

Files to be tagged may also have a text in each row of a table, or on each line of a .txt file.
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

from electra.data.rows import open_table, read_lines
from electra.data.table_files import FORMATS as TABLES
from electra.data.table_files import ZIP, known_extension, split_name
from electra.data.tables import ReadOptions, Table, row_id
from electra.finetuning.labelled.examples import Example, Split
from electra.finetuning.labelled.word_columns import (
    CONLLU,
    MAX_PLAUSIBLE_WORDS,
    MISSING,
    Block,
    ColumnFile,
    drop_empty_columns,
    numbered_unit,
    read_blocks,
    sentence_column,
    split_by_column,
    tag_column,
    word_column,
    word_column_after_tags,
)
from electra.finetuning.labelled.words import Spans, Splitting, split_text
from electra.foundation.errors import DataError
from electra.foundation.visible import plural

COLUMN_FORMATS = (".tsv", ".tab", ".txt", ".conll", ".conllup", ".bio", ".iob", ".iob2", ".bioes")
TABLE_FORMATS = (*(ending for ending in TABLES if ending not in COLUMN_FORMATS), ZIP)
FORMATS = (".conllu", ".m2", *TABLE_FORMATS, *COLUMN_FORMATS)
CORRECT, INCORRECT = "c", "i"  # labels of words
TEXT_COLUMNS = ("text", "sentence")  # names of columns whose texts are split into words
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
    entities: bool = False  # whether the tags must be entity tags
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
        names = [cell.casefold() for cell in first_row]
        word_names = {name.casefold() for name in (*self.word, "form")}
        if word_names & {*names} and (
            {name.casefold() for name in self.tag} & {*names} or sentence_column(first_row) is not None
        ):
            return True
        has_new_ending = first_row[-1] not in {row[-1] for row in other_rows}
        return (
            bool(word_names & {*names}) and has_new_ending if len(first_row) > 1 else names[0] in word_names
        )


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
    sentences = []
    file = read_blocks(path, ".conllu" in path.name)
    for block in file.blocks:
        if file.width <= max(word, *columns):
            problem = f"{file.width} columns, but at least {max(word, *columns) + 1} are needed"
            raise DataError(problem, where=block.where)
        values = tuple(tuple(row[column] for row in block.rows) for column in columns)
        sentences.append(Sentence(tuple(row[word] for row in block.rows), values))
    if not sentences:
        raise DataError("no sentences: the file is empty", where=path)
    return sentences


def read_sentences(path: Path, options: TagReaderOptions, labelled: bool) -> Split:
    """Returns an example for each sentence.

    Args:
        path: the file.
        options: the columns to read, and how.
        labelled: whether tags are required.

    Returns:
        Examples with the words as texts and their tags as gold (None without tags).

    Raises:
        DataError: the file is invalid, or tags are required and missing.
    """
    ending = ".arrow" if path.is_dir() else known_extension(path, FORMATS)
    notes: list[str] = []
    if ending == ".m2":
        sentences = list(_read_m2(path))
    elif ending in TABLE_FORMATS:
        sentences, notes = _read_table(path, options, labelled)
    elif not labelled and not options.header and ending == ".txt" and _is_text(path, options):
        sentences, notes = _read_texts(path, options)
    else:
        sentences, notes = _read_word_lines(path, options, ending == ".conllu", labelled)
    examples = []
    num_skipped = 0
    for index, example in enumerate(sentences):
        gold = None if example.gold is None else tuple(map(str.strip, example.gold))
        if gold is not None and len(gold) != len(example.texts):
            problem = f"{len(gold)} tags for {len(example.texts)} words"
            raise DataError(problem, where=example.where, fix="Give each word one tag")
        untagged_words = [
            word for word, tag in zip(example.texts, gold or (), strict=False) if tag in MISSING
        ]
        if gold is not None and untagged_words:
            if labelled and len(untagged_words) < len(gold) and not options.skip_unlabelled:
                tag = next(tag for tag in gold if tag in MISSING)
                problem = f"the tag of {untagged_words[0]!r} is missing ({tag!r} marks a missing value)"
                fix = "Write its tag (such as O), or leave such sentences out with `skip_unlabelled`"
                raise DataError(problem, where=example.where, fix=fix)
            gold = None
        if labelled and gold is None:
            if options.skip_unlabelled:
                num_skipped += 1
                continue
            problem = f"no column of tags named {' or '.join(options.tag)}"
            fix = "Name their column with `label_column`"
            fix = f"The columns are {', '.join(example.row)}. {fix}" if example.row else fix
            fix = "; ".join([fix, *(note for note in notes if note.startswith("MISC has"))])
            if untagged_words:
                problem = f"every tag of this sentence is {example.gold[0]!r}, which marks a missing value"
                fix += ", or leave such sentences out with `skip_unlabelled`"
            raise DataError(problem, where=example.where, fix=fix)
        examples.append(replace(example, gold=gold, id=example.id or str(index)))
    if not examples:
        problem = "every sentence lacks tags" if num_skipped else "no sentences: the file is empty"
        raise DataError(problem, where=path)
    if num_skipped:
        notes.append(f"{plural(num_skipped, 'sentence')} with missing tags left out")
    tags = {tag for example in examples for tag in example.gold or ()}
    if tags and all(map(is_number, tags)):
        low, high = min(map(float, tags)), max(map(float, tags))
        notes.append(f"the tags are numbers ({low:g} to {high:g}), and the file has no names for them")
    elif cased_tags := [tag for tag in sorted(tags) if tag != tag.casefold() and tag.casefold() in tags]:
        notes.append(
            f"{cased_tags[0]!r} and {cased_tags[0].casefold()!r} differ only in case: read as two tags"
        )
    if num_unspaced := sum(any(map(_unspaced, example.texts)) for example in examples if example.spans):
        problem = (
            "have no spaces between words and were split only at punctuation: pass lists of words instead"
        )
        notes.append(f"{num_unspaced} of {len(examples)} texts {problem}")
    split = _remove_language(examples) if ending in COLUMN_FORMATS else Split(tuple(examples))
    return replace(split, notes=(*notes, *split.notes))


def is_number(tag: str) -> bool:
    """Whether a tag is a number, such as 3 or -1.0."""
    return bool(re.fullmatch(r"-?\d+(\.\d*)?", tag))


# Files of columns


def _read_word_lines(
    path: Path, options: TagReaderOptions, conllu: bool, labelled: bool
) -> tuple[list[Example], list[str]]:
    file = read_blocks(path, conllu)
    blocks, conllu = file.blocks, file.conllu
    if not blocks:
        return [], []
    if not conllu:
        drop_empty_columns(file)
    rows = [row for block in blocks for row in block.rows]
    options = replace(options, header=options.header or file.header)
    if not conllu and options.is_header(rows):
        first_block = blocks[0]
        path_name, _, line = first_block.where.rpartition(":")
        blocks[0] = first_block._replace(rows=first_block.rows[1:], where=f"{path_name}:{int(line) + 1}")
        options = replace(options, header=tuple(first_block.rows[0]))
        file.blocks = blocks = [block for block in blocks if block.rows]
    if options.header and not conllu and blocks and len(options.header) != file.width:
        if labelled or file.width > len(options.header):
            problem = f"{file.width} columns, but `columns` names {len(options.header)}"
            raise DataError(problem, where=blocks[0].where)
        options = replace(options, header=options.header[: file.width])  # a file to predict may lack the tags
    if not blocks:
        return [], []
    header = CONLLU if conllu else options.header
    if (sentence_position := sentence_column(header)) is not None and not conllu:
        file.blocks = blocks = split_by_column(blocks, sentence_position)
    # Users refer to columns by name (from an option, a header or CoNLL-U) or by number, from 1. In a file
    # without names, "word" and "tag" are the columns whose content can be words and tags.
    positions = {str(i + 1): i for i in range(file.width)} | {name: i for i, name in enumerate(header)}
    if not header:
        positions |= _columns_by_content(path, file, options, labelled)
        blocks = file.blocks
    folded_positions = {name.casefold(): position for name, position in reversed(positions.items())}
    word = _find_column((*options.word, "form"), positions, folded_positions)
    if word is None:
        fix = f"The columns are {', '.join(positions)}; name one with `text_column`"
        raise DataError(f"no column {' or '.join(options.word)}", where=path, fix=fix)
    if header and not conllu and _are_printed_lists([row[word] for block in blocks for row in block.rows]):
        return _read_table(path, options, labelled)
    if len(blocks) == 1 and len(blocks[0].rows) > MAX_PLAUSIBLE_WORDS:
        problem = f"no empty lines: all {len(blocks[0].rows):,} words are read as one sentence"
        if labelled:
            command = """awk '{print} $1=="."{print ""}' FILE"""
            fix = f"Insert an empty line after each sentence; after full stops: {command}"
            raise DataError(problem, where=path, fix=fix)
        file.notes.append(problem)
    tag_position = _find_column(options.tag, positions, folded_positions)
    read_tags = (
        (lambda block: [row[tag_position] for row in block.rows]) if tag_position is not None else None
    )
    if read_tags is None and conllu and options.tag:
        read_tags = _tags_of_misc(blocks, options, file)
    column_names = header or tuple(map(str, range(1, file.width + 1)))
    examples = []
    for block in blocks:
        tags = read_tags(block) if read_tags else None
        other_cells: dict[str, Any] = {
            name: [row[i] for row in block.rows] for i, name in enumerate(column_names) if i != word
        }
        if block.comments:
            other_cells["comments"] = ["\n".join(block.comments), *[""] * (len(block.rows) - 1)]
        words = tuple(row[word] for row in block.rows)
        examples.append(
            Example(block.name, block.where, words, tuple(tags) if tags else None, row=other_cells)
        )
    return examples, file.notes


def _find_column(
    names: Sequence[str], positions: Mapping[str, int], folded_positions: Mapping[str, int]
) -> int | None:
    columns = (positions.get(name, folded_positions.get(name.casefold())) for name in names)
    return next((column for column in columns if column is not None), None)


def _columns_by_content(
    path: Path, file: ColumnFile, options: TagReaderOptions, labelled: bool
) -> dict[str, int]:
    """Returns the positions of "word" and "tag" in a file without column names; "tag" only if it has tags.

    Splits the blocks at changes of a column that numbers the sentences, if the file has no empty lines.
    """
    word = word_column(file)
    if len(file.blocks) == 1:
        for column in range(word):
            if numbered_unit(file.blocks, column) == "sentences":
                file.blocks = split_by_column(file.blocks, column)
                file.notes.append(f"no empty lines: column {column + 1} numbers the sentences")
    if (swapped_position := word_column_after_tags(file, word, options.is_entity)) is not None:
        word = swapped_position
    columns = {"word": word}
    if file.width > 1 and "tag" in options.tag:
        tag, rejection_reasons = tag_column(file, word, options.is_entity, options.entities)
        if tag is not None:
            columns["tag"] = tag
        elif labelled:
            reasons = ", ".join(f"column {column + 1} {why}" for column, why in rejection_reasons.items())
            problem = f"no column of tags{f': {reasons}' if reasons else ''}"
            raise DataError(problem, where=path, fix="Name their column with `label_column`")
    if file.width > 2 or word:
        roles = ", ".join(f"{name}s are column {column + 1}" for name, column in columns.items())
        fix = "to use others, pass `text_column` and `label_column`"
        file.notes.append(f"{roles} of {file.width} ({fix})")
    return columns


def _tags_of_misc(
    blocks: Sequence[Block], options: TagReaderOptions, file: ColumnFile
) -> Callable[[Block], list[str]] | None:
    """Returns a function from a sentence to its tags in MISC; None if no word has a key in `options.tag`."""
    key_counts = Counter(key for block in blocks for row in block.rows for key in _misc(row))
    key = next((name for name in options.tag if name in key_counts), None)
    if key is None:
        _require_separated_pairs(blocks, options)
        if key_counts:
            file.notes.append(f"MISC has {', '.join(f'{name}=' for name, _ in key_counts.most_common(5))}")
        return None
    _require_separated_pairs(blocks, replace(options, tag=(key,)))
    num_words = sum(len(block.rows) for block in blocks)
    if key_counts[key] < num_words:
        num_without_key = num_words - key_counts[key]
        file.notes.append(
            f"{num_without_key:,} of {num_words:,} words have no {key}= in MISC: read as {options.absent!r}"
        )
    return lambda block: [_misc(row).get(key, options.absent) for row in block.rows]


def _misc(row: Sequence[str]) -> dict[str, str]:
    """Returns the key-value pairs of MISC, which some files separate by spaces instead of "|"."""
    pairs = re.split(r"\s*\|\s*|\s+(?=[\w.:-]+=)", row[-1].strip())
    return {key: value for key, equals, value in (pair.partition("=") for pair in pairs) if equals}


def _require_separated_pairs(blocks: Sequence[Block], options: TagReaderOptions) -> None:
    """Raises DataError if a key in `options.tag` occurs in MISC, but not at the start of a pair."""
    key_pattern = (
        re.compile(rf"(?<![\w.:-])(?:{'|'.join(map(re.escape, options.tag))})=") if options.tag else None
    )
    for block in blocks:
        for row in block.rows:
            if key_pattern and (match := key_pattern.search(row[-1])) and match[0][:-1] not in _misc(row):
                problem = f"the pairs in MISC are not separated by '|': {row[-1]!r}"
                raise DataError(problem, where=block.where, fix="Write A=b|C=d, as in CoNLL-U")


# Tables


def _read_table(path: Path, options: TagReaderOptions, labelled: bool) -> tuple[list[Example], list[str]]:
    texts = () if labelled else TEXT_COLUMNS
    table = open_table(path, ReadOptions(header=options.header, required=[(name,) for name in options.word]))
    word = table.first_column((*options.word, *texts))
    if word is None:
        raise table.missing_column(options.word, "`text_column`")
    tag, notes = table.first_column(options.tag), list(table.notes)
    rows = list(table.rows)
    values = [row.get(word) for _, row in rows]
    has_lists, id_position = any(isinstance(value, list) for value in values), sentence_column(table.columns)
    sentence_id = (
        None if id_position is None or table.columns[id_position] == word else table.columns[id_position]
    )
    is_printed = _are_printed_lists(values)
    has_single_words = (
        word.casefold() in options.split_in
        and not has_lists
        and not any(re.search(r"\s", str(value).strip()) for value in values)
    )
    if sentence_id is not None and not has_lists and not is_printed:
        return _group_words(rows, (word, tag, sentence_id), table, notes), notes
    if has_single_words and len(rows) > 1 and not is_printed:
        if split_name(path)[1] == ".csv" and any(not line.strip() for _, line in list(read_lines(path))[:-1]):
            return _read_word_lines(path, options, False, labelled)
        if labelled:
            problem = "each row has one word, and no column numbers the sentences"
            fix = "Add a column `sentence_id`, or write a list of words in each row"
            raise DataError(problem, where=path, fix=fix)
    are_tags_printed = tag is not None and _are_printed_lists([row.get(tag) for _, row in rows])
    is_text = not labelled and word.casefold() not in options.split_in
    examples = []
    for index, (where, row) in enumerate(rows):
        value, spans = row.get(word), Spans()
        if is_text and isinstance(value, str) and not is_printed:
            words, spans = split_text(value, options.split)
        else:
            words = _parse_words(value, word, where, is_printed)
        tag_value = row.get(tag) if tag else None
        if words:
            gold = (
                None
                if tag_value is None
                else _parse_words(tag_value, tag or "", where, are_tags_printed, tags=True)
            )
            if isinstance(tag_value, str) and gold and len(gold) != len(words):  # B-PER,O,O
                gold = tuple(re.split(r"\s*[,;|]\s*", tag_value.strip()))
            other_cells = {name: cell for name, cell in row.items() if name != word}
            examples.append(Example(row_id(row, "id", index), where, words, gold, other_cells, spans))
    if num_empty := len(rows) - len(examples):
        notes.append(f"{num_empty} of {len(rows)} rows without words left out")
    return examples, notes


def _group_words(
    rows: Sequence[tuple[str, Mapping[str, Any]]],
    columns: tuple[str, str | None, str],
    table: Table,
    notes: list[str],
) -> list[Example]:
    """Groups rows with one word each into sentences; an empty sentence id continues the sentence."""
    word, tag, sentence = columns
    groups: list[list[tuple[str, Mapping[str, Any]]]] = []
    last_id: object = None
    for where, row in rows:
        value = row.get(sentence)
        if not groups or (value != last_id and str(value).strip().lower() not in ("", "nan", "none", "null")):
            groups.append([])
            last_id = value
        groups[-1].append((where, row))
    if num_repeated := len(groups) - len({str(group[0][1].get(sentence)) for group in groups}):
        problem = f"{num_repeated} values of column {sentence!r} recur after other values"
        notes.append(f"{problem}: read as separate sentences")
    examples = []
    for group in groups:
        cells = [row for _, row in group]
        for where, row in group:
            if row.get(word) is None:
                raise DataError(f"no word in column {word!r}", where=where)
        words = tuple(str(row[word]) for row in cells)
        gold = tuple("" if row.get(tag) is None else str(row[tag]) for row in cells) if tag else None
        other_cells = {
            name: [row.get(name) for row in cells] for name in table.columns if name not in (word, sentence)
        }
        examples.append(Example(str(cells[0].get(sentence) or ""), group[0][0], words, gold, other_cells))
    return examples


def _are_printed_lists(values: Sequence[Any]) -> bool:
    """Whether all non-empty strings of a column are bracketed lists."""
    texts = [value.strip() for value in values if isinstance(value, str) and value.strip()]
    return bool(texts) and all(text[0] in "[(" and text[-1] in "])" for text in texts)


def _parse_words(
    value: Any, column: str, where: str, printed: bool = False, tags: bool = False
) -> tuple[str, ...]:
    """Returns the words or tags of a cell: a list, a printed list, or strings separated by white space."""
    if isinstance(value, str):
        return _parse_printed_list(value, column, where) if printed else tuple(value.split())
    if isinstance(value, list):
        if tags:
            value = ["" if entry is None else entry for entry in value]
        if all(isinstance(entry, str | int) for entry in value):
            return tuple(str(entry).encode("utf-8", "replace").decode() for entry in value)
        invalid = next(n for n, entry in enumerate(value, 1) if not isinstance(entry, str | int))
        problem = f"word {invalid} in column {column!r} is {value[invalid - 1]!r}, not a string"
        raise DataError(problem, where=where, fix='Write every word as a string, such as "null"')
    raise DataError(f"column {column!r} must contain a list of words, not {value!r}", where=where)


def _parse_printed_list(text: str, column: str, where: str) -> tuple[str, ...]:
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
            problem = f"column {column!r} has an incomplete or invalid list of words, {_shorten(text)}"
            raise DataError(problem, where=where, fix='Write lists as JSON: ["one", "two"]')
        words.append(str(ast.literal_eval(item[1])) if item[1][0] in "'\"" else item[1])
        position = item.end()
    return tuple(words)


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


# Texts


def _is_text(path: Path, options: TagReaderOptions) -> bool:
    """Whether the lines of a file without tags are texts.

    Lines with tabs are not. Other lines are texts if they differ in their number of words, if one is long and
    in a script without spaces, or if their last words are too varied to be tags.
    """
    lines = [line for _, line in read_lines(path) if line.strip() and not line.startswith("-DOCSTART-")]
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


def _read_texts(path: Path, options: TagReaderOptions) -> tuple[list[Example], list[str]]:
    examples = []
    for number, line in read_lines(path):
        words, spans = split_text(line, options.split)
        if words:
            examples.append(Example(str(number - 1), f"{path}:{number}", words, spans=spans))
    return examples, [f"read as one text per line, {len(examples)} in all"]


def _read_m2(path: Path) -> Iterator[Example]:
    words: tuple[str, ...] = ()
    tags: list[str] = []
    where, lines = "", list(read_lines(path))
    annotators = {line.rpartition("|||")[2] for _, line in lines if line.startswith("A ")}
    first_annotator = min(annotators, key=lambda name: (len(name), name), default="")  # the lowest number
    for number, line in [*lines, (0, "S")]:
        kind, _, rest = line.partition(" ")
        if kind == "S":
            if words:
                yield Example("", where, words, tuple(tags))
            where, words = f"{path}:{number}", tuple(rest.split())
            tags = [CORRECT] * len(words)
        elif kind == "A":
            fields = rest.split("|||")
            span = [int(offset) for offset in fields[0].split() if re.fullmatch(r"-?\d+", offset)]
            if len(fields) != 6 or len(span) != 2 or not (span[0] <= span[1] <= len(words)):
                fix = "Write A FIRST END|||type|||correction|||..."
                raise DataError("not an edit within its sentence", where=f"{path}:{number}", fix=fix)
            if fields[-1] == first_annotator and fields[1] != "noop" and words and span[0] >= 0:
                edited_positions = (
                    range(span[0], span[1]) if span[0] < span[1] else [min(span[0], len(words) - 1)]
                )
                for position in edited_positions:
                    tags[position] = INCORRECT
        elif line.strip():
            fix = "See docs/finetuning-data.md, Tagging"
            raise DataError("neither a sentence (S) nor an edit (A)", where=f"{path}:{number}", fix=fix)


def _remove_language(examples: Sequence[Example]) -> Split:
    """Removes a language code if every word of a file begins with it, as in WikiANN's "en:Paris"."""
    match = _LANGUAGE.match(examples[0].texts[0]) if examples[0].texts else None
    prefix = match[0] if match else ""
    if not prefix or not all(word.startswith(prefix) for example in examples for word in example.texts):
        return Split(tuple(examples))
    stripped_examples = [
        replace(example, texts=tuple(word.removeprefix(prefix) for word in example.texts))
        for example in examples
    ]
    return Split(tuple(stripped_examples), notes=(f"removed {prefix!r}, which every word began with",))
