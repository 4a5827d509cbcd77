"""Reads documents from files: plain text, or the text field of tables.

Imperfect text is repaired: UTF-8 is expected, or the encoding of a byte order mark or `data.encoding`;
text and csv may also be cp1252, with a note. Undecodable bytes, and lone surrogates in JSON, become
U+FFFD and are counted; NUL characters are dropped and counted; CRLF and CR become LF. A file that is
mostly not text is refused. Files are streamed: a text longer than `MAX_DOCUMENT` characters continues as
the next document, cut at a space if there is one, so that memory stays bounded whatever the size of a
file or line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from reprlib import repr as shortened
from typing import IO, Any, NamedTuple

from electra.data import columnar, python_docs
from electra.data.hub_files import load_data_set
from electra.data.lines import (
    HEAD,
    SURROGATES,
    Place,
    decode_head,
    encoding_of,
    guess_encoding,
    note_guess,
    open_bytes,
    open_text,
    refuse_other_content,
)
from electra.data.settings import Unit
from electra.data.sources import (
    TEXT_EXPANSION_RATIO,
    WIKI,
    Source,
    convert_errors,
    count_control_characters,
)
from electra.data.tables import EXPANSION_BYTES, ReadOptions, get_field, stream_table
from electra.foundation.errors import CorpusError, DataError
from electra.foundation.terminal_text import plural

MAX_DOCUMENT = 1 << 20  # characters
LARGE_FILE = 500_000  # a file with this many characters probably holds several documents
MAX_NAMES = 3  # files or rows named in a note
MIN_BROKEN = 1000  # broken rows after which reading stops if most rows are broken
_WIKI_END = "</doc>"
_SPACE = re.compile(r"\s(?=\S*\Z)")  # the last white space of a text


class Text(NamedTuple):
    """One document's text and the number of repairs."""

    text: str
    replaced: int = 0  # undecodable bytes, each run now one U+FFFD
    nuls: int = 0  # NUL characters dropped


@dataclass
class Faults:
    """Counts and examples of the problems in the part of a corpus that was read so far."""

    rows: int = 0  # rows of tables read
    broken: int = 0  # rows that are unreadable or have no text
    first_broken: list[CorpusError] = field(default_factory=list)  # errors of the first broken rows
    nulls: int = 0  # rows whose text is null: empty documents
    first_nulls: list[str] = field(default_factory=list)
    undecoded: dict[str, int] = field(default_factory=dict)  # file -> undecodable bytes
    guessed: dict[str, str] = field(default_factory=dict)  # file -> a note on its guessed encoding
    wiki_files: list[str] = field(default_factory=list)  # files that WikiExtractor wrote
    # large documents: name, a better unit, how many parts that gives
    large_files: list[tuple[str, str, int]] = field(default_factory=list)

    def leave_out(self, error: CorpusError) -> None:
        """Counts a broken row. Raises CorpusError once MIN_BROKEN rows, and most of all rows, are broken."""
        self.rows += 1
        self.broken += 1
        if len(self.first_broken) < MAX_NAMES:
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
            share = f"{self.broken:,} of {self.rows:,} rows"
            examples = "; ".join(f"{error.where}: {error.what}" for error in self.first_broken)
            notes.append(f"{share} cannot be read and were left out: {examples}")
        if self.nulls:
            places = _first_names(self.first_nulls, self.nulls)
            notes.append(f"{self.nulls:,} of {self.rows:,} rows have no text: {places}")
        if self.undecoded:
            num_bytes, count = sum(self.undecoded.values()), len(self.undecoded)
            files = _first_names([f"{name} ({size:,})" for name, size in self.undecoded.items()], count)
            found = f"{plural(num_bytes, 'byte')} in {plural(count, 'file')} could not be decoded"
            advice = "If they have another encoding, set it with --data.encoding"
            notes.append(f"{found} and were replaced: {files}. {advice}")
        if self.guessed:
            name, note = next(iter(self.guessed.items()))
            others = f" (and {plural(len(self.guessed) - 1, 'more file')})" if len(self.guessed) > 1 else ""
            notes.append(f"{name}{others}: {note}; --data.encoding sets another encoding")
        if self.wiki_files:
            files = _first_names(self.wiki_files)
            notes.append(f"files from WikiExtractor, read without their tags: {files}")
        if self.large_files:
            name, unit, count = self.large_files[0]
            others = f" (and {len(self.large_files) - 1:,} more files)" if len(self.large_files) > 1 else ""
            parts = f"{count:,} {'parts between blank lines' if unit == 'blank-line' else 'lines'}"
            advice = f"if its {parts} are documents, pass --data.unit {unit}"
            notes.append(f"{name}{others} is read as one document; {advice}")
        return notes


def _first_names(names: list[str], count: int | None = None) -> str:
    """Joins the first few names, and appends the number of the others, out of `count` (None: all names)."""
    num_more = (len(names) if count is None else count) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {num_more:,} more" if num_more > 0 else "")


def read_source(
    source: Source, unit: Unit, field: str, encoding: str | None = None, faults: Faults | None = None
) -> Iterator[Text]:
    """Yields the documents of one source.

    Args:
        source: the source.
        unit: what counts as one document of a text file; tables have one in each row.
        field: the column or field of the text in a table.
        encoding: the encoding of text, csv and JSON (None: UTF-8, or by the byte order mark).
        faults: receives the counts of problems.

    Raises:
        CorpusError: the source cannot be read, or most of its rows are broken.
    """
    faults = faults or Faults()
    if source.kind == "python-docs":
        yield from map(Text, python_docs.documents())
        return
    if source.kind == "hub":
        yield from _hub(source.name, field, faults)
        return
    if source.texts is not None:
        for number, text in enumerate(source.texts.items, 1):
            yield from _row({field: text}, field, Place("", number, False), faults)
        return
    max_size = (
        EXPANSION_BYTES + TEXT_EXPANSION_RATIO * source.path.stat().st_size if source.path.exists() else None
    )
    with convert_errors(source.name, OSError), source.file() as path:
        if source.format in columnar.READERS:
            yield from _table(source, str(path), field, encoding, faults)
            return
        with open_bytes(
            path, source.compression, source.name, max_size=max_size, error=CorpusError
        ) as stream:
            head = stream.peek(HEAD)[:HEAD]
            is_guessed = encoding is None and source.format not in ("json", "jsonl")  # JSON is UTF-8
            guess = guess_encoding(head, is_complete=len(head) < HEAD) if is_guessed else ""
            codec = guess or encoding_of(head, encoding)
            beginning = decode_head(head, codec)
            if codec == "cp1252" == guess:
                faults.guessed[source.name] = note_guess(codec, beginning)
            _refuse_binary(beginning, codec, source.name)
            if source.format == "txt":  # tables are checked as they are opened
                refuse_other_content(beginning, "txt", source.name, CorpusError)
            if not head and source.named:
                raise CorpusError("empty file", where=source.name)
            if source.format == "txt":
                with open_text(stream, codec, newline=None) as text:  # CRLF and CR become LF
                    documents = _plain(text, unit, wiki=bool(WIKI.match(beginning)))
                    yield from _with_faults(source, documents, unit, faults, head)
                return
        if head:
            yield from _with_faults(
                source, _table(source, str(path), field, codec, faults), "line", faults, head
            )


def _with_faults(
    source: Source, documents: Iterator[Text], unit: Unit, faults: Faults, head: bytes
) -> Iterator[Text]:
    """Yields the documents of a file, and records problems of the whole file in `faults`."""
    replaced = characters = lines = blocks = 0
    is_wiki = source.format == "txt" and bool(WIKI.match(decode_head(head, encoding_of(head))))
    for document in documents:
        replaced += document.replaced
        if unit == "file" and not is_wiki:
            characters += len(document.text)
            lines += document.text.count("\n")
            blocks += document.text.count("\n\n")
        yield document
    if replaced:
        faults.undecoded[source.name] = replaced
    if is_wiki:
        faults.wiki_files.append(source.name)
    if characters >= LARGE_FILE and max(blocks, lines // 10) >= 100:
        suggestion = ("blank-line", blocks + 1) if blocks >= 100 else ("line", lines)
        faults.large_files.append((source.name, *suggestion))


def clean_text(text: str) -> Text:
    """Repairs text whose undecodable bytes are surrogates, as this module's docstring describes."""
    replaced = nuls = 0
    if "\0" in text:
        nuls = text.count("\0")
        text = text.replace("\0", "")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            replaced = sum(map(len, SURROGATES.findall(text)))
            text = SURROGATES.sub("\ufffd", text)
    return Text(text, replaced, nuls)


def _refuse_binary(head: str, encoding: str, name: str) -> None:
    if count := count_control_characters(head):
        kind = "UTF-8" if encoding == "utf-8-sig" else encoding
        problem = f"not {kind} text ({count} of its first {len(head)} characters are not text)"
        fix = "Set its encoding (such as `data.encoding=cp1251`), or convert it to UTF-8"
        raise CorpusError(problem, where=name, fix=fix)


def _plain(text: IO[str], unit: Unit, wiki: bool = False) -> Iterator[Text]:
    """Yields the documents of a text file, which is read by line, or in blocks if it is one document.

    With `wiki`, the file is from WikiExtractor, whose tags separate documents and are left out.
    """
    collected: list[str] = []
    size = 0
    by_line = unit != "file" or wiki
    while piece := text.readline(1 << 16) if by_line else text.read(1 << 16):
        starts_line = not collected or collected[-1].endswith("\n")
        if wiki and starts_line and (piece.rstrip() == _WIKI_END or WIKI.fullmatch(piece)):
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


def _table(source: Source, path: str, field: str, encoding: str | None, faults: Faults) -> Iterator[Text]:
    """Yields the texts of a table's rows."""

    def as_corpus_error(error: DataError) -> CorpusError:
        fix = error.fix.replace("`encoding`", "`data.encoding`")
        return CorpusError(error.what, where=error.where, fix=fix)

    try:
        options = ReadOptions(
            source.format,
            encoding,
            lenient=True,
            ratio=TEXT_EXPANSION_RATIO,
            only=field,
            name=source.name,
            on_broken=lambda error: faults.leave_out(as_corpus_error(error)),
        )
        table = stream_table(Path(path), options)
        column = table.find_column(field) if table.columns else field
        if column is None:
            problem = f"no column {field!r} (it has: {', '.join(table.columns)})"
            raise CorpusError(problem, where=source.name, fix="Set the column with `data.text_field`")
        for where, row in table.rows:
            yield from _row(row, column, where, faults)
    except DataError as error:
        raise as_corpus_error(error) from None


def _row(row: Mapping[str, Any], field: str, where: object, faults: Faults) -> Iterator[Text]:
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
        if len(faults.first_nulls) < MAX_NAMES:
            faults.first_nulls.append(str(where))
        yield Text("")
    elif value is None:
        problem = f"no text in field {field!r} (this row has: {', '.join(map(str, row)) or 'nothing'})"
        faults.leave_out(CorpusError(problem, where=where, fix="Set the field with `data.text_field`"))
    else:
        problem = f"field {field!r} is {shortened(value)}, not text"
        faults.leave_out(CorpusError(problem, where=where, fix="Set the field with `data.text_field`"))


def _hub(name: str, field: str, faults: Faults) -> Iterator[Text]:
    """Yields the texts of `hub:NAME[:CONFIG][:SPLIT]`, read with the `datasets` library."""
    records = load_data_set(name, CorpusError, "train")
    column = field if field in records.column_names else field.partition(".")[0]
    if column not in records.column_names:
        problem = f"no column {field!r} (it has: {', '.join(records.column_names)})"
        raise CorpusError(problem, where=name, fix="Set the column with `data.text_field`")
    for number, record in enumerate(records.select_columns([column]), 1):
        yield from _row(record, field, Place(name, number, False), faults)
