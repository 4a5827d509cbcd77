"""Files to texts: documents of plain text, and the field of tables that holds the text.

The policy for imperfect text: UTF-8 is expected, or what a byte order mark or `data.encoding` says. Bytes
that are not of the encoding become U+FFFD and are counted, as are lone surrogates in JSON; NUL characters are
dropped and counted; CRLF and CR become LF. A file that is mostly not text is refused. Files are streamed: a
text longer than `LONGEST` characters continues as the next document, cut at a space where there is one, so
that memory stays bounded whatever the size of a file or line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from reprlib import repr as shortened
from typing import IO, Any, NamedTuple

from electra.data import columnar, python_docs, rows
from electra.data.lines import (
    HEAD,
    SURROGATES,
    decoded,
    encoding_of,
    guess_encoding,
    open_bytes,
    open_text,
)
from electra.data.settings import Unit
from electra.data.sources import HUB, RATIO, WIKI, Source, explain, is_binary
from electra.foundation.errors import CorpusError, DataError
from electra.foundation.machine import library

LONGEST = 1 << 20  # characters of one document
LARGE = 500_000  # characters of a file that may well be more than one document
NAMED = 3  # files and rows that a note names
EARLY = 1000  # broken rows after which reading stops, when they are most of those read
_WIKI_END = "</doc>"
_SPACE = re.compile(r"\s(?=\S*\Z)")  # the last white space of a text


class Text(NamedTuple):
    """One document's text, and what had to be repaired to read it."""

    text: str
    replaced: int = 0  # bytes that were not UTF-8
    nuls: int = 0
    corpus: int = 0  # which of the named corpora of a mixture it is of


@dataclass
class Faults:
    """What was wrong with what has been read so far of a corpus."""

    rows: int = 0  # of tables
    broken: int = 0  # rows without a text, or that cannot be read
    first: list[CorpusError] = field(default_factory=list)
    nulls: int = 0  # rows whose text is null: empty documents
    nulls_at: list[str] = field(default_factory=list)
    undecoded: dict[str, int] = field(default_factory=dict)  # bytes, by the name of the file
    western: int = 0  # of these files, those that look like cp1252
    wiki: list[str] = field(default_factory=list)  # files of WikiExtractor
    long: list[tuple[str, str, int]] = field(default_factory=list)  # one document: name, better unit, parts

    def leave_out(self, error: CorpusError) -> None:
        """Count a broken row; raises where most rows are broken."""
        self.rows += 1
        self.broken += 1
        if len(self.first) < NAMED:
            self.first.append(error)
        if self.broken >= EARLY and 2 * self.broken > self.rows:
            self.check(0)

    def check(self, share: float) -> None:
        """Raise where more than this share of the rows are broken."""
        if self.broken > share * self.rows:
            first = self.first[0]
            what = f"{first.what}; {self.broken:,} of {self.rows:,} rows cannot be read"
            fix = f"{first.fix}; a share of broken rows may be left out with `data.broken_rows`".lstrip("; ")
            raise CorpusError(what, where=first.where, fix=fix[0].upper() + fix[1:])

    def notes(self) -> list[str]:
        """What a user should know, a line each."""
        notes = []
        if self.broken:
            first = "; ".join(f"{error.where}: {error.what}" for error in self.first)
            notes.append(f"{self.broken:,} of {self.rows:,} rows cannot be read and were left out: {first}")
        if self.nulls:
            notes.append(
                f"{self.nulls:,} of {self.rows:,} rows have no text: {_named(self.nulls_at, self.nulls)}"
            )
        if self.undecoded:
            total, count = sum(self.undecoded.values()), len(self.undecoded)
            files = _named([f"{name} ({number:,})" for name, number in self.undecoded.items()], count)
            guess = ", such as cp1252, which fits" if 2 * self.western > count else ""
            notes.append(
                f"{total:,} bytes in {count:,} {'files'[: 4 + (count > 1)]} could not be decoded and were"
                f" replaced: {files}. If that is another encoding{guess}, name it with --data.encoding"
            )
        if self.wiki:
            notes.append(f"documents are WikiExtractor's, its tags are left out: {_named(self.wiki)}")
        if self.long:
            name, unit, parts = self.long[0]
            others = f" (and {len(self.long) - 1:,} more files)" if len(self.long) > 1 else ""
            what = "parts between blank lines" if unit == "blank-line" else "lines"
            notes.append(
                f"{name}{others} is read as one document; if its {parts:,} {what} are documents, pass"
                f" --data.unit {unit}"
            )
        return notes


def _named(names: list[str], count: int | None = None) -> str:
    """The first few names, and how many more there are."""
    more = (len(names) if count is None else count) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more:,} more" if more > 0 else "")


def read(
    source: Source, unit: Unit, field: str, encoding: str | None = None, faults: Faults | None = None
) -> Iterator[Text]:
    """The documents of one source.

    encoding: of text, csv and JSON (None: UTF-8, or by the byte order mark). faults: where they are counted.
    """
    faults = faults or Faults()
    if source.kind == "python-docs":
        yield from map(Text, python_docs.documents())
        return
    if source.kind == "hub":
        yield from _hub(source.name, field, faults)
        return
    most = rows.SMALL + RATIO * source.path.stat().st_size if source.path.exists() else None
    with explain(source.name, OSError), source.file() as path:
        if source.format in columnar.READERS:
            yield from _table(source, str(path), field, encoding, faults)
            return
        with open_bytes(path, source.compression, source.name, most=most, error=CorpusError) as stream:
            head = stream.peek(HEAD)[:HEAD]
            used = encoding_of(head, encoding)
            begins = decoded(head, used)
            _refuse_binary(begins, used, source.name)
            if not head and source.named:
                raise CorpusError("empty file", where=source.name)
            if source.format == "txt":
                with open_text(stream, used, newline=None) as text:  # CRLF and CR become LF
                    documents = _plain(text, unit, wiki=bool(WIKI.match(begins)))
                    yield from _watched(source, documents, unit, faults, head)
                return
        if head:
            yield from _watched(source, _table(source, str(path), field, used, faults), "line", faults, head)


def _watched(
    source: Source, documents: Iterator[Text], unit: Unit, faults: Faults, head: bytes
) -> Iterator[Text]:
    """The documents of a file; what is odd about it is noted."""
    replaced = characters = lines = blocks = 0
    wiki = source.format == "txt" and bool(WIKI.match(decoded(head, encoding_of(head))))
    for document in documents:
        replaced += document.replaced
        if unit == "file" and not wiki:
            characters += len(document.text)
            lines += document.text.count("\n")
            blocks += document.text.count("\n\n")
        yield document
    if replaced:
        faults.undecoded[source.name] = replaced
        faults.western += guess_encoding(head) == "cp1252"
    if wiki:
        faults.wiki.append(source.name)
    if characters >= LARGE and max(blocks, lines // 10) >= 100:
        better = ("blank-line", blocks + 1) if blocks >= 100 else ("line", lines)
        faults.long.append((source.name, *better))


def mend(text: str) -> Text:
    """Apply the policy above to text decoded with `surrogateescape`."""
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
    if odd := is_binary(head):
        raise CorpusError(
            f"not {'UTF-8' if encoding == 'utf-8-sig' else encoding} text ({odd} of its first {len(head)}"
            " characters are not)",
            where=name,
            fix="Name its encoding (such as `data.encoding=cp1251`), or convert it to UTF-8",
        )


def _plain(text: IO[str], unit: Unit, wiki: bool = False) -> Iterator[Text]:
    """Documents of a text file. The pieces are lines, or blocks when the whole file is one document.

    wiki: the file is WikiExtractor's: its tags part documents, and are no text.
    """
    collected: list[str] = []
    size = 0
    by_line = unit != "file" or wiki
    while piece := text.readline(1 << 16) if by_line else text.read(1 << 16):
        starts_line = not collected or collected[-1].endswith("\n")
        if wiki and starts_line and (piece.rstrip() == _WIKI_END or WIKI.fullmatch(piece)):
            if any(map(str.strip, collected)):
                yield mend("".join(collected))
            collected, size = [], 0
            continue
        collected.append(piece)
        size += len(piece)
        whole = unit == "line" and piece.endswith("\n")
        whole |= unit == "blank-line" and starts_line and piece.endswith("\n") and piece.isspace()
        if whole or size >= LONGEST:
            joined = "".join(collected)
            cut = len(joined) if whole else _cut(joined)
            if unit != "blank-line" or not joined.isspace():
                yield mend(joined[:cut])
            collected, size = [joined[cut:]] if cut < len(joined) else [], len(joined) - cut
    rest = "".join(collected)
    if rest and not (unit == "blank-line" and rest.isspace()):
        yield mend(rest)


def _cut(text: str) -> int:
    """Where to end a document that goes on: after its last white space, or anywhere when it has none."""
    space = _SPACE.search(text, max(0, len(text) - (1 << 16)))
    return space.end() if space else len(text)


def _split(text: str) -> Iterator[str]:
    while len(text) > LONGEST:
        cut = _cut(text[:LONGEST])
        yield text[:cut]
        text = text[cut:]
    yield text


def _table(source: Source, path: str, field: str, encoding: str | None, faults: Faults) -> Iterator[Text]:
    """The texts of a table's rows."""

    def explained(error: DataError) -> CorpusError:
        fix = error.fix.replace("`encoding`", "`data.encoding`")
        return CorpusError(error.what, where=error.where.replace(path, source.name), fix=fix)

    try:
        table = rows.stream_table(
            Path(path),
            format=source.format,
            encoding=encoding,
            lenient=True,
            ratio=RATIO,
            only=field,
            broken=lambda error: faults.leave_out(explained(error)),
        )
        column = table.named(field) if table.columns else field
        if column is None:
            raise CorpusError(
                f"no column {field!r} (it has: {', '.join(table.columns)})",
                where=source.name,
                fix="Name the column with `data.text_field`",
            )
        for where, row in table.rows:
            yield from _row(row, column, lambda: where.replace(path, source.name), faults)  # noqa: B023
    except DataError as error:
        raise explained(error) from None


def _row(row: Mapping[str, Any], field: str, where: Callable[[], str], faults: Faults) -> Iterator[Text]:
    """The text of a row, or what is wrong with it counted."""
    value = rows.get(row, field)
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        value = " ".join(value)
    if isinstance(value, str):
        faults.rows += 1
        yield from map(mend, _split(value))
    elif value is None and field in row:
        faults.rows += 1
        faults.nulls += 1
        if len(faults.nulls_at) < NAMED:
            faults.nulls_at.append(where())
        yield Text("")
    elif value is None:
        what = f"no text in field {field!r} (this row has: {', '.join(map(str, row)) or 'nothing'})"
        faults.leave_out(CorpusError(what, where=where(), fix="Name the field with `data.text_field`"))
    else:
        what = f"field {field!r} is {shortened(value)}, not a text"
        faults.leave_out(CorpusError(what, where=where(), fix="Name the field with `data.text_field`"))


def _hub(name: str, field: str, faults: Faults) -> Iterator[Text]:
    """The records of `hub:NAME[:CONFIG][:SPLIT]`, read by the `datasets` library."""
    datasets = library("datasets", "hub", "hub data sets", CorpusError, where=name)
    path, config, split = (name.removeprefix(HUB).split(":") + ["", ""])[:3]
    try:
        records = datasets.load_dataset(path, config or None, split=split or "train")
    except Exception as error:  # network, names, formats: the library raises dozens of kinds
        raise CorpusError(
            f"cannot be loaded ({str(error).strip().splitlines()[0]})",
            where=name,
            fix="Use the form hub:NAME:CONFIG:SPLIT",
        ) from error
    column = field if field in records.column_names else field.partition(".")[0]
    if column not in records.column_names:
        known = ", ".join(records.column_names)
        raise CorpusError(
            f"no column {field!r} (it has: {known})", where=name, fix="Name the column with `data.text_field`"
        )
    for number, record in enumerate(records.select_columns([column]), 1):
        yield from _row(record, field, lambda: f"{name}: row {number}", faults)  # noqa: B023
