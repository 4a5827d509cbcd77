"""Reads sentences of tagged words.

columns         one word per line, an empty line between sentences (word_columns.py); or a sentence per
                line, with its tags in another column
tables          a list of words and a list of tags in each row (in csv as JSON, or separated by spaces); a
                text or words and spans (annotated_spans.py); or one word per row, with a column that
                numbers the sentences
marked texts    entities inside or beside the texts (marked_text.py)

Columns have names in CoNLL-U, in a first row that has the words' name, or from the user; otherwise the words
are the first column that does not number them, and the tags the last if there are two or it has entity tags,
or the only one that has neither numbers nor words. Files to be tagged may also have a text in each row of a
table, or on each line of a .txt file; in such a file, wrong words can be made up to train on.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from electra.data.tables import delimited
from electra.data.tables.characters import latin, strange_character, visible
from electra.data.tables.lines import Place
from electra.data.tables.table import (
    SAMPLE,
    ReadOptions,
    Row,
    get_field,
    key_of,
    lacks_text,
    printed_list,
    read_lines,
    row_id,
)
from electra.data.tables.table_files import FORMATS as TABLES
from electra.data.tables.table_files import Data, Given, extension_of, known_extension
from electra.data.tables.word_columns import WIDE, Block, ColumnFile, joining_mark, read_blocks
from electra.finetuning.labelled.annotated_spans import SPAN_COLUMNS, holds_spans, with_tags_of_spans
from electra.finetuning.labelled.annotations import open_annotated, voided
from electra.finetuning.labelled.examples import Example, Split
from electra.finetuning.labelled.made_up import SHARE, made_up
from electra.finetuning.labelled.marked_text import read_marked
from electra.finetuning.labelled.word_splitting import Splitting, are_words, is_unspaced, split_text
from electra.finetuning.score.entities import is_entity_tag, is_outside
from electra.foundation.errors import DataError
from electra.foundation.terminal_text import plural, when

CONLLU_FORMATS = (".conllu", ".conllup")
COLUMN_FORMATS = (*CONLLU_FORMATS, ".tsv", ".tab", ".txt", ".conll", ".bio", ".iob", ".iob2", ".bioes")
TABLE_FORMATS = tuple(ending for ending in TABLES if ending not in COLUMN_FORMATS)
FORMATS = (*TABLE_FORMATS, *COLUMN_FORMATS)
WORD_FILES = tuple(ending for ending in COLUMN_FORMATS if ending not in (".tsv", ".tab", ".txt"))
WORD_COLUMNS = ("word", "token", "tokens", "words")  # names of columns of words, in strings between spaces
GLINER_WORDS = "tokenized_text"  # where spans count words and include their end
TEXT_COLUMNS = ("text", "sentence", "data", "data.text")  # names of columns whose texts are split into words
SENTENCE_COLUMNS = ("sentence_id", "sent_id", "Sentence #")  # names of columns that number sentences
MISSING = frozenset({"", "_", "-100"})  # cells without a tag
MAX_PLAUSIBLE_WORDS = 200  # a sentence of more words suggests that the file lacks empty lines
FULL_STOPS = (".", "?", "!", "\u3002", "\u0964", "\u061f")  # so do two of these
PRINTED = re.compile("b['\"]")  # bytes, as Python prints them
SUFFIXED = re.compile("^([^-_].+)([-_])([BIESLUM])$")
BRACKETS = re.compile(r"\*\)?|\([^()*\s]+(\*?\)|\*)")  # the entities of CoNLL-2012


@dataclass
class SentenceReader:
    """Reads the sentences of a file: the names of the columns of words and tags, and how to read them."""

    source: Data
    labelled: bool  # whether tags are required
    word: tuple[str, ...]  # possible names of the words' column, in order of preference
    tag: tuple[str, ...]  # possible names of the tags' column, in order of preference
    header: tuple[str, ...] = ()  # column names for files without them
    split: Splitting = "punctuation"  # how texts are split into words
    skip_unlabelled: bool = False  # leave out sentences with missing tags
    entities: bool | None = None  # whether tags are those of entities; None: either
    makes_up: bool = False  # whether wrong words are made up in a labelled .txt file of texts
    notes: list[str] = field(default_factory=list)  # for the user, on how the file was read

    def read(self) -> Split:
        """Returns an example for each sentence, its words as texts and its tags as gold (None without).

        Raises DataError if the file is invalid, or tags are required and missing.
        """
        is_folder = isinstance(self.source, Path) and self.source.is_dir()
        ending = ".arrow" if is_folder else known_extension(self.source, FORMATS)
        notes = self.notes
        if ending in TABLE_FORMATS:
            sentences = self.read_table()
        elif marked := self.marked_rows(ending):
            sentences = self.of_rows(marked, "text", "spans")
        elif (lines := self.text_lines(ending)) and self.labelled:
            notes.append(f"clean text, {SHARE:.0%} of whose words are made wrong")
            sentences = made_up(lines)
        elif lines:
            notes.append("read as one text per line")
            sentences = self.of_rows([(place, {"text": line}) for place, line in lines], "text", None)
        else:
            sentences = self.read_word_lines(ending in CONLLU_FORMATS)
        sentences = self.with_plain_tags(sentences)
        examples = [
            replace(example, id=example.id or str(index), gold=self.present_tags(example))
            for index, example in enumerate(sentences)
        ]
        if self.labelled:
            examples = [example for example in examples if example.gold is not None]
        if not examples:
            problem = "every sentence lacks tags" if sentences else "no sentences: the file is empty"
            raise DataError(problem, where=self.source)
        if num_skipped := len(sentences) - len(examples):
            notes.append(f"{plural(num_skipped, 'sentence')} with missing tags left out")
        if num_unspaced := sum(any(map(is_unspaced, example.texts)) for example in examples if example.spans):
            problem = "have no spaces between words and were split only at punctuation"
            notes.append(f"{num_unspaced} of {len(examples)} texts {problem}: pass lists of words instead")
        return Split(tuple(examples), notes=tuple(notes))

    def with_tags(self, tags: Sequence[str]) -> bytes:
        """Returns a file of a word per line, with `tags` in their column and all else as it is.

        Without such a column, they are in CoNLL-U's MISC (as in ner=B-PER), or in a further column of any
        other file. Raises DataError if there is no place for them, or lines hold sentences.
        """
        file = read_blocks(self.source, extension_of(self.source) in CONLLU_FORMATS)
        header = file.names or self.take_header(file)
        column = _find(self.tag, header or _usual_names(file, self.entities))
        misc = _find(("MISC",), file.names)
        has_place = column is not None or misc is not None or not header
        counts = {block.where.number: len(block.rows) for block in file.blocks}
        lines, left, rest = list[str](), 0, iter(tags)
        for place, line in file.lines:
            left, separator, written = counts.get(place.number, left), "\t" if "\t" in line else None, line
            cells = line.split(separator)
            if left and line.strip() != "<g/>" and (not file.names or cells[0].isdecimal()):
                left, tag = left - 1, next(rest, "")
                if column is not None:
                    cells[column] = tag
                elif misc is not None:
                    others = [] if cells[misc] == "_" else [cells[misc]]
                    cells[misc] = "|".join([*others, f"{self.tag[0]}={tag}"])
                else:
                    cells.append(tag)
                written = (separator or " ").join(cells)
            lines.append(f"{written}\n")
        if not has_place or next(rest, None) is not None or sum(counts.values()) != len(tags):
            problem = "no word per line" if has_place else f"no column {' or '.join(self.tag)}"
            raise DataError(problem, where=self.source, fix="Write csv, tsv or jsonl")
        return "".join(lines).encode()

    def marked_rows(self, ending: str) -> list[tuple[Place, Row]]:
        """Returns the texts and spans of a .txt file of marked texts; [] of any other file."""
        if ending != ".txt" or self.header or self.entities is False:
            return []
        layout, rows = read_marked(self.source, [*read_lines(self.source)])
        self.notes += [f"read as {layout}"] if rows else []
        return rows

    def with_plain_tags(self, sentences: Sequence[Example]) -> list[Example]:
        """Returns sentences with tags without invisible characters and, for entities, look-alike letters."""
        tags = {tag for example in sentences for tag in example.gold or ()}
        plain = {tag: visible((printed_list(tag) or [tag])[0] if PRINTED.match(tag) else tag) for tag in tags}
        usual = {tag for tag in plain.values() if is_entity_tag(tag)}
        strange = {tag: latin(tag[:2]) + tag[2:] for tag in {*plain.values()} - usual}
        strange |= {"0": "O"} if "0" in strange else {}
        strange |= {tag: latin(tag) for tag in usual if latin(tag) in usual}
        are_entities = all(map(is_entity_tag, strange.values()))
        if self.entities is not False and are_entities and max(map(len, tags), default=0) > len("O"):
            plain = {tag: strange.get(name, name) for tag, name in plain.items()}
        given = Counter(tag for example in sentences for tag in example.gold or ())
        changed = Counter({tag: count for tag, count in given.items() if plain[tag] != tag.strip()})
        if changed:
            tag = min(changed)
            reason = "invisible characters"
            if plain[tag] != visible(tag):
                reason = strange_character(visible(tag)) or "a zero"
            reason = "printed bytes" if PRINTED.match(tag) else reason
            note = f"{plural(changed.total(), 'tag')} with {reason}, such as {tag}, read as {plain[tag]}"
            self.notes.append(note)
        golds = [None if each.gold is None else tuple(map(plain.__getitem__, each.gold)) for each in sentences]
        return [replace(example, gold=gold) for example, gold in zip(sentences, golds, strict=True)]

    def text_lines(self, ending: str) -> list[tuple[Place, str]]:
        """Returns the lines of a .txt file of texts; [] if it has words, or tags are read from it."""
        if self.header or ending != ".txt" or (self.labelled and not self.makes_up):
            return []
        lines = [*read_lines(self.source)]
        tagged = sum(line.split()[-1:] in (["c"], ["i"]) for _, line in lines)  # a word and its label
        return lines if 2 * tagged < len(lines) and _has_texts([line for _, line in lines]) else []

    def read_table(self) -> list[Example]:
        """Reads rows with a sentence or with one word each."""
        required = [(name,) for name in self.word]
        table = open_annotated(self.source, ReadOptions(header=self.header, required=required))
        rows = list(table.rows)
        self.notes += table.notes
        usual = (GLINER_WORDS, *TEXT_COLUMNS) if len(self.word) > 1 or not self.labelled else ()
        names = [name for name in map(table.find_column, (*self.word, *usual)) if name]
        values = {name: [get_field(row, name) for _, row in rows] for name in names}
        filled = {name: [each for each in cells if each is not None] for name, cells in values.items()}
        texts = [name for name, cells in filled.items() if cells and not any(map(holds_spans, cells))]
        word = next(iter(texts or names), None)
        tag = table.first_column((*self.tag, *(SPAN_COLUMNS if len(self.tag) > 1 else ())))
        number = table.first_column(SENTENCE_COLUMNS)
        if word is None or (tag is None and self.labelled):
            missing, option = (self.word, "text_column") if word is None else (self.tag, "label_column")
            raise table.missing_column(missing, f"`{option}`")
        void, _, void_notes = voided(table, rows, (word, tag), self.labelled)
        self.notes += void_notes
        if self.labelled:
            rows = [row for index, row in enumerate(rows) if index not in void]
        else:
            for index in void:
                rows[index] = (rows[index][0], {**rows[index][1], str(tag): None})
        is_single = all(isinstance(row.get(word), str) and not re.search(r"\s", row[word]) for _, row in rows)
        if is_single and number is not None:
            columns = [name for name in table.columns if name != number]
            blocks: list[Block] = []
            for place, row in rows:
                name = "" if row.get(number) is None else str(row[number])
                if not blocks or name not in ("", blocks[-1].name):
                    blocks.append(Block(name, place, []))
                blocks[-1].rows.append([row.get(column) for column in columns])
            tag_index = columns.index(tag) if tag in columns else None
            return self.of_blocks(blocks, columns, columns.index(word), tag_index)
        if self.labelled and is_single and word.casefold() in WORD_COLUMNS and len(rows) > 1:
            problem = "each row has one word, and no column numbers the sentences"
            fix = "Add a column `sentence_id`, or write a list of words in each row"
            raise DataError(problem, where=self.source, fix=fix)
        return self.of_rows(rows, word, tag)

    def of_rows(self, rows: Sequence[tuple[Place, Row]], word: str, tag: str | None) -> list[Example]:
        """Returns the sentences of rows with a text or a list of words, and spans or tags, each."""
        cells = [None if tag is None else _annotation(row, tag, where) for where, row in rows]
        are_spans = any(map(holds_spans, cells))
        are_texts = are_spans or not (self.labelled or word.casefold() in WORD_COLUMNS)
        num_unspaced = sum(is_unspaced(str(get_field(row, word))) for _, row in rows)
        splitting = "characters" if are_spans and 2 * num_unspaced > len(rows) else self.split
        annotated: list[tuple[Example, str, Any]] = []
        keeps_empty = not self.labelled and isinstance(self.source, Given)  # an answer to each passed
        for index, ((where, row), cell) in enumerate(zip(rows, cells, strict=True)):
            text = get_field(row, word)
            if not self.labelled and lacks_text(text, self.source):
                text = ""
            is_text = are_texts and isinstance(text, str)
            words, spans = split_text(text, splitting) if is_text else (_words(text, word, where), ())
            gold = None if cell is None or are_spans else _words(cell, str(tag), where, are_tags=True)
            others = {name: other for name, other in row.items() if name != word}
            example = Example(row_id(row, "id", index), where, words, gold, others, spans)
            annotated += [(example, text if is_text else "", cell)] if words or keeps_empty else []
        if num_empty := len(rows) - len(annotated):
            self.notes.append(f"{num_empty} of {len(rows)} rows without words left out")
        if are_spans:
            return with_tags_of_spans(annotated, word == GLINER_WORDS, self.notes)
        return [example for example, _, _ in annotated]

    def read_word_lines(self, conllu: bool) -> list[Example]:
        """Reads rows of a word, or of a sentence, between empty lines."""
        file = read_blocks(self.source, conllu)
        self.notes += file.notes
        names = file.names or self.take_header(file)
        if not file.blocks:
            return []
        is_named = bool(names)
        names = names or _usual_names(file, self.entities)
        # A tagger may have read others.
        usual = ("form", *TEXT_COLUMNS, *(() if self.labelled else WORD_COLUMNS))
        word, tag = (_find(wanted, names) for wanted in ((*self.word, *usual), self.tag))
        if word is None or (tag is None and self.labelled):
            missing, option = (self.word, "text_column") if word is None else (self.tag, "label_column")
            fix = f"The columns are {', '.join(names)}: name one, or its number, with `{option}`"
            fix += when(file.width > WIDE, "; of CoNLL-2012, pass --text-column 4 --label-column 11")
            raise DataError(f"no column {' or '.join(missing)}", where=file.blocks[0].where, fix=fix)
        if not is_named and file.width > 1 and all(row[word].isdecimal() for row in file.rows):
            fix = "Name the column of the words with --text-column, such as 2"
            raise DataError(f"column {word + 1} has only numbers, not words", where=self.source, fix=fix)
        if not is_named and (file.width > 2 or word > 0):
            tags = "" if tag is None else f" and the tags column {tag + 1}"
            found = f"the words are column {word + 1}{tags} of {file.width}"
            self.notes.append(f"{found} (to use others, pass --text-column and --label-column)")
        counts = [[len(cell.split()) for cell in row] for row in file.rows]
        columns = [column for column in range(file.width) if column != word]
        if any(2 * sum(row[word] == row[other] > 1 for row in counts) > len(counts) for other in columns):
            self.notes.append("read as a sentence per line, with a tag for each word")
            rows: list[tuple[Place, Row]] = []
            for _, where, lines in file.blocks:
                for number, cells in enumerate(lines, where.number):
                    row = {**dict(zip(names, cells, strict=True)), names[word]: cells[word].split()}
                    rows.append((where._replace(number=number), row))
            return self.of_rows(rows, names[word], None if tag is None else names[tag])
        words = [row[word] for row in file.rows]
        are_several = len(words) > MAX_PLAUSIBLE_WORDS or sum(map(words.count, FULL_STOPS)) > 1
        if len(file.blocks) == 1 and are_several:
            problem = f"no empty lines: all {len(words):,} words are read as one sentence"
            if self.labelled:
                command = """awk '{print} $1=="."{print ""}' FILE"""
                fix = f"Insert an empty line after each sentence; after full stops: {command}"
                raise DataError(problem, where=self.source, fix=fix)
            self.notes.append(problem)
        return self.of_blocks(file.blocks, names, word, tag)

    def of_blocks(self, blocks: Sequence[Block], names: Sequence[str], word: int, tag: int | None) -> list[Example]:
        """Returns the sentences of rows with one word each; `word` and `tag` are columns."""
        words = [row[word] for block in blocks for row in block.rows]
        # A language code, as in WikiANN's "en:Paris".
        match = re.match("[a-z]{2,3}:", words[0])
        prefix = match[0] if match and all(each.startswith(match[0]) for each in words) else ""
        if prefix:
            self.notes.append(f"removed {prefix!r}, which every word began with")
        tags = [] if tag is None else [str(row[tag]) for block in blocks for row in block.rows]
        has_brackets = all(map(BRACKETS.fullmatch, tags))
        examples = []
        for name, where, rows in blocks:
            columns = [*zip(*rows, strict=True)]
            others = {column: [*columns[i]] for i, column in enumerate(names) if i != word}
            texts = tuple(each.removeprefix(prefix) for each in columns[word])
            gold = None if tag is None else tuple("" if cell is None else str(cell) for cell in columns[tag])
            gold = _bio_of_brackets(gold) if gold and has_brackets else gold
            examples.append(Example(name, where, texts, gold, others))
        return examples

    def take_header(self, file: ColumnFile) -> tuple[str, ...]:
        """Removes a header line, and returns the names of the columns: the user's, or those in that line.

        A first row is a header if it begins the user's names. Without these it must have the words' name
        (that of texts where cells have several words), and a last cell that no other row has.
        """
        if not file.blocks:
            return ()
        names, [first, *rows] = self.header, file.rows
        is_header = tuple(first) == names[: len(first)] or delimited.is_header(first, rows[:SAMPLE])
        if not names:
            texts = TEXT_COLUMNS if any(" " in cell for row in rows for cell in row) else ()
            has_word = _find((*self.word, "form", *texts), first) is not None
            is_header = has_word and (len(first) == 1 or first[-1] not in {row[-1] for row in rows})
        block = file.blocks[0]
        if is_header:
            if names:
                self.notes.append(f"its first line ({', '.join(first)}) names columns, not a word")
            place = block.where._replace(number=block.where.number + 1)
            file.blocks[:1] = [Block(block.name, place, block.rows[1:])] if len(block.rows) > 1 else []
        if names and (file.width > len(names) or (self.labelled and file.width < len(names))):
            problem = f"{plural(file.width, 'column')}, but `columns` names {len(names)}"
            raise DataError(problem, where=block.where)
        return (names or tuple(first))[: file.width] if names or is_header else ()

    def present_tags(self, example: Example) -> tuple[str, ...] | None:
        """Returns the tags of a sentence; None if one is missing, an error if they are required."""
        if example.gold is None:
            return None
        if len(example.gold) != len(example.texts):
            problem = f"{plural(len(example.gold), 'tag')} for {plural(len(example.texts), 'word')}"
            raise DataError(problem, where=example.where, fix="Give each word one tag")
        gold: tuple[str, ...] = example.gold
        if self.entities:  # PER-B is B-PER, and - is O, as in NAVER's files
            gold = tuple("O" if tag == "-" else SUFFIXED.sub(r"\3\2\1", tag) for tag in gold)
        if MISSING.isdisjoint(gold):
            return gold
        if self.labelled and not self.skip_unlabelled:
            word, tag = next(pair for pair in zip(example.texts, gold, strict=True) if pair[1] in MISSING)
            fix = "Write it (such as O), name their column with `label_column`, or pass `skip_unlabelled`"
            raise DataError(f"the tag of {word!r} is missing ({tag!r})", where=example.where, fix=fix)
        return None


def _has_texts(lines: Sequence[str]) -> bool:
    """Whether a .txt file has texts: words have tabs, or empty lines and the same number of cells."""
    shape = "".join("x" if line.strip() else " " for line in lines).strip()
    has_sentences = any("\t" in line for line in lines) or (" " in shape and "xx" in shape)
    is_table = has_sentences and len({len(line.split()) for line in lines if line.strip()}) == 1
    return not is_table and not joining_mark(lines)


# Columns


def _usual_names(file: ColumnFile, are_entities: bool | None) -> tuple[str, ...]:
    """Returns names for columns without names: "word"; "tag", if that column is clear; else numbers."""
    columns = [*zip(*file.rows, strict=True)]
    counts = [i for block in file.blocks for i in range(len(block.rows))]
    word = int(file.width > 2 and columns[0] in [tuple(str(i + start) for i in counts) for start in (0, 1)])
    others, last = range(word + 1, file.width), file.width - 1
    if word == 0 and are_entities is not False and _are_entities(columns[0]):
        others, word = range(1, file.width), 0
        if not any(_are_entities(columns[i]) for i in others):  # tags before words
            names = dict(enumerate(map(str, range(1, file.width + 1))))
            return tuple((names | {0: "tag", 1: "word"}).values())
    types = {i: {tag[2:] for tag in " ".join(columns[i]).split() if not is_outside(tag)} for i in others}
    entities = [i for i in others if all(map(is_entity_tag, " ".join(columns[i]).split())) and types[i]]
    are_layers = any(types[last] & types[i] for i in entities if i != last)  # of nested entities
    candidates = entities
    if len(others) == 1 or (last in entities and not are_layers and are_entities is not False):
        candidates = [last]
    elif are_entities is False or not (entities or are_entities):
        candidates = [i for i in others if i not in entities and _may_be_tags(columns[i], columns[word])]
    tag = candidates[0] if len(candidates) == 1 else 0
    names = dict(enumerate(map(str, range(1, file.width + 1))))
    return tuple((names | ({tag: "tag"} if tag else {}) | {word: "word"}).values())


def _are_entities(column: Sequence[str]) -> bool:
    tags = {*column}
    return all(map(is_entity_tag, tags)) and len(tags) > 1 and any(len(tag) > 2 for tag in tags)


def _may_be_tags(column: Sequence[str], words: Sequence[str]) -> bool:
    values = {*column} - MISSING
    are_others = all(map(str.isdecimal, values)) or are_words(zip(words, column, strict=True))
    return len(values) > 1 and not are_others


def _bio_of_brackets(tags: Sequence[str]) -> tuple[str, ...]:
    """Returns BIO tags for brackets such as (PER*, * and *)."""
    kind, converted = "", []
    for tag in tags:
        kind = tag.strip("()*") if tag.startswith("(") else kind
        converted.append(f"{'B' if tag.startswith('(') else 'I'}-{kind}" if kind else "O")
        kind = "" if tag.endswith(")") else kind
    return tuple(converted)


def _find(wanted: Sequence[str], names: Sequence[str]) -> int | None:
    positions = {str(i + 1): i for i in range(len(names))}
    positions |= {key_of(name): i for i, name in reversed([*enumerate(names)])}
    return next((positions[key_of(name)] for name in wanted if key_of(name) in positions), None)


# Cells


def _annotation(row: Row, tag: str, where: Place) -> Any:
    if tag == "annotations" and not row.get(tag):
        return None
    return _parsed(get_field(row, tag), tag, where)


def _parsed(value: Any, column: str, where: Place) -> Any:
    """Returns the value of a cell; of a list or an object in JSON, the list or object."""
    if isinstance(value, str) and value.strip()[:1] + value.strip()[-1:] in ("[]", "{}"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            problem = f"column {column!r} has a list that is not JSON"
            raise DataError(problem, where=where, fix='Write ["one", "two"]') from None
    return value


def _words(value: Any, column: str, where: Place, are_tags: bool = False) -> tuple[str, ...]:
    """Returns the words or tags of a cell: a list, a list in JSON, or strings separated by white space."""
    items = _parsed(value, column, where)
    if isinstance(items, str):
        return tuple(items.split())
    kinds = str | int | None if are_tags else str | int
    if isinstance(items, list) and all(isinstance(item, kinds) for item in items):
        texts = ("" if item is None else str(item) for item in items)
        return tuple(text.encode("utf-8", "replace").decode() for text in texts)
    fix = 'Write ["one", "two"]; for tags one for each word'
    if isinstance(items, dict):
        fix = f"Name one of its fields, such as {column}.{next(iter(items), 'text')}, with --text-column"
    problem = f"column {column!r} must have a list of {'tags' if are_tags else 'words'}, not "
    raise DataError(problem + repr(items)[:80], where=where, fix=fix)
