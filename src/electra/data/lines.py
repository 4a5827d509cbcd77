"""Reads a file as bytes, characters and lines, for all readers of text and tables.

Bytes are decompressed in bounded memory, and every problem with them is an error that names the file.
Characters are UTF-8 unless the file begins with another byte order mark, or the user names an encoding. A
byte that cannot be decoded becomes a surrogate (U+DC00 plus the byte), for the caller to count or refuse. The
caller decides what ends a line; see `line_end`.
"""

from __future__ import annotations

import bz2
import codecs
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

from electra.foundation.errors import ConfigError, DataError, ElectraError
from electra.foundation.machine import library
from electra.foundation.terminal_text import one_line

COMPRESSIONS = (".gz", ".zst", ".xz", ".bz2")
HEAD = 1 << 16  # bytes from which a file's encoding and line ends are detected
# Compressed bytes decompressed at a time: four bytes of zstd can stand for 128 KiB, so 2 KiB become 64 MiB.
DECOMPRESSED_AT_ONCE = 1 << 11
ZSTD_WINDOW = 1 << 27  # the limit of the zstd program
XZ_MEMORY = 160 << 20  # `xz -9` needs 65 MiB; a dictionary of 128 MiB fits
DAMAGE = (EOFError, zlib.error, lzma.LZMAError)
_UNDECODED = "undecoded-as-surrogates"
SURROGATES = re.compile("[\ud800-\udfff]+")
_UTF8 = re.compile(rb"(?:[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3})+")
_QUOTED = re.compile('"[^"]*"?')
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class Place(NamedTuple):
    """Where a line or row is: "file.csv:12", "file.json: row 12", or "row 12" if it is in no file."""

    source: str
    number: int = 0  # from 1; 0: the whole source
    is_line: bool = True

    def __str__(self) -> str:
        if not self.number:
            return self.source
        if self.is_line:
            return f"{self.source}:{self.number}"
        return f"{self.source}: row {self.number}" if self.source else f"row {self.number}"


class SizeBudget:
    """The number of bytes or characters that a file may still expand to, against decompression bombs.

    `name` names the file in messages.
    """

    def __init__(self, size: int, name: str, error: type[ElectraError] = DataError) -> None:
        self.size = self.remaining = size
        self.name, self.error = name, error

    def spend(self, amount: int) -> None:
        """Charges an amount. Raises `error` when the budget is exceeded."""
        self.remaining -= amount
        if self.remaining < 0:
            raise expansion_error(f"expands to more than {self.size >> 20} MiB", self.name, self.error)


def expansion_error(problem: str, name: str, error: type[ElectraError] = DataError) -> ElectraError:
    """Returns the error for a file that expands further than any text would."""
    return error(problem, where=name, fix="No text compresses that well: check the file's source")


def open_bytes(
    path: Path,
    compression: str | None = None,
    name: str = "",
    *,
    max_size: int | None = None,
    error: type[ElectraError] = DataError,
) -> io.BufferedReader:
    """Opens a file as decompressed bytes.

    Args:
        path: the file.
        compression: one of COMPRESSIONS, or "" (None: by the extension).
        name: the name of the file in messages (by default its path).
        max_size: the number of bytes that it may expand to (None: unlimited).
        error: the class of every error, raised here or while reading.
    """
    if compression is None:
        compression = path.suffix.lower() if path.suffix.lower() in COMPRESSIONS else ""
    budget = None if max_size is None else SizeBudget(max_size, name or str(path), error)
    return io.BufferedReader(_Decompressed(path, compression, name or str(path), budget, error), 1 << 20)


class _Decompressed(io.RawIOBase):
    """The bytes of a plain file, or of a compressed one with any number of frames.

    Unlike the libraries' readers, it detects truncated files and trailing garbage, and bounds the memory.
    """

    def __init__(
        self, path: Path, compression: str, name: str, budget: SizeBudget | None, error: type[ElectraError]
    ) -> None:
        self._name, self._budget, self._error = name, budget, error
        self._file: Any = None
        self._frame: Any = None  # the frame being read; None between frames
        self._ready, self._rest, self._is_first = memoryview(b""), b"", True
        self._decompressor, self._errors = _decompressor(compression, name, error)
        with self._explained():
            self._file = open(path, "rb", 1 << 17)  # noqa: SIM115

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with self._explained():
            if self._decompressor is None:
                count: int = self._file.readinto(buffer)
            else:
                while not self._ready and self._next_block():
                    pass
                count = min(len(buffer), len(self._ready))
                buffer[:count] = self._ready[:count]
                self._ready = self._ready[count:]
        if self._budget is not None:
            self._budget.spend(count)
        return count

    def _next_block(self) -> bool:
        """Decompresses a block; returns False at the end of the file."""
        block, self._rest = self._rest or self._file.read(DECOMPRESSED_AT_ONCE), b""
        if not block and self._frame is not None:
            raise EOFError("the file ends inside a frame")
        if self._frame is None:
            padded, block = block, block if self._is_first else block.lstrip(b"\0")  # as after xz frames
            if not block:
                return bool(padded)
            self._frame, self._is_first = self._decompressor(), False  # type: ignore[misc]
        try:
            self._ready = memoryview(self._frame.decompress(block))
        except self._errors as problem:
            raise EOFError(str(problem)) from None
        if self._frame.eof:
            self._rest, self._frame = self._frame.unused_data, None
        return True

    def close(self) -> None:
        if not self.closed and self._file is not None:
            self._file.close()
        super().close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise self._error("no such file", where=self._name) from None
        except DAMAGE as problem:
            reason, fix = f"damaged or truncated ({problem})", "Download or compress it again"
            if "memory" in str(problem).lower():
                reason = f"decompressing it needs too much memory ({problem})"
                fix = f"Compress it again with a window of at most {ZSTD_WINDOW >> 20} MiB"
            raise self._error(reason, where=self._name, fix=fix) from None
        except OSError as problem:
            reason = f"cannot be read ({problem.strerror or problem})"
            raise self._error(reason, where=self._name) from problem


def _decompressor(
    compression: str, name: str, error: type[ElectraError]
) -> tuple[Callable[[], Any] | None, tuple[type[Exception], ...]]:
    """Returns a function that makes a decompressor of one frame (None: not compressed), and its errors."""
    if compression == ".gz":
        return partial(zlib.decompressobj, 31), (zlib.error,)
    if compression == ".zst":
        zstandard = library("zstandard", "data", "zstd files", error, where=name)
        zstd = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW)
        return zstd.decompressobj, (zstandard.ZstdError,)
    if compression == ".xz":
        return partial(lzma.LZMADecompressor, lzma.FORMAT_AUTO, memlimit=XZ_MEMORY), (lzma.LZMAError,)
    return (bz2.BZ2Decompressor, (OSError,)) if compression else (None, ())


def _undecoded(problem: UnicodeError) -> tuple[str, int]:
    """Handles a decoding error: returns the bytes as surrogates, and where to continue."""
    if not isinstance(problem, UnicodeDecodeError):
        raise problem
    undecoded = problem.object[problem.start : problem.end]
    return "".join(chr(0xDC00 + byte) for byte in undecoded), problem.end


codecs.register_error(_UNDECODED, _undecoded)  # type: ignore[arg-type]


def encoding_of(head: bytes, name: str | None = None, key: str = "encoding") -> str:
    """Returns the codec for a file that begins with `head`; the codec drops a byte order mark.

    Args:
        head: the first bytes.
        name: the encoding that the user set (None: UTF-16 or UTF-32 if it is detected, else UTF-8).
        key: the setting that holds the name, for messages.

    Raises:
        ConfigError: the encoding is unknown.
    """
    by_mark = next((codec for mark, codec in _BYTE_ORDER_MARKS if head.startswith(mark)), None)
    if name is not None:
        try:
            codec = codecs.lookup(name).name
            io.TextIOWrapper(io.BytesIO(), name)  # refuses codecs that do not decode to text, such as hex
        except LookupError:
            fix = "Use a name such as utf-8, cp1252, latin-1 or utf-16"
            raise ConfigError(f"unknown encoding {name!r}", key=key, fix=fix) from None
        if codec == "utf-8":
            return "utf-8-sig"
        if codec in ("utf-16", "utf-32") and not by_mark:
            return f"{codec}-le"  # what Windows writes; Python would refuse it
        return by_mark if by_mark and codec.startswith(by_mark) else codec
    if by_mark:
        return by_mark
    even, odd = head[::2].count(0), head[1::2].count(0)
    if max(even, odd) > len(head) // 8 and min(even, odd) * 20 < max(even, odd):
        return "utf-16-be" if even > odd else "utf-16-le"
    return "utf-8-sig"


def guess_encoding(content: bytes, is_complete: bool = True) -> str:
    """Returns the probable codec of a file's content: that of `encoding_of`, or cp1252.

    If the file has further bytes (not `is_complete`), the last character may be incomplete.

    cp1252, which Windows writes in Western Europe, is chosen if the text is not UTF-8 and letters beyond
    ASCII are rarely adjacent, unlike in other alphabets. A file that is UTF-8 except for a few bytes counts
    as UTF-8.
    """
    codec = encoding_of(content[:HEAD])
    if codec == "utf-8-sig":
        try:
            codecs.getincrementaldecoder("utf-8")().decode(content, final=is_complete)
        except UnicodeDecodeError:
            runs = re.findall(rb"[\x80-\xff]+", content)
            is_decodable = "\ufffd" not in content.decode("cp1252", "replace")
            # Up to three characters, of which at most one is a letter; the others are quotes or dashes.
            num_western = sum(
                len(run) < 4 and sum(byte >= 0xC0 for byte in run) < 2 and not _UTF8.fullmatch(run)
                for run in runs
            )
            codec = "cp1252" if is_decodable and num_western > 0.9 * len(runs) else codec
    return codec


def refuse_other_content(head: str, kind: str, name: str, error: type[ElectraError] = DataError) -> None:
    """Raises `error` if a file begins like something that is often saved in place of a file of this kind."""
    beginning = head[:200].lstrip("\ufeff \t\r\n").lower()
    if beginning.startswith("version https://git-lfs"):
        fix = "Fetch the file itself with git lfs pull"
        raise error("is a pointer of Git LFS, not the file", where=name, fix=fix)
    if kind != "txt" and beginning.startswith(("<!doctype html", "<html")):
        raise error("is a web page, not a table", where=name, fix="Download the file itself")
    if kind in ("csv", "tsv") and re.match(r"\[?\s*\{\s*\"", beginning):
        raise error(f"is JSON, not {kind}", where=name, fix="End its name in .json or .jsonl")


def note_guess(codec: str, head: str) -> str:
    """Returns a note on a guessed codec, with words by which the user can judge it."""
    words = list(dict.fromkeys(re.findall(r"\w*[^\x00-\x7f]\w*", head)))[:3]
    examples = f", such as {', '.join(map(one_line, words))}" if words else ""
    return f"not UTF-8: read as {codec}{examples}"


def decode_head(content: bytes, encoding: str) -> str:
    """Decodes the first bytes of a file; an incomplete last character is left out."""
    return codecs.getincrementaldecoder(encoding)(_UNDECODED).decode(content)


def open_text(stream: IO[bytes], encoding: str, newline: str | None) -> io.TextIOWrapper:
    """Wraps `stream` as text in an encoding from `encoding_of`; `newline` is as for `open`."""
    return io.TextIOWrapper(stream, encoding, _UNDECODED, newline=newline)


def line_end(head: str) -> str:
    """Returns the line end of a file: a line feed, or a carriage return if it has no line feeds.

    Quoted cells of a csv may contain either, so they are ignored. Other characters at which Python splits
    lines may occur in texts, and do not end a line.
    """
    unquoted_text = _QUOTED.sub("", head)
    return "\r" if "\r" in unquoted_text and "\n" not in unquoted_text else "\n"


def lines(text: IO[str], max_length: int, name: str) -> Iterator[str]:
    """Yields lines with their ends; raises DataError for a line of more than `max_length` characters."""
    for number, line in enumerate(iter(partial(text.readline, max_length + 1), ""), 1):
        if len(line) > max_length:
            fix = "Put a text of this size into a .txt file"
            problem = f"the line has more than {max_length:,} characters"
            raise DataError(problem, where=Place(name, number), fix=fix)
        yield line
