"""Reads texts from files and standard input, and writes their vectors."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator, Mapping
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electra.commands.parts.shared import Texts
from electra.commands.results.rows import each_text, is_table, records
from electra.data.columnar import write_parquet
from electra.data.lines import COMPRESSIONS
from electra.data.table_files import TABLES, Data, Given, split_name
from electra.data.tables import cell_text, open_table, read_lines
from electra.foundation import durable
from electra.foundation.errors import ConfigError, DataError
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
    found = list(_rows_of(texts, column))
    return [text for text, _ in found], [row for _, row in found]


def each_text_of(texts: Texts, column: str = "text") -> Iterator[str]:
    """Yields the texts of a file (a table or lines), of standard input ("-"), or those passed, one by one.

    The source may be larger than memory. Raises DataError for what is no text, and if there is none.
    """
    return (text for text, _ in _rows_of(texts, column))


def _rows_of(texts: Texts, column: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(texts, str) and not texts.strip():
        raise DataError("no text", fix="Pass a text, or a file of texts")
    return _read(_file(texts), texts, column)


def _read(file: Data | None, texts: Texts, column: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if file is None:
        if is_table(texts):
            rows = open_table(Given("the table", rows=records(texts))).rows
            yield from ((cell_text(row, column, where), row) for where, row in rows)
            return
        found = [decode_argument(texts)] if isinstance(texts, str) else each_text(texts)
        yield from ((text, {"text": text}) for text in found)
    elif isinstance(file, Path) and split_name(file)[1] in TABLES:
        yield from ((cell_text(row, column, where), row) for where, row in open_table(file).rows)
    else:
        lines, is_empty = chain((line for _, line in read_lines(file)), [None]), True
        for line, following in pairwise(lines):
            if line or following is not None:  # the last line break ends no empty line
                is_empty = False
                yield str(line), {"text": str(line)}
        if is_empty:
            raise DataError("no text", where=str(file))


def _file(texts: Texts) -> Data | None:
    """Returns the file that `texts` names, or standard input; None for a text or several texts."""
    if not isinstance(texts, str | os.PathLike):
        return None
    if texts == STDIN:
        return Given("standard input", extension=".txt", stream=sys.stdin.buffer)
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
    """Writes vectors, float32 [N, D], atomically: alone (.npy) or as a column `vector` (.jsonl, .parquet)."""
    import numpy as np

    if out.suffix.lower() == ".parquet":
        durable.commit_file(out, lambda path: write_parquet(path, rows, str(out), vectors))
    elif out.suffix.lower() == ".jsonl":
        durable.commit_file(out, "".join(json_lines(rows, vectors)).encode("utf-8", "surrogatepass"))
    else:
        content = io.BytesIO()
        np.save(content, vectors)
        durable.commit_file(out, content.getvalue())


def json_lines(rows: Rows, vectors: Vectors) -> Iterator[str]:
    """Yields a line for each row: a JSON object with its vector, with enough digits to restore float32."""
    for row, vector in zip(rows, vectors, strict=True):
        record = {**row, "vector": [float(f"{value:.9g}") for value in vector]}
        yield json.dumps(record, ensure_ascii=False) + "\n"


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
