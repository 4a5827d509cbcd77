"""Reads texts from files and standard input, and writes their vectors."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electra.commands.parts.shared import Texts
from electra.commands.results.rows import each_text
from electra.data.columnar import write_parquet
from electra.data.lines import COMPRESSIONS
from electra.data.table_files import TABLES, split_name
from electra.data.tables import cell_text, open_table, read_lines
from electra.foundation import durable
from electra.foundation.errors import ConfigError, CorpusError, DataError
from electra.foundation.machine import library
from electra.foundation.options import STDIN
from electra.foundation.terminal_text import decode_argument

if TYPE_CHECKING:
    from electra.foundation.arrays import Vectors

Rows = list[Mapping[str, Any]]
"""One record per text: the columns of the user's table, or only `text`."""
FORMATS = (".npy", ".jsonl", ".parquet")


def texts_of(texts: Texts, column: str = "text") -> tuple[list[str], Rows]:
    """Returns the texts and their rows: the columns of a table, or only `text`. See `each_text_of`."""
    path = _file(texts)
    if path is not None and split_name(path)[1] in TABLES:
        rows = list(open_table(path).rows)
        return [cell_text(row, column, where) for where, row in rows], [row for _, row in rows]
    all_texts = list(each_text_of(texts, column))
    return all_texts, [{"text": text} for text in all_texts]


def each_text_of(texts: Texts, column: str = "text") -> Iterator[str]:
    """Yields texts one by one, so that their source may be larger than memory.

    `texts` is a file (a table with a column of texts, or any other file with a text in each line), "-" for
    the lines of standard input, or a text itself; in Python, also several texts.

    Raises:
        DataError: there is no such file or column, a file has no text, or a text is not text.
        CorpusError: standard input is not UTF-8.
    """
    path = _file(texts)
    if path is None and texts != STDIN:
        yield from [decode_argument(texts)] if isinstance(texts, str) else each_text(texts)
    elif path is not None and split_name(path)[1] in TABLES:
        yield from (cell_text(row, column, where) for where, row in open_table(path).rows)
    else:
        is_empty = True
        for line in _standard_input() if path is None else _without_last_end(path):
            is_empty = False
            yield line
        if is_empty:
            raise DataError("no text", where="standard input" if path is None else path)


def _standard_input() -> Iterator[str]:
    """Yields the lines of standard input. Raises CorpusError, with the line number, if it is not UTF-8."""
    for line_number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            problem = f"not UTF-8 ({error.reason})"
            raise CorpusError(problem, where=f"-:{line_number}", fix="Convert it to UTF-8") from None


def _without_last_end(path: Path) -> Iterator[str]:
    """Yields the lines of a file, without the empty one after the last line break."""
    for line, following in pairwise(chain((line for _, line in read_lines(path)), [None])):
        if line or following is not None:
            yield str(line)


def _file(texts: Texts) -> Path | None:
    """Returns the file that `texts` names; None for a text, standard input or several texts.

    Raises:
        DataError: it looks like the name of a file, but there is none.
    """
    if not isinstance(texts, str | os.PathLike) or texts == STDIN:
        return None
    path = Path(texts)
    if _is_file(path):
        return path
    if isinstance(texts, os.PathLike) or _looks_like_a_file(texts):
        raise DataError("no such file", where=str(texts), fix="Check the path")
    return None


def check_format(out: Path) -> None:
    """Raises ConfigError for an unknown file extension, and DataError if its library is missing."""
    if out.suffix.lower() not in FORMATS:
        fix = f"Use one of {', '.join(FORMATS)}"
        raise ConfigError(f"unrecognised file extension {out.suffix!r}", where=out, fix=fix)
    if out.suffix.lower() == ".parquet":
        library("pyarrow.parquet", "data", "parquet files", DataError, where=out)


def write_vectors(out: Path, rows: Rows, vectors: Vectors) -> None:
    """Writes vectors, float32 [N, D], atomically: alone (.npy) or as a column `vector` (.jsonl, .parquet).

    Raises the errors of `check_format`, and DiskError.
    """
    check_format(out)
    if out.suffix.lower() == ".parquet":
        durable.commit_file(out, lambda path: write_parquet(path, rows, str(out), vectors))
    elif out.suffix.lower() == ".jsonl":
        durable.commit_file(out, "".join(json_lines(rows, vectors)).encode("utf-8", "surrogatepass"))
    else:
        durable.commit_file(out, lambda path: _save(path, vectors))


def json_lines(rows: Rows, vectors: Vectors) -> Sequence[str]:
    """Returns a line for each row: a JSON object with its vector, with enough digits to restore float32."""
    return [
        json.dumps({**row, "vector": [float(f"{value:.9g}") for value in vector]}, ensure_ascii=False) + "\n"
        for row, vector in zip(rows, vectors, strict=True)
    ]


def _save(path: Path, vectors: Vectors) -> None:
    import numpy as np

    with open(path, "wb") as file:  # np.save would add an extension to the temporary name
        np.save(file, vectors)


def _is_file(path: Path) -> bool:
    try:
        return path.exists() and not path.is_dir()
    except (OSError, ValueError):  # a long text, or one with a NUL, is not a path
        return False


def _looks_like_a_file(name: str) -> bool:
    """Whether this is one word with a path separator or the extension of a file of texts."""
    suffixes = (*TABLES, *COMPRESSIONS, ".txt")
    return not any(map(str.isspace, name)) and (Path(name).suffix.lower() in suffixes or "/" in name)


def is_text(argument: str) -> bool:
    """Whether this is a text: it contains a space, is not a file, and does not look like a file's name."""
    return not _is_file(Path(argument)) and not _looks_like_a_file(argument) and " " in argument.strip()
