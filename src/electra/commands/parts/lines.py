"""Texts as lines: of a file, or of standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext

from electra.foundation.errors import CorpusError


def lines_of(name: str) -> Iterator[str]:
    """The lines of a UTF-8 file (- is standard input), without their ends, read as they are asked for.

    Raises CorpusError, with the number of the line where that is not UTF-8.
    """
    number = 0
    try:
        with nullcontext(sys.stdin.buffer) if name == "-" else open(name, "rb") as file:
            for line in file:
                number += 1
                yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as problem:
        raise CorpusError(
            f"not UTF-8 ({problem.reason})", where=f"{name}:{number}", fix="Convert it to UTF-8"
        ) from None
    except OSError as problem:
        raise CorpusError(f"cannot be read ({problem.strerror})", where=name, fix="Check the path") from None
