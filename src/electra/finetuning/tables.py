"""Labelled data as people have it: csv, tsv, jsonl and parquet files, compressed or not, alone or as a folder
of splits.

A tsv is unquoted (GLUE's files hold lone double quotes: reading them as csv swallows rows); a csv is quoted
as RFC 4180 has it, with commas, or with semicolons where the first line has more of those.
An object a line (jsonl) may lack fields that others have. Whatever is wrong is told as file:line.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from electra.data.readers import DAMAGE, decompress
from electra.errors import TaskError

FORMATS = {".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
TABLES = tuple(FORMATS)
COMPRESSIONS = (".gz", ".zst", ".xz", ".bz2")
SPLIT_NAMES = {
    "train": ("train", "training"),
    "dev": ("dev", "valid", "validation", "val", "eval"),
    "test": ("test",),
}


@dataclass
class Table:
    """One open file: its columns, and its rows, each (line number, column -> value), one after the other."""

    path: Path
    columns: tuple[str, ...]
    rows: Iterator[tuple[int, Mapping[str, Any]]]
    dropped: int = 0  # malformed rows left out so far; grows while `rows` is read


def open_table(
    path: Path, header: Sequence[str] = (), wanted: Sequence[Sequence[str]] = (), drop_malformed: bool = False
) -> Table:
    """Open a file of rows.

    header: the columns' names, for a file that may come without a header line (GLUE's CoLA). Its first line
        is then taken as a header only when it has all the names of one of the alternatives in `wanted`.
    drop_malformed: leave out rows with a wrong number of cells and count them (QQP as distributed has some)
        instead of stopping.
    """
    kind = FORMATS.get(split_name(path)[1])
    if kind is None:
        raise TaskError(
            "not a table, going by its name",
            where=path,
            fix=f"Use {', '.join(FORMATS)}, each also {', '.join(COMPRESSIONS)}",
        )
    if kind in ("jsonl", "parquet"):
        objects = list(read_objects(path) if kind == "jsonl" else _parquet(path)) or _refuse_empty(path)
        return Table(path, tuple(dict.fromkeys(name for _, row in objects for name in row)), iter(objects))
    lines = _cells(path, kind)
    first = next(lines, None) or _refuse_empty(path)
    names = [name.strip() for name in first[1]]
    if header and not any(set(together) <= set(names) for together in wanted):
        names, lines = list(header), chain([first], lines)
    if len(set(names)) < len(names):
        listed = ", ".join(names)
        raise TaskError(
            f"two columns have one name ({listed})",
            where=f"{path}:1",
            fix="Rename one; if this is no header, give --columns",
        )
    table = Table(path, tuple(names), iter(()))
    table.rows = _named(table, lines, drop_malformed)
    return table


def find_split(
    folder: Path, split: str, preferred: Sequence[str] = (), formats: Sequence[str] = TABLES
) -> Path | None:
    """The file of a split, by name and ending: `train.tsv`, `train-10k.jsonl.gz`, `mine.valid.csv`. None when
    there is none.

    A whole name beats a first word, which beats a later word; two equally good ones are an error.
    """
    names = [*preferred, *SPLIT_NAMES[split]]
    ranked: dict[int, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        stem, ending = split_name(path)
        words = stem.replace("-", ".").replace("_", ".").split(".")
        if ending in formats and path.is_file() and (stem in names or set(words) & set(names)):
            rank = names.index(stem) if stem in names else len(names) + (words[0] not in names)
            ranked.setdefault(rank, []).append(path)
    best = ranked[min(ranked)] if ranked else []
    if len(best) > 1:
        listed = ", ".join(path.name for path in best)
        raise TaskError(
            f"more than one {split} file ({listed})",
            where=folder,
            fix=f"Name one: --{'data' if split == 'train' else split} FILE",
        )
    return best[0] if best else None


def find_named(folder: Path, names: Sequence[str], formats: Sequence[str] = TABLES) -> list[Path]:
    """The files of just these names, whatever their endings."""
    found = {split_name(path): path for path in sorted(folder.iterdir()) if path.is_file()}
    return [path for (stem, ending), path in found.items() if stem in names and ending in formats]


def split_name(path: Path) -> tuple[str, str]:
    """A file's name without its endings, and the ending: "train-10k.jsonl.gz" -> ("train-10k", ".jsonl")."""
    name = path.name.lower()
    for ending in COMPRESSIONS:
        name = name.removesuffix(ending)
    return Path(name).stem, Path(name).suffix


def _refuse_empty(path: Path) -> Any:
    raise TaskError("the file is empty", where=path)


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines with their numbers. Only a line feed ends a line: texts hold other characters that Python would
    split at.
    """
    for number, line in enumerate(read_bytes(path).split(b"\n"), 1):
        try:
            yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise TaskError(
                f"not UTF-8 ({error.reason})", where=f"{path}:{number}", fix="Save the file as UTF-8"
            ) from None


def read_bytes(path: Path) -> bytes:
    """The whole file, decompressed: labelled data fits in memory."""
    compression = path.suffix.lower() if path.suffix.lower() in COMPRESSIONS else ""
    try:
        with decompress(path, compression, str(path)) as stream:
            return bytes(stream.read())
    except FileNotFoundError:
        raise TaskError("no such file", where=path) from None
    except (*DAMAGE, ValueError) as error:
        raise TaskError(
            f"damaged or cut off ({error})", where=path, fix="Fetch or compress it again"
        ) from None
    except OSError as error:
        raise TaskError(f"cannot be read ({error.strerror or error})", where=path) from None


def _cells(path: Path, kind: str) -> Iterator[tuple[int, list[str]]]:
    if kind == "tsv":
        for number, line in read_lines(path):
            if line := line.removesuffix("\r"):
                yield number, line.split("\t")
        return
    csv.field_size_limit(sys.maxsize)  # the default refuses cells over 128 KiB
    lines = [line + "\n" for _, line in read_lines(path)]
    # Where a decimal point is a comma, spreadsheets write semicolons.
    unquoted = re.sub(r'"[^"]*"?', "", lines[0]) if lines else ""
    delimiter = ";" if unquoted.count(";") > unquoted.count(",") else ","
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    first_line = 1  # of the row in reading: a quoted cell may go over several lines
    try:
        for cells in reader:
            if cells:
                yield first_line, cells
            first_line = reader.line_num + 1
    except csv.Error as error:
        raise TaskError(f"not readable as csv ({error})", where=f"{path}:{first_line}") from None


def read_objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in read_lines(path):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise TaskError(
                f"not readable as JSON ({error})", where=f"{path}:{number}", fix="Write one object a line"
            ) from None
        if not isinstance(row, dict):
            raise TaskError("not a JSON object", where=f"{path}:{number}", fix="Write one object a line")
        yield number, row


def _parquet(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows, numbered from 1."""
    try:
        import pyarrow.parquet
        from pyarrow import ArrowException
    except ImportError:
        raise TaskError("parquet files need pyarrow", where=path, fix="pip install 'electra[data]'") from None
    try:
        table = pyarrow.parquet.read_table(io.BytesIO(read_bytes(path)))
    except ArrowException as error:
        raise TaskError(f"not a readable parquet file ({str(error).splitlines()[0]})", where=path) from None
    yield from enumerate(table.to_pylist(), 1)


def _named(
    table: Table, lines: Iterator[tuple[int, list[str]]], drop_malformed: bool
) -> Iterator[tuple[int, dict[str, Any]]]:
    expected = len(table.columns)
    for number, cells in lines:
        if len(cells) == expected:
            yield number, dict(zip(table.columns, cells, strict=True))
        elif drop_malformed:
            table.dropped += 1
        else:
            what = f"{len(cells)} columns instead of {expected} ({', '.join(table.columns)})"
            raise TaskError(
                what,
                where=f"{table.path}:{number}",
                fix="Mend the line; if the file has no header, give --columns",
            )


def format_tsv(rows: Sequence[Sequence[str]]) -> bytes:
    """Rows of cells as an unquoted tsv; tabs and line ends inside a cell become spaces."""
    return "".join(
        "\t".join(" ".join(cell.splitlines()).replace("\t", " ") for cell in row) + "\n" for row in rows
    ).encode()


def format_csv(rows: Sequence[Sequence[str]]) -> bytes:
    """Rows of cells as RFC 4180 has them."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
