"""Texts from where a user keeps them, and the file of their vectors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from electra.commands.workflow.lines import lines_of
from electra.data.lines import COMPRESSIONS
from electra.data.rows import TABLES, cell_text, open_table, read_lines, split_name
from electra.foundation import durable
from electra.foundation.errors import ConfigError, DataError
from electra.foundation.machine import library
from electra.foundation.visible import from_argument

if TYPE_CHECKING:
    from electra.foundation.arrays import Vectors

Rows = list[Mapping[str, Any]]
"""One record a text: the columns of the user's table, or `text` alone."""
STANDARD_INPUT = "-"
FORMATS = (".npy", ".jsonl", ".parquet")


def texts_of(given: str, column: str = "text") -> tuple[list[str], Rows]:
    """The texts that `given` names, and the rows they stand in.

    given: a file (a table with a column of texts, or anything else with one text on each line), "-" for the
        lines of standard input, or a text itself.
    """
    path = Path(given)
    if given == STANDARD_INPUT:
        texts = list(lines_of(given))
    elif not _is_file(path):
        if _looks_like_a_file(given):
            raise DataError("no such file", where=given, fix="Check the path")
        texts = [from_argument(given)]
    elif split_name(path)[1] in TABLES:
        rows = list(open_table(path).rows)
        return [cell_text(row, column, where) for where, row in rows], [row for _, row in rows]
    else:
        texts = [line for _, line in read_lines(path)]
        if texts[-1:] == [""]:  # after the last line's end
            texts.pop()
    return texts, [{"text": text} for text in texts]


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
    with open(path, "wb") as file:  # np.save would add an ending to the temporary name
        np.save(file, vectors)


def _without(table: Any, name: str) -> Any:
    return table.drop_columns([name]) if name in table.column_names else table


def _pyarrow(out: Path) -> Any:
    return library("pyarrow.parquet", "data", "parquet files", DataError, where=out)


def _is_file(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a long text, or one with a NUL, is no path
        return False


def _looks_like_a_file(given: str) -> bool:
    """One word with a path's separator or the ending of a file of texts."""
    ending = Path(given).suffix.lower()
    known = (*TABLES, *COMPRESSIONS, ".txt")
    return not any(character.isspace() for character in given) and (ending in known or "/" in given)
