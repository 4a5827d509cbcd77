"""Texts from where a user keeps them, and the file of their vectors."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from electra.commands.framework.command import OnCommandLine, Source
from electra.commands.parts.lines import lines_of
from electra.commands.results.rows import each_text
from electra.data.lines import COMPRESSIONS
from electra.data.rows import TABLES, cell_text, open_table, read_lines, split_name
from electra.foundation import durable
from electra.foundation.errors import ConfigError, DataError
from electra.foundation.machine import library
from electra.foundation.visible import decode_argument

if TYPE_CHECKING:
    from electra.foundation.arrays import Vectors

Texts = Annotated[Source | Iterable[str], OnCommandLine(str)]
"""A text, a file of texts, or "-"; in Python also several texts."""
Rows = list[Mapping[str, Any]]
"""One record a text: the columns of the user's table, or `text` alone."""
STANDARD_INPUT = "-"
FORMATS = (".npy", ".jsonl", ".parquet")


def texts_of(given: Texts, column: str = "text") -> tuple[list[str], Rows]:
    """The texts that are given, and the rows they stand in.

    given: a file (a table with a column of texts, or anything else with one text on each line), "-" for the
        lines of standard input, or a text itself; in Python also several texts.
    """
    path = _file(given)
    if path is not None and split_name(path)[1] in TABLES:
        rows = list(open_table(path).rows)
        return [cell_text(row, column, where) for where, row in rows], [row for _, row in rows]
    texts = list(each_text_of(given, column))
    return texts, [{"text": text} for text in texts]


def each_text_of(given: Texts, column: str = "text") -> Iterator[str]:
    """The texts that are given, one by one: standard input and files may be longer than memory."""
    path = _file(given)
    if given == STANDARD_INPUT:
        yield from lines_of(STANDARD_INPUT)
    elif path is None:
        yield from [decode_argument(given)] if isinstance(given, str) else each_text(given)
    elif split_name(path)[1] in TABLES:
        yield from (cell_text(row, column, where) for where, row in open_table(path).rows)
    else:
        yield from _without_last_end(line for _, line in read_lines(path))


def _without_last_end(lines: Iterator[str]) -> Iterator[str]:
    """The lines without the empty one that follows the last line's end."""
    for line, following in pairwise(chain(lines, [None])):
        if line or following is not None:
            yield str(line)


def _file(given: Texts) -> Path | None:
    """The file that is named; None of a text, of standard input and of several texts."""
    if not isinstance(given, str | os.PathLike) or given == STANDARD_INPUT:
        return None
    path = Path(given)
    if _is_file(path):
        return path
    if isinstance(given, os.PathLike) or _looks_like_a_file(given):
        raise DataError("no such file", where=str(given), fix="Check the path")
    return None


def check_format(out: Path) -> None:
    if out.suffix.lower() not in FORMATS:
        fix = f"End the name in {', '.join(FORMATS)}"
        raise ConfigError(f"unrecognised file extension {out.suffix!r}", where=out, fix=fix)
    if out.suffix.lower() == ".parquet":
        _pyarrow(out)


def write_vectors(out: Path, rows: Rows, vectors: Vectors) -> None:
    """One file, whole or not at all: .npy holds float32 [N, D] alone, .jsonl and .parquet the rows with a
    further column `vector`.
    """
    check_format(out)
    if out.suffix.lower() == ".parquet":
        pyarrow = _pyarrow(out)
        try:
            names = dict.fromkeys(name for row in rows for name in row)
            table = pyarrow.Table.from_pylist([{name: row.get(name) for name in names} for row in rows])
            flat = pyarrow.array(vectors.reshape(-1))
            column = pyarrow.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
            table = _without(table, "vector").append_column("vector", column)
        except (pyarrow.ArrowException, OverflowError) as error:
            what = f"its columns do not fit a parquet file ({str(error).splitlines()[0]})"
            raise DataError(what, where=out, fix="Write .jsonl instead") from None
        durable.commit_file(out, lambda path: pyarrow.parquet.write_table(table, path))
    elif out.suffix.lower() == ".jsonl":
        durable.commit_file(out, "".join(json_lines(rows, vectors)).encode("utf-8", "surrogatepass"))
    else:
        durable.commit_file(out, lambda path: _save(path, vectors))


def json_lines(rows: Rows, vectors: Vectors) -> Sequence[str]:
    """Each row as an object with its vector, in just as many digits as float32 has."""
    return [
        json.dumps({**row, "vector": [float(f"{value:.9g}") for value in vector]}, ensure_ascii=False) + "\n"
        for row, vector in zip(rows, vectors, strict=True)
    ]


def _save(path: Path, vectors: Vectors) -> None:
    import numpy as np

    with open(path, "wb") as file:  # np.save would add an ending to the temporary name
        np.save(file, vectors)


def _without(table: Any, name: str) -> Any:
    return table.drop_columns([name]) if name in table.column_names else table


def _pyarrow(out: Path) -> Any:
    return library("pyarrow.parquet", "data", "parquet files", DataError, where=out)


def _is_file(path: Path) -> bool:
    try:
        return path.exists() and not path.is_dir()
    except (OSError, ValueError):  # a long text, or one with a NUL, is no path
        return False


def _looks_like_a_file(given: str) -> bool:
    """One word with a path's separator or the ending of a file of texts."""
    ending = Path(given).suffix.lower()
    known = (*TABLES, *COMPRESSIONS, ".txt")
    return not any(character.isspace() for character in given) and (ending in known or "/" in given)


def names_no_file(given: str) -> bool:
    """Whether this is a text: no file of that name exists, and none could be meant."""
    return not _is_file(Path(given)) and not _looks_like_a_file(given) and " " in given.strip()
