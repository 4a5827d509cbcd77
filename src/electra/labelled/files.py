"""A data file, compressed or not: its name, its bytes, its lines, its JSON objects.

Labelled data fits in memory, so a file is read as a whole.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from electra.data.readers import DAMAGE, decompress
from electra.data.sources import COMPRESSIONS
from electra.errors import ConfigError, DataError

NUL = "a NUL character: not text"
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # half of a pair, or a lone one
SMALL, RATIO = 64 << 20, 50  # bytes that any file may unfold to, and how often its own size beyond


def known_ending(path: Path, formats: Sequence[str]) -> str:
    """The file's ending, which must be one of `formats`."""
    ending = split_name(path)[1]
    if ending not in formats:
        fix = f"Use one of {', '.join(formats)}, compressed or not"
        raise DataError("unrecognised file extension", where=path, fix=fix)
    return ending


def split_name(path: Path) -> tuple[str, str]:
    """A file's name without its endings, and the ending: "train-10k.jsonl.gz" -> ("train-10k", ".jsonl")."""
    name = path.name.lower()
    for ending in COMPRESSIONS:
        name = name.removesuffix(ending)
    return Path(name).stem, Path(name).suffix


def most_bytes(path: Path) -> int:
    """How much a file of labelled data may unfold to: text shrinks to a tenth, hardly ever to a fiftieth."""
    return SMALL + RATIO * path.stat().st_size


def unfolds_too_far(path: Path) -> DataError:
    what = f"unfolds to more than {most_bytes(path) >> 20} MiB"
    return DataError(what, where=path, fix="No text compresses that well: check the file's source")


def read_bytes(path: Path) -> bytes:
    """The whole file, decompressed; DataError where it unfolds to more than any text does."""
    compression = path.suffix.lower() if path.suffix.lower() in COMPRESSIONS else ""
    try:
        with decompress(path, compression, str(path)) as stream:
            if not compression:
                return bytes(stream.read())
            content, most = bytearray(), most_bytes(path)
            while piece := stream.read(1 << 20):
                content += piece
                if len(content) > most:
                    raise unfolds_too_far(path)
            return bytes(content)
    except FileNotFoundError:
        raise DataError("no such file", where=path) from None
    except (*DAMAGE, ValueError) as error:
        raise DataError(
            f"damaged or truncated ({error})", where=path, fix="Download or compress it again"
        ) from None
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror or error})", where=path) from None


def read_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Lines with their numbers, without their ends."""
    for number, line in raw_lines(path, encoding):
        yield number, line.removesuffix("\r")


def raw_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Lines with their numbers. Only a line feed ends a line: texts contain other characters that Python
    would split at, and a cell of a csv may contain a carriage return.
    """
    content = read_bytes(path)
    if encoding != "utf-8":
        for number, text in enumerate(decode(content, encoding, path).split("\n"), 1):
            refuse_nul(text, f"{path}:{number}")
            yield number, text
        return
    for number, line in enumerate(content.split(b"\n"), 1):
        if b"\0" in line:
            raise DataError(NUL, where=f"{path}:{number}", fix="Save the file as UTF-8")
        try:
            yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"not UTF-8 ({error.reason})",
                where=f"{path}:{number}",
                fix="Save the file as UTF-8, or name its `encoding`",
            ) from None


def _mended(value: Any) -> Any:
    """JSON can contain lone surrogates, which are not text and no file of ours could hold."""
    if isinstance(value, dict):
        return {_mended(name): _mended(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_mended(one) for one in value]
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def refuse_nul(value: Any, where: str) -> None:
    """Refuse a value with a NUL in any of its texts: no line of our own files could hold that."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inner:
        refuse_nul(one, where)
    if isinstance(value, str) and "\0" in value:
        raise DataError(NUL, where=where, fix="Remove it")


def decode(content: bytes, encoding: str, path: Path) -> str:
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except LookupError:
        fix = "Use a name such as utf-8, cp1252, latin-1 or utf-16"
        raise ConfigError(f"unknown encoding {encoding!r}", key="encoding", fix=fix) from None
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise DataError(f"not {encoding} ({error.reason})", where=f"{path}:{line}") from None


def guess_encoding(content: bytes) -> str:
    """utf-8; utf-16 by its mark; or cp1252, what Windows writes in Western Europe, where the text is no UTF-8
    and hardly two letters beyond ASCII stand side by side, as they do in scripts of other alphabets.
    """
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        runs = re.findall(rb"[\x80-\xff]+", content)
        # One letter, or up to three characters of which one is a letter: the rest is quotes and dashes.
        western = sum(len(run) < 4 and sum(byte >= 0xC0 for byte in run) < 2 for run in runs)
        return "cp1252" if western > 0.9 * len(runs) else "utf-8"
    return "utf-8"


def read_objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The JSON objects of a file with one a line, each with its line's number."""
    for number, line in read_lines(path):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            row = json.loads(line)
            if _SURROGATE.search(line):
                row = _mended(row)
            refuse_nul(row, where)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"not valid JSON ({error})", where=where, fix="Write one object per line"
            ) from None
        if not isinstance(row, dict):
            raise DataError("not a JSON object", where=where, fix="Write one object per line")
        yield number, row
