"""Reads documents from files: plain text, or the text field of tables.

Imperfect text is repaired: UTF-8 is expected, or what the beginning of the file looks like; text and csv may
also be cp1252, with a note. Undecodable bytes, and lone surrogates in JSON, become U+FFFD and are counted;
NUL characters are dropped and counted; CRLF and CR become LF. A file that is mostly not text is refused.
Files are streamed: a text longer than `MAX_DOCUMENT` characters continues as the next document, cut at a
space if there is one, so that memory stays bounded.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from reprlib import repr as shortened
from typing import IO, Any, NamedTuple

from electra.data.corpus import python_docs
from electra.data.corpus.sources import Source, convert_errors
from electra.data.tables import lines
from electra.data.tables.hub_files import DATA_SET, load_data_set
from electra.data.tables.lines import HEAD, SURROGATES, Place
from electra.data.tables.printed import LineEnds
from electra.data.tables.table import ReadOptions, get_field, stream_table
from electra.data.text_settings import CorpusConfig, Unit
from electra.foundation.errors import CorpusError, DataError
from electra.foundation.terminal_text import plural, some_of

TEXT_EXPANSION_RATIO = 1000  # see `lines.open_bytes`
MAX_DOCUMENT = 1 << 20  # characters
LARGE_FILE = 500_000  # a file with this many characters probably holds several documents
MAX_NAMES = 3  # files or rows named in a note
MIN_BROKEN = 1000  # broken rows after which reading stops if most rows are broken
_WIKI = re.compile(r"<doc id=\"[^\"]*\"[^>\n]*>\s*")  # before a document from WikiExtractor
_WIKI_END = "</doc>"
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f\ud800-\udfff]")
_SPACE = re.compile(r"\s(?=\S*\Z)")  # the last white space of a text


class ReadText(NamedTuple):
    """One document's text and the number of repairs."""

    text: str
    replaced: int = 0  # undecodable bytes, each run now one U+FFFD
    nuls: int = 0  # NUL characters dropped


@dataclass
class Faults:
    """Counts and examples of the problems in the part of a corpus that was read so far."""

    rows: int = 0  # rows of tables read
    broken: int = 0  # rows that are unreadable or have no text
    first_broken: list[CorpusError] = field(default_factory=list)
    nulls: int = 0  # rows whose text is null: empty documents
    first_nulls: list[str] = field(default_factory=list)
    undecoded: dict[str, int] = field(default_factory=dict)  # file -> undecodable bytes
    ends: LineEnds = field(default_factory=LineEnds)
    garbled: Counter[str] = field(default_factory=Counter)  # parts that are UTF-8 read as cp1252
    garbled_file: str = ""  # the first that has some
    files: dict[str, list[str]] = field(default_factory=dict)  # note -> the files that it is about

    def leave_out(self, error: CorpusError) -> None:
        """Counts a broken row. Raises CorpusError once MIN_BROKEN rows, and most of all rows, are broken."""
        self.rows += 1
        self.broken += 1
        if self.broken <= MAX_NAMES:
            self.first_broken.append(error)
        if self.broken >= MIN_BROKEN and 2 * self.broken > self.rows:
            self.check(0)

    def check(self, share: float) -> None:
        """Raises CorpusError if more than this fraction of the rows is broken."""
        if self.broken > share * self.rows:
            example = self.first_broken[0]
            problem = f"{example.what}; {self.broken:,} of {self.rows:,} rows cannot be read"
            fix = f"{example.fix}; `data.broken_rows` sets the fraction of broken rows to allow".lstrip("; ")
            raise CorpusError(problem, where=example.where, fix=fix[0].upper() + fix[1:])

    def notes(self) -> list[str]:
        """Returns notes for the user, one line each."""
        notes = []
        if self.broken:
            examples = "; ".join(f"{error.where}: {error.what}" for error in self.first_broken)
            share = f"{self.broken:,} of {self.rows:,} rows"
            notes.append(f"{share} cannot be read and were left out: {examples}")
        if self.nulls:
            places = some_of(self.first_nulls, self.nulls)
            notes.append(f"{self.nulls:,} of {self.rows:,} rows have no text: {places}")
        if self.undecoded:
            size, count = plural(sum(self.undecoded.values()), "byte"), plural(len(self.undecoded), "file")
            files = some_of([f"{name} ({number:,})" for name, number in self.undecoded.items()])
            advice = f"If they have another encoding, {lines.IN_UTF8[0].lower()}{lines.IN_UTF8[1:]}"
            notes.append(f"{size} in {count} could not be decoded and were replaced: {files}. {advice}")
        if ends := self.ends.note():
            notes.append(f"{ends}; `data.keep_hyphens` joins none")
        if self.garbled:
            example, file = next(iter(self.garbled)), self.garbled_file
            notes.append(f"{file}: {lines.note_garbled(self.garbled.total(), example, file)}")
        return notes + [f"{some_of(files)}: {note}" for note, files in self.files.items()]


def read_source(source: Source, config: CorpusConfig, faults: Faults | None = None) -> Iterator[ReadText]:
    """Yields a source's documents, with problems in `faults`; CorpusError if it is mostly unreadable."""
    faults = faults or Faults()
    faults.ends.keep = config.keep_hyphens
    if source.name == python_docs.NAME:
        yield from map(ReadText, python_docs.documents())
    elif source.name.startswith(DATA_SET):
        yield from _hub(source.name, config.text_field, faults)
    elif source.path is not None:
        read = _text_file if source.format == "txt" else _table
        replaced = 0
        try:
            with convert_errors(OSError, where=source.name):
                for document in read(source, source.path, config, faults):
                    replaced += document.replaced
                    if found := lines.garbled(document.text):
                        faults.garbled.update(found)
                        faults.garbled_file = faults.garbled_file or source.name
                    yield document
        except DataError as error:
            raise CorpusError(error.what, where=error.where, fix=error.fix) from None
        if replaced:
            faults.undecoded[source.name] = replaced


def _text_file(source: Source, path: Path, config: CorpusConfig, faults: Faults) -> Iterator[ReadText]:
    with lines.open_bytes(path, TEXT_EXPANSION_RATIO, source.name) as stream:
        head = stream.peek(HEAD)[:HEAD]
        codec = lines.guess_encoding(head, is_complete=len(head) < HEAD)
        beginning = lines.decode_head(head, codec)
        if codec == "cp1252":
            faults.files.setdefault(lines.note_guess(codec, beginning), []).append(source.name)
        _refuse_binary(beginning, codec, source.name)
        lines.refuse_other_content(beginning, "txt", source.name)
        is_wiki = bool(_WIKI.match(beginning))
        characters = num_lines = 0
        with lines.open_text(stream, codec, newline=None) as text:  # CRLF and CR become LF
            for document in _split_file(text, config.unit, is_wiki):
                characters += len(document.text)
                num_lines += document.text.count("\n")
                yield document._replace(text=faults.ends.text(document.text))
    if config.unit == "file" and not is_wiki and characters >= LARGE_FILE and num_lines >= 100:
        note = "read as one document; if its parts are documents, pass --data.unit blank-line or line"
        faults.files.setdefault(note, []).append(source.name)


def clean_text(text: str) -> ReadText:
    """Repairs text whose undecodable bytes are surrogates, as this module's docstring describes."""
    undecoded = [] if text.isascii() else SURROGATES.findall(text)
    text, nuls = text.replace("\0", ""), text.count("\0")
    return ReadText(SURROGATES.sub("\ufffd", text) if undecoded else text, sum(map(len, undecoded)), nuls)


def _refuse_binary(head: str, encoding: str, name: str) -> None:
    """Raises CorpusError if a tenth of the head, and more than a few, are not characters of a text."""
    count = len(_CONTROL.findall(head))
    if count > 8 and count * 10 > len(head):
        kind = "UTF-8" if encoding == "utf-8-sig" else encoding
        problem = f"not {kind} text ({count} of its first {len(head)} characters are not text)"
        raise CorpusError(problem, where=name, fix=lines.IN_UTF8)


def _split_file(text: IO[str], unit: Unit, wiki: bool = False) -> Iterator[ReadText]:
    """Yields the documents of a text file; in WikiExtractor's (`wiki`), tags separate them."""
    collected: list[str] = []
    size = 0
    by_line = unit != "file" or wiki
    while piece := text.readline(1 << 16) if by_line else text.read(1 << 16):
        starts_line = not collected or collected[-1].endswith("\n")
        if wiki and starts_line and (piece.rstrip() == _WIKI_END or _WIKI.fullmatch(piece)):
            if any(map(str.strip, collected)):
                yield clean_text("".join(collected))
            collected, size = [], 0
            continue
        collected.append(piece)
        size += len(piece)
        is_complete = unit == "line" and piece.endswith("\n")
        is_complete |= unit == "blank-line" and starts_line and piece.endswith("\n") and piece.isspace()
        if is_complete or size >= MAX_DOCUMENT:
            joined = "".join(collected)
            end = len(joined) if is_complete else _cut_position(joined)
            if unit != "blank-line" or not joined.isspace():
                yield clean_text(joined[:end])
            collected, size = [joined[end:]] if end < len(joined) else [], len(joined) - end
    rest = "".join(collected)
    if rest and not (unit == "blank-line" and rest.isspace()):
        yield clean_text(rest)


def _cut_position(text: str) -> int:
    """Returns where to cut a long document: after its last white space, or at its end if it has none."""
    space = _SPACE.search(text, max(0, len(text) - (1 << 16)))
    return space.end() if space else len(text)


def _split(text: str) -> Iterator[str]:
    while len(text) > MAX_DOCUMENT:
        end = _cut_position(text[:MAX_DOCUMENT])
        yield text[:end]
        text = text[end:]
    yield text


def _table(source: Source, path: Path, config: CorpusConfig, faults: Faults) -> Iterator[ReadText]:
    options = ReadOptions(
        source.format,
        lenient=True,
        ratio=TEXT_EXPANSION_RATIO,
        only=config.text_field,
        name=source.name,
        on_broken=lambda error: faults.leave_out(CorpusError(error.what, where=error.where, fix=error.fix)),
    )
    table = stream_table(path, options)
    for note in table.notes:
        faults.files.setdefault(note, []).append(source.name)
    column = table.find_column(config.text_field) if table.columns else config.text_field
    if column is None:
        raise _no_column(config.text_field, table.columns, source.name)
    for where, row in table.rows:
        yield from _row(row, column, where, faults)


def _no_column(field: str, columns: Sequence[str], name: str) -> CorpusError:
    problem = f"no column {field!r} (it has: {', '.join(columns)})"
    return CorpusError(problem, where=name, fix="Set the column with `data.text_field`")


def _row(row: Mapping[str, Any], field: str, where: object, faults: Faults) -> Iterator[ReadText]:
    """Yields the text of a row, or counts its problem in `faults`."""
    value = get_field(row, field)
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        value = " ".join(value)
    if isinstance(value, str):
        faults.rows += 1
        yield from map(clean_text, _split(value))
    elif value is None and field in row:
        faults.rows += 1
        faults.nulls += 1
        if faults.nulls <= MAX_NAMES:
            faults.first_nulls.append(str(where))
        yield ReadText("")
    else:
        columns = ", ".join(map(str, islice(row, 20))) or "nothing"
        problem = f"no text in field {field!r} (this row has: {columns})"
        if value is not None:
            problem = f"field {field!r} is {shortened(value)}, not text"
        faults.leave_out(CorpusError(problem, where=where, fix="Set the field with `data.text_field`"))


def _hub(name: str, field: str, faults: Faults) -> Iterator[ReadText]:
    records = load_data_set(name, CorpusError, "train")
    column = field if field in records.column_names else field.partition(".")[0]
    if column not in records.column_names:
        raise _no_column(field, records.column_names, name)
    for number, record in enumerate(records.select_columns([column]), 1):
        yield from _row(record, field, Place(name, number, False), faults)
