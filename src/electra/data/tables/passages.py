"""Reads what the user passed: names of files, "-", texts, rows, or tables from Python."""

import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, chain, groupby, pairwise
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, NamedTuple, cast

from electra.data.corpus.folders import walk_folders
from electra.data.tables.lines import COMPRESSIONS, garbled, is_blank, note_garbled
from electra.data.tables.printed import LineEnds
from electra.data.tables.scanned import SCANNED, Line, OtherXml, Spot, Word, box_around, read_paragraphs
from electra.data.tables.table import cell_text, lacks_text, open_table, read_lines
from electra.data.tables.table_files import TABLES, Data, Given, extension_of, split_name
from electra.data.tables.word_columns import read_blocks
from electra.foundation.errors import DataError, Note, NoWords
from electra.foundation.machine import library
from electra.foundation.options import STDIN, Source
from electra.foundation.terminal_text import decode_argument, plural, some_of, when

Texts = Source | Iterable[str]
CONLL = (".conll", ".conllu", ".iob", ".bio")


# Tables and texts from Python


def records(rows: Any, where: str = "") -> list[Any]:
    """Returns the rows of a table, a data set or any other iterable as a list.

    Tables are those of pandas, Polars (lazy, too), pyarrow, DuckDB and others that export Arrow, which are
    not imported for that. Raises DataError if two columns have the same name, or there is nothing to iterate.
    """
    for method in ("collect", "to_table"):  # of a lazy frame, a data set of pyarrow
        rows = getattr(rows, method)() if hasattr(type(rows), method) else rows
    methods = [name for name in ("to_dicts", "to_pylist", "to_dict") if hasattr(rows, name)]
    if hasattr(rows, "__arrow_c_stream__") and not methods:
        rows = library("pyarrow", "data", "tables of Arrow").RecordBatchReader.from_stream(rows).read_all()
    columns = getattr(rows, "column_names", getattr(rows, "columns", None))
    names = [] if columns is None else list(columns)
    if repeated := [name for name in names if names.count(name) > 1]:
        raise DataError(f"two columns have the name {repeated[0]!r}", where=where, fix="Rename one")
    if getattr(rows, "features", None) and hasattr(rows, "with_format"):
        from electra.data.tables.columnar import class_names, with_class_names

        class_names_of = class_names(rows.features.to_dict())
        return [with_class_names(row, class_names_of) for row in rows.with_format(None)]
    if hasattr(rows, "columns") and methods == ["to_dict"]:
        return list(rows.to_dict("records"))
    for method in ("to_dicts", "to_pylist"):
        if hasattr(rows, method):
            return list(getattr(rows, method)())
    return list(_iterable(rows, where, "Pass a list, or a DataFrame"))


def is_table(value: Any) -> bool:
    """Whether a value is a table of pandas, Polars, pyarrow, DuckDB or `datasets`, not one column."""
    return any(hasattr(type(value), name) for name in ("columns", "column_names"))


def each_text(texts: Any) -> Iterator[str]:
    """Yields the texts, or the single text; "" for None and NaN. Raises DataError for anything else."""
    if hasattr(texts, "to_pylist") and not is_table(texts):  # a column of pyarrow
        texts = texts.to_pylist()
    if isinstance(texts, Mapping) or is_table(texts):
        raise DataError("expected texts, got a table", where="texts", fix="Pass one column: frame['text']")
    fix = "Pass a text, or a list of texts"
    for number, text in enumerate([texts] if isinstance(texts, str) else _iterable(texts, "texts", fix), 1):
        if not isinstance(text, str) and not lacks_text(text):
            raise DataError(f"{shortened(text)} is not text", where=f"text {number}", fix=fix)
        yield text if isinstance(text, str) else ""


def _iterable(values: Any, where: str, fix: str) -> Iterator[Any]:
    with suppress(TypeError):
        if not isinstance(values, bytes):
            return iter(values)
    raise DataError(f"{shortened(values)} is not a list", where=where, fix=fix)


# Texts to which a model is applied


class Passage(NamedTuple):
    """A text and where it is from."""

    text: str
    row: Mapping[str, Any]  # the columns of its table, or only `text`
    file: str = ""
    line: int = 0  # the line or row of a file, the page of a scan; 0: unknown
    words: tuple[tuple[int, str], ...] = ()  # of a scan or CoNLL: where words begin, their names in the file
    lines: tuple[tuple[int, Line], ...] = ()  # of a scan: where lines begin
    spots: tuple[tuple[Spot, ...], ...] = ()  # of a scan: where each of `words` is in the file


def read_passages(texts: Texts, column: str = "text", ends: LineEnds | None = None) -> Iterator[Passage]:
    """Returns each text with its row: the columns of a table, of which `column` has the text, or only `text`.

    The texts are those of a file (a table, lines, hOCR, ALTO, PAGE or DjVu XML, CoNLL), of a folder of files,
    of standard input ("-"), or as passed. Tables and lines may be larger than memory. `ends` joins the words
    that are divided at the ends of lines. A text that is missing is "". Both are counted in notes. Raises
    DataError for what is no text, and if there is none.
    """
    ends = ends or LineEnds()
    if isinstance(texts, str) and is_blank(texts):
        raise DataError("no text", fix="Pass a text, or a file of texts")
    is_name = isinstance(texts, str | os.PathLike) and os.path.exists(texts)
    return _noted(_passages(texts, column, ends), ends, str(texts) if is_name else "")


def _noted(passages: Iterator[Passage], ends: LineEnds, name: str) -> Iterator[Passage]:
    total, blank, broken = 0, list[Passage](), list[str]()
    for passage in passages:
        total += 1
        if is_blank(passage.text):
            blank.append(passage)
        broken += garbled(passage.text)
        yield passage
    notes = [ends.note()] if ends.note() else []
    if blank:
        count = f"{len(blank):,} of {plural(total, 'text')}"
        numbers = some_of([str(each.line) for each in blank])
        notes.append(f"{count} are empty and get no answer ({numbers})")
    if broken:
        notes.append(note_garbled(len(broken), broken[0], name))
    for note in notes:
        warnings.warn(f"{name}: {note}" if name else note, Note, stacklevel=2)


def text_files(texts: Texts) -> list[Path]:
    """Returns the files that `read_passages` reads: of a folder, of several paths, or one; [] for texts.

    Raises DataError for a folder without any and for a file that is missing.
    """
    if not isinstance(texts, str | os.PathLike):
        several = texts if isinstance(texts, Sequence) else ()
        are_paths = all(isinstance(each, os.PathLike) for each in several)
        return [file for each in several for file in text_files(each)] if are_paths else []
    if not os.path.isdir(texts):
        return [file] if isinstance(file := _file(texts), Path) else []
    known = (".txt", *TABLES, *SCANNED, *CONLL)
    folders = walk_folders(Path(texts), error=DataError)
    files = [file for folder in folders for file in sorted(folder.iterdir())]
    files = [file for file in files if file.is_file() and split_name(file)[1] in known]
    if not files:
        raise DataError("no files of texts", where=str(texts), fix=f"Use {', '.join(known)}")
    return files


def _passages(texts: Texts, column: str, ends: LineEnds) -> Iterator[Passage]:
    is_one = isinstance(texts, str | os.PathLike)
    files = text_files(texts)
    if files and not (is_one and files == [Path(cast(Source, texts))]):
        return _passages_of_files(files, str(texts) if is_one else "", column, ends)
    source = Given("the table", rows=records(texts)) if is_table(texts) else _file(texts)
    if source is None:
        found = [decode_argument(texts)] if isinstance(texts, str) else each_text(texts)
        return (Passage(text, {"text": text}, "", number) for number, text in enumerate(found, 1))
    name, extension = str(source), extension_of(source)
    if extension in SCANNED or extension in CONLL:
        return _passages_of_words(source, extension, ends)
    if extension in TABLES:
        rows = ((where, row, cell_text(row, column, where, source)) for where, row in open_table(source).rows)
        return (Passage(text, row, name, where.number) for where, row, text in rows)
    lines = enumerate(ends.lines(_lines(source)), 1)
    return (Passage(text, {"text": text}, name, number) for number, text in lines)


def _passages_of_files(files: Sequence[Path], where: str, column: str, ends: LineEnds) -> Iterator[Passage]:
    blank, others = list[str](), list[str]()
    for file in files:
        try:
            yield from _passages(file, column, ends)
        except OtherXml as other:
            others.append(f"{file.name}: {other.what}")
        except NoWords:
            blank.append(file.name)
    if len(blank) + len(others) == len(files):
        named = f" ({'; '.join(others[:3])})" if others else ""
        raise NoWords(f"no words in {plural(len(files), 'file')}{named}", where=where)
    for names, problem in ((blank, "no words in"), (others, "skipped")):
        if names:
            note = when(bool(where), f"{where}: ") + f"{problem} {len(names)} of {len(files)} files: {some_of(names)}"
            warnings.warn(note, Note, stacklevel=2)


def _passages_of_words(source: Data, extension: str, ends: LineEnds) -> Iterator[Passage]:
    """Yields the paragraphs of a scan or the sentences of a CoNLL file, whose words are joined by spaces."""
    found: Iterable[tuple[int, Sequence[Word]]]
    if extension in SCANNED:
        found = read_paragraphs(source, ends)
    else:
        file = read_blocks(source, extension == ".conllu")
        form = file.names.index("FORM") if "FORM" in file.names else 0
        sentences = ((block.where.number, block.rows) for block in file.blocks)
        found = [(at, [Word(row[form], str(n)) for n, row in enumerate(rows, 1)]) for at, rows in sentences]
    if not found:
        raise NoWords("no text", where=str(source))
    for number, words in found:
        text = " ".join(word.text for word in words)
        starts = [*accumulate((len(word.text) + 1 for word in words), initial=0)]
        named = tuple(zip(starts, (word.name for word in words), strict=False))
        lines = list[tuple[int, Line]]()
        for at, members in groupby(zip(starts, words, strict=False), key=lambda each: each[1].line):
            within = [*members]
            box = at.box or box_around(word.box for _, word in within)
            lines.append((within[0][0], Line(at.name, box)))
        spots = tuple(word.spots for word in words)
        is_scan = extension in SCANNED
        yield Passage(text, {"text": text}, str(source), number, named, tuple(lines) * is_scan, spots)


def _lines(source: Data) -> Iterator[str]:
    is_empty = True
    for line, following in pairwise(chain((line for _, line in read_lines(source)), [None])):
        if line or following is not None:  # the last line break ends no empty line
            is_empty = False
            yield str(line)
    if is_empty:
        raise NoWords("no text", where=str(source))


def _file(texts: Texts) -> Data | None:
    """Returns the file that `texts` names, or standard input; None for a text or several texts."""
    if not isinstance(texts, str | os.PathLike):
        return None
    if texts == STDIN:
        return Given("standard input", extension=".txt", stream=sys.stdin.buffer)
    path = Path(texts)
    if is_file(path):
        return path
    suffixes = (*TABLES, *COMPRESSIONS, *SCANNED, *CONLL, ".txt")
    looks_like_one = path.suffix.lower() in suffixes or "/" in str(texts)
    if isinstance(texts, os.PathLike) or (looks_like_one and not any(map(str.isspace, texts))):
        raise DataError("no such file", where=str(texts), fix="Check the path")
    return None


def is_file(path: Path) -> bool:
    """Whether there is a file, a pipe or a device at the path."""
    return os.path.exists(path) and not os.path.isdir(path)  # a long text, or one with a NUL, is no path
