"""Files to texts: decompression, decoding, and the three formats.

The policy for imperfect text: UTF-8 is expected, or what a byte order mark or `data.encoding` says. Bytes
that are not of the encoding become U+FFFD and are counted, as are lone surrogates in JSON; NUL characters are
dropped and counted; CRLF and CR become LF. A file that is mostly not text is refused. Files are streamed: a
text longer than `LONGEST` characters continues as the next document, cut at a space where there is one, so
that memory stays bounded whatever the size of a file or line.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from reprlib import repr as shortened
from typing import IO, Any, Literal, NamedTuple

from electra.data import python_docs
from electra.data.lines import HEAD, SURROGATES, decoded, encoding_of, line_end, lines, open_bytes, open_text
from electra.data.sources import HUB, Source, explain
from electra.errors import CorpusError
from electra.machine import library

Unit = Literal["file", "blank-line", "line"]
LONGEST = 1 << 20  # characters of one document
LONGEST_RECORD = 1 << 26  # characters of one JSON line
PARQUET_AT_ONCE, PARQUET_RATIO = 1 << 28, 1000  # bytes of a column chunk; how far it may unfold beyond that
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f\ud800-\udfff]")
_SPACE = re.compile(r"\s(?=\S*\Z)")  # the last white space of a text


class Text(NamedTuple):
    """One document's text, and what had to be repaired to read it."""

    text: str
    replaced: int = 0  # bytes that were not UTF-8
    nuls: int = 0
    corpus: int = 0  # which of the named corpora of a mixture it is of


def read(source: Source, unit: Unit, field: str, encoding: str | None = None) -> Iterator[Text]:
    """The documents of one source. encoding: of text and JSON (None: UTF-8, or by the byte order mark)."""
    if source.kind == "python-docs":
        yield from map(Text, python_docs.documents())
        return
    if source.kind == "hub":
        yield from _hub(source.name, field)
        return
    with (
        explain(source.name, OSError),
        open_bytes(source.path, source.compression, source.name, error=CorpusError) as stream,
    ):
        if source.format == "parquet":
            yield from _parquet(source, stream, field)
            return
        head = stream.peek(HEAD)[:HEAD]
        used = encoding_of(head, encoding)
        begins = decoded(head, used)
        _refuse_binary(begins, used, source.name)
        if not head and source.named:
            raise CorpusError("empty file", where=source.name)
        if source.format == "jsonl":
            with open_text(stream, used, newline=line_end(begins)) as text:
                yield from _json_lines(text, source.name, field)
        else:
            with open_text(stream, used, newline=None) as text:  # CRLF and CR become LF
                yield from _plain(text, unit)


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
    odd = len(_CONTROL.findall(head))
    if odd > 8 and odd * 10 > len(head):
        raise CorpusError(
            f"not {'UTF-8' if encoding == 'utf-8-sig' else encoding} text ({odd} of its first {len(head)}"
            " characters are not)",
            where=name,
            fix="Name its encoding (such as `data.encoding=cp1251`), or convert it to UTF-8",
        )


def _plain(text: IO[str], unit: Unit) -> Iterator[Text]:
    """Documents of a text file. The pieces are lines, or blocks when the whole file is one document."""
    collected: list[str] = []
    size = 0
    while piece := text.read(1 << 16) if unit == "file" else text.readline(1 << 16):
        starts_line = not collected or collected[-1].endswith("\n")
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


def _json_lines(text: IO[str], name: str, field: str) -> Iterator[Text]:
    for number, line in enumerate(lines(text, LONGEST_RECORD, name, CorpusError), 1):
        where = f"{name}:{number}"
        if line.isspace():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise CorpusError(f"not valid JSON ({error})", where=where) from None
        value = record.get(field) if isinstance(record, dict) else None
        if not isinstance(value, str):
            if isinstance(record, dict) and field in record:
                fix = "Leave out the lines without a text, or name another field with `data.text_field`"
                raise CorpusError(f"field {field!r} is {shortened(value)}, not a text", where=where, fix=fix)
            known = (
                ", ".join(sorted(record))
                if isinstance(record, dict)
                else f"a {type(record).__name__}, not an object"
            )
            raise CorpusError(
                f"no text in field {field!r} (this line has: {known})",
                where=where,
                fix="Name the field with `data.text_field`",
            )
        yield from map(mend, _split(value))


def _parquet(source: Source, unpacked: IO[bytes], field: str) -> Iterator[Text]:
    pyarrow = library("pyarrow.parquet", "data", "parquet files", CorpusError, where=source.name)
    with tempfile.TemporaryFile() as plain, open(source.path, "rb") as raw:
        stream: Any = raw
        if source.compression:
            shutil.copyfileobj(unpacked, plain, 1 << 20)
            stream = plain
        try:
            file = pyarrow.parquet.ParquetFile(stream)
            if field not in file.schema_arrow.names:
                known = ", ".join(file.schema_arrow.names)
                raise CorpusError(
                    f"no column {field!r} (it has: {known})",
                    where=source.name,
                    fix="Name the column with `data.text_field`",
                )
            kind = file.schema_arrow.field(field).type
            kind = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
            if not (pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)):
                raise CorpusError(
                    f"column {field!r} holds {kind}, not text",
                    where=source.name,
                    fix="Name the column with `data.text_field`",
                )
            _refuse_parquet_bomb(file.metadata, file.schema_arrow.names.index(field), source.name)
            # Repeated values stay one value with many numbers until they are asked for, one after the other.
            file = pyarrow.parquet.ParquetFile(stream, read_dictionary=[field])
            for batch in file.iter_batches(256, columns=[field]):
                for text in batch.column(0):
                    yield from map(mend, _split(text.as_py() or ""))
        except (pyarrow.ArrowException, UnicodeDecodeError) as error:
            raise CorpusError(
                f"not a readable parquet file ({str(error).splitlines()[0]})", where=source.name
            ) from None


def _refuse_parquet_bomb(metadata: Any, column: int, name: str) -> None:
    for group in range(metadata.num_row_groups):
        chunk = metadata.row_group(group).column(column)
        packed, unpacked = max(1, chunk.total_compressed_size), chunk.total_uncompressed_size
        if unpacked > PARQUET_AT_ONCE and unpacked > PARQUET_RATIO * packed:
            what = f"{packed} bytes of column {chunk.path_in_schema!r} unfold to {unpacked >> 20} MiB"
            raise CorpusError(what, where=name, fix="No text compresses that well: check the file's source")


def _hub(name: str, field: str) -> Iterator[Text]:
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
    if field not in records.column_names:
        known = ", ".join(records.column_names)
        raise CorpusError(
            f"no column {field!r} (it has: {known})", where=name, fix="Name the column with `data.text_field`"
        )
    for record in records.select_columns([field]):
        text = record[field]
        if not isinstance(text, str | None):
            raise CorpusError(
                f"column {field!r} holds {type(text).__name__}, not text",
                where=name,
                fix="Name the column with `data.text_field`",
            )
        yield from map(mend, _split(text or ""))
