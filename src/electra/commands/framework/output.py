"""Standard output in any encoding: characters that it lacks are escaped."""

from __future__ import annotations

import codecs
import io
import os
import sys

ESCAPE = "electra.escape"
_noted: list[str] = []


def prepare() -> None:
    """Makes standard output escape the characters that its encoding lacks, instead of failing."""
    codecs.register_error(ESCAPE, _escape)
    _noted.clear()
    if sys.stdout is None:  # closed by the caller
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors in ("strict", "surrogateescape"):
        sys.stdout.reconfigure(errors=ESCAPE)


def has_failed() -> bool:
    """Whether standard output can no longer be written: its disk is full, or its terminal is gone."""
    try:
        sys.stdout.flush()
    except OSError:
        return True
    return False


def abandon() -> None:
    """Discards what is left to write, so that the interpreter's last flush raises nothing."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def json_text(text: str) -> str:
    """Returns JSON text for standard output: escaped to ASCII if its encoding is not UTF-8."""
    return text if _is_utf8() else "".join(c if c.isascii() else _escaped(c) for c in text)


def _is_utf8() -> bool:
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig")


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def _escape(error: UnicodeError) -> tuple[str | bytes, int]:
    r"""Returns \uXXXX for a character that the encoding lacks; passes on an argument's undecodable byte."""
    assert isinstance(error, UnicodeEncodeError)
    character = error.object[error.start]
    if "\udc80" <= character <= "\udcff":
        return bytes([ord(character) - 0xDC00]), error.start + 1
    if not _noted and not _is_utf8():
        _noted.append(error.encoding)
        sys.stderr.write(
            f"note: standard output is {error.encoding}: other characters are written as \\uXXXX"
            " (set PYTHONIOENCODING=utf-8 to write them unchanged)\n"
        )
    return _escaped(character), error.start + 1
