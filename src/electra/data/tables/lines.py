"""Reads a file as bytes, characters and lines, for all readers of text and tables.

Bytes are decompressed in bounded memory, and every problem with them is an error that names the file.
Characters are UTF-8 unless the file is UTF-16 or UTF-32, or looks like cp1252. A byte that cannot be decoded
becomes a surrogate (U+DC00 plus the byte), for the caller to count or refuse. Callers choose the `line_end`.
"""

import bz2
import codecs
import io
import lzma
import re
import unicodedata
import zlib
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

from electra.foundation.errors import DataError
from electra.foundation.machine import library
from electra.foundation.terminal_text import one_line, plural

COMPRESSIONS = (".gz", ".zst", ".xz", ".bz2")
# A file may expand to EXPANSION_BYTES plus `ratio` times its size; tables compress to a tenth.
EXPANSION_BYTES, EXPANSION_RATIO = 64 << 20, 50
HEAD = 1 << 16  # bytes from which a file's encoding and line ends are detected
# Compressed bytes decompressed at a time: four bytes of zstd can stand for 128 KiB, so 2 KiB become 64 MiB.
DECOMPRESSED_AT_ONCE = 1 << 11
ZSTD_WINDOW = 1 << 27  # the limit of the zstd program
IN_UTF8 = "Convert it to UTF-8: iconv -f ENCODING -t UTF-8"
XZ_MEMORY = 160 << 20  # `xz -9` needs 65 MiB; a dictionary of 128 MiB fits
_UNDECODED = "undecoded-as-surrogates"
SURROGATES = re.compile("[\ud800-\udfff]+")
_UTF8 = re.compile(rb"(?:[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3})+")
# Letters and signs of Europe, as bytes; others of two bytes are also two letters of cp1252
_GARBLED = re.compile("[\xc2-\xc5\xcd-\xd3][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_CP1252 = bytes(range(0x80, 0xA0)).decode("cp1252", "replace")
_MAYBE_GARBLED = re.compile(f"[\xc2-\xf4][\x80-\xbf{_CP1252}]")
_BYTES_OF_CP1252 = {ord(each): 0x80 + i for i, each in enumerate(_CP1252) if each != "\ufffd"}
_QUOTED = re.compile('"[^"]*"?')
_BYTE_ORDER_MARKS = (
    *((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32")),
    *((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")),
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


def open_bytes(path: Path, ratio: int = EXPANSION_RATIO, name: str = "") -> io.BufferedReader:
    """Opens a file as bytes, decompressed if its extension is one of COMPRESSIONS.

    Reading raises DataError, with `name` or the path, if the file does not exist, is damaged or truncated,
    needs too much memory, or expands to more than EXPANSION_BYTES plus `ratio` times its size.
    """
    return io.BufferedReader(_Decompressed(path, ratio, name or str(path)), 1 << 20)


class _Decompressed(io.RawIOBase):
    def __init__(self, path: Path, ratio: int, name: str) -> None:
        self._name, self._ready = name, memoryview(b"")
        self._blocks = _blocks(path, ratio, name)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._ready = memoryview(block)
        count = min(len(buffer), len(self._ready))
        buffer[:count], self._ready = self._ready[:count], self._ready[count:]
        return count

    def close(self) -> None:
        if not self.closed:
            self._blocks.close()
        super().close()


def _blocks(path: Path, ratio: int, name: str) -> Generator[bytes]:
    """Yields the decompressed bytes of a file of any number of frames.

    Unlike the libraries' readers, it detects truncated files and trailing garbage, and bounds the memory.
    """
    damage: tuple[type[Exception], ...] = (EOFError, zlib.error, lzma.LZMAError, OSError)  # bz2's is OSError
    decompressor: Callable[[], Any] | None = None
    if (suffix := path.suffix.lower()) == ".gz":
        decompressor = partial(zlib.decompressobj, 31)
    elif suffix == ".zst":
        zstandard = library("zstandard", "data", "zstd files", DataError, where=name)
        decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).decompressobj
        damage += (zstandard.ZstdError,)
    elif suffix == ".xz":
        decompressor = partial(lzma.LZMADecompressor, lzma.FORMAT_AUTO, memlimit=XZ_MEMORY)
    elif suffix == ".bz2":
        decompressor = bz2.BZ2Decompressor
    frame: Any = None  # None between frames
    try:
        with open(path, "rb", 1 << 17) as file:
            if decompressor is None:
                yield from iter(partial(file.read, 1 << 20), b"")
                return
            left = EXPANSION_BYTES + ratio * path.stat().st_size
            while block := file.read(DECOMPRESSED_AT_ONCE):
                while block := block if frame is not None else block.lstrip(b"\0"):  # padding, as xz has
                    frame = frame or decompressor()
                    content = frame.decompress(block)
                    left -= len(content)
                    if left < 0:
                        problem = f"expands to far more than its size ({path.stat().st_size:,} bytes)"
                        raise expansion_error(problem, name)
                    yield content
                    block, frame = (frame.unused_data, None) if frame.eof else (b"", frame)
            if frame is not None:
                raise EOFError("the file ends inside a frame")
    except FileNotFoundError:
        raise DataError("no such file", where=name) from None
    except damage as problem:
        if isinstance(problem, OSError) and problem.errno:
            raise DataError(f"cannot be read ({problem.strerror})", where=name) from problem
        reason, fix = f"damaged or truncated ({problem})", "Download or compress it again"
        if "memory" in str(problem).lower():
            reason = f"decompressing it needs too much memory ({problem})"
            fix = f"Compress it again with a window of at most {ZSTD_WINDOW >> 20} MiB"
        raise DataError(reason, where=name, fix=fix) from None


def expansion_error(problem: str, name: str) -> DataError:
    """Returns the error for a file that expands further than any text would."""
    return DataError(problem, where=name, fix="No text compresses that well: check the file's source")


def _undecoded(problem: UnicodeError) -> tuple[str, int]:
    """Handles a decoding error: returns the bytes as surrogates, and where to continue."""
    if not isinstance(problem, UnicodeDecodeError):
        raise problem
    undecoded = problem.object[problem.start : problem.end]
    return "".join(chr(0xDC00 + byte) for byte in undecoded), problem.end


codecs.register_error(_UNDECODED, _undecoded)  # type: ignore[arg-type]


def is_blank(text: str) -> bool:
    """Whether a text has nothing to read: no characters but white space and invisible ones."""
    return all(each.isspace() or unicodedata.category(each) in ("Cf", "Cc") for each in text)


def garbled(text: str) -> list[str]:
    """Returns the parts of a text that are UTF-8 read as cp1252: two or three characters for one."""
    if not _MAYBE_GARBLED.search(text):
        return []
    as_bytes = text.translate(_BYTES_OF_CP1252)
    parts = [(found.start(), found.end()) for found in _GARBLED.finditer(as_bytes)]
    return [text[start:end] for start, end in parts]


def note_garbled(count: int, example: str, name: str) -> str:
    """Returns a note on the `garbled` parts of a file."""
    problem = f"{plural(count, 'place')} such as {example} look like UTF-8 that was read as cp1252"
    return f"{problem}: iconv -f UTF-8 -t CP1252 {name or 'FILE'} > FIXED"


def encoding_of(head: bytes) -> str:
    """Returns the codec of a file that begins with `head`: UTF-8, -16 or -32, without byte order mark."""
    by_mark = next((codec for mark, codec in _BYTE_ORDER_MARKS if head.startswith(mark)), None)
    if by_mark:
        return by_mark
    even, odd = head[::2].count(0), head[1::2].count(0)
    if max(even, odd) > len(head) // 8 and min(even, odd) * 20 < max(even, odd):
        return "utf-16-be" if even > odd else "utf-16-le"
    return "utf-8-sig"


def guess_encoding(content: bytes, is_complete: bool = True) -> str:
    """Returns the probable codec of a file's content: that of `encoding_of`, or cp1252.

    cp1252, which Windows writes in Western Europe, is chosen if the text is not UTF-8 (but for a few bytes)
    and letters beyond ASCII are rarely adjacent, unlike in other alphabets. If the file has further bytes
    (not `is_complete`), the last character may be incomplete.
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
                len(run) < 4 and sum(byte >= 0xC0 for byte in run) < 2 and not _UTF8.fullmatch(run) for run in runs
            )
            codec = "cp1252" if is_decodable and num_western > 0.9 * len(runs) else codec
    return codec


_MAGIC = {  # the first bytes of files that are saved with the extension of a text, and what to do
    b"\x1f\x8b": ("a gzip file", "End its name in .gz"),
    b"\x28\xb5\x2f\xfd": ("a zstd file", "End its name in .zst"),
    b"\xfd7zXZ\0": ("an xz file", "End its name in .xz"),
    b"BZh91AY&SY": ("a bzip2 file", "End its name in .bz2"),
    b"PAR1\x15": ("a parquet file", "End its name in .parquet"),
    b"ARROW1\0": ("an Arrow file", "End its name in .arrow"),
    b"\xd0\xcf\x11\xe0": ("an Excel workbook", "Save it as csv in a spreadsheet program"),
    b"SQLite format 3\0": ("an SQLite data base", "Export the table as csv"),
    b"%PDF-": ("a PDF file", "Extract its text into a .txt or .jsonl file first"),
}


def refuse_binary(head: bytes, kind: str, name: str) -> None:
    """Raises DataError if a file of texts begins like a workbook, an archive or another binary file."""
    found = next((advice for magic, advice in _MAGIC.items() if head.startswith(magic)), None)
    if head.startswith(b"PK\x03\x04"):
        found = "a zip archive", "Unpack it, and pass the file inside"
        if b"[Content_Types].xml" in head or b"xl/" in head:
            found = "an Excel workbook", "Save it as csv in a spreadsheet program"
        elif b"opendocument.spreadsheet" in head:
            found = "an OpenDocument spreadsheet", "Save it as csv in a spreadsheet program"
    if found:
        raise DataError(f"is {found[0]}, not {kind or 'text'}", where=name, fix=found[1])


def refuse_other_content(head: str, kind: str, name: str) -> None:
    """Raises DataError if a file begins like something that is often saved in place of this kind."""
    beginning = head[:200].lstrip("\ufeff \t\r\n").lower()
    if beginning.startswith("version https://git-lfs"):
        fix = "Fetch the file itself with git lfs pull"
        raise DataError("is a pointer of Git LFS, not the file", where=name, fix=fix)
    if kind != "txt" and beginning.startswith(("<!doctype html", "<html")):
        raise DataError("is a web page, not a table", where=name, fix="Download the file itself")
    if kind in ("csv", "tsv") and re.match(r"\[?\s*\{\s*\"", beginning):
        raise DataError(f"is JSON, not {kind}", where=name, fix="End its name in .json or .jsonl")


def note_guess(codec: str, head: str) -> str:
    """Returns a note on a guessed codec, with words by which the user can judge it."""
    words = [word for word in dict.fromkeys(re.findall(r"\w+", head)) if not word.isascii()][:3]
    examples = f", such as {', '.join(map(one_line, words))}" if words else ""
    return f"not UTF-8: read as {codec}{examples} (if that is wrong, convert it to UTF-8)"


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
