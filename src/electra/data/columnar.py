"""Reads rows of columnar files (parquet, Arrow streams and files, feather) in bounded memory; writes parquet.

A repeated value is stored once, so a few kilobytes can stand for gigabytes. Batches therefore keep repeated
values as dictionaries, rows are made one at a time, and each value is charged to a `SizeBudget` before the
next is made. Class numbers are replaced by the class names in the metadata of `datasets`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

from electra.foundation.errors import DataError
from electra.foundation.machine import library

AT_ONCE, AT_ONCE_RATIO = 1 << 28, 1000  # bytes of a column chunk; above, the most it may expand
BATCH = 256  # rows
Row = dict[str, Any]


class SizeBudget:
    """The number of characters and bytes that a file may still expand to."""

    def __init__(self, most: int, name: str) -> None:
        self.most = self.left = most
        self.name = name

    def spend(self, amount: int) -> None:
        """Charges an amount. Raises DataError when the budget is exceeded."""
        self.left -= amount
        if self.left < 0:
            problem = f"expands to more than {self.most >> 20} MiB"
            fix = "No text compresses that well: check the file's source"
            raise DataError(problem, where=self.name, fix=fix)


def parquet_columns(path: Path, name: str) -> tuple[str, ...]:
    """Returns the columns of a parquet file; `name` is the file's name in messages. Raises DataError."""
    return tuple(_parquet(path, name).schema_arrow.names)


def parquet_rows(path: Path, name: str, room: SizeBudget, only: list[str] | None = None) -> Iterator[Row]:
    """Yields the rows of a parquet file, with all columns or those in `only`. Raises DataError."""
    pyarrow = _library(name)
    try:
        file = _parquet(path, name)
        _refuse_unfolding(file.metadata, name)
        leaves = [file.schema.column(number).path for number in range(len(file.schema))]
        # Repeated values stay dictionary-encoded until a row is made.
        file = pyarrow.parquet.ParquetFile(path, read_dictionary=leaves)
        yield from _rows(pyarrow, file.iter_batches(BATCH, columns=only), file.schema_arrow, name, room, only)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _unreadable("parquet", name, error) from None


def write_parquet(
    target: Path | BytesIO, records: Sequence[Mapping[str, Any]], name: str = "", vectors: Any = None
) -> None:
    """Writes records as parquet, with the columns of all of them.

    Args:
        target: the file.
        records: the rows.
        name: the file's name in messages.
        vectors: a float array [N, D] for a further column `vector`, which replaces one in the records.

    Raises:
        DataError: the values of a column have no common type.
    """
    pyarrow = _library(name)
    columns = dict.fromkeys(column for record in records for column in record)
    try:
        rows = [{column: record.get(column) for column in columns} for record in records]
        table = pyarrow.Table.from_pylist(rows)
        if vectors is not None:
            flat = pyarrow.array(vectors.reshape(-1))
            table = table.drop_columns(["vector"] if "vector" in columns else [])
            table = table.append_column(
                "vector", pyarrow.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
            )
        pyarrow.parquet.write_table(table, target)
    except (pyarrow.ArrowException, OverflowError) as error:
        problem = f"the columns cannot be written as parquet ({str(error).splitlines()[0]})"
        raise DataError(problem, where=name, fix="Write jsonl instead") from None


def arrow_columns(path: Path, name: str) -> tuple[str, ...]:
    """Returns the columns of an Arrow stream or file; `name` is its name in messages. Raises DataError."""
    pyarrow = _library(name)
    try:
        with pyarrow.memory_map(str(path)) as source:
            return tuple(_reader(pyarrow, source, name).schema.names)
    except (pyarrow.ArrowException, OSError) as error:
        raise _unreadable("Arrow", name, error) from None


def arrow_rows(path: Path, name: str, room: SizeBudget, only: list[str] | None = None) -> Iterator[Row]:
    """Yields the rows of an Arrow stream or file, as `datasets` and feather write them. Raises DataError."""
    pyarrow = _library(name)
    try:
        with pyarrow.memory_map(str(path)) as source:
            reader = _reader(pyarrow, source, name)
            file = hasattr(reader, "num_record_batches")
            batches = map(reader.get_batch, range(reader.num_record_batches)) if file else reader
            yield from _rows(pyarrow, batches, reader.schema, name, room, only)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _unreadable("Arrow", name, error) from None


def _reader(pyarrow: Any, source: Any, name: str) -> Any:
    head = source.read(6)
    source.seek(0)
    if head.startswith(b"FEA1"):
        raise DataError("feather version 1", where=name, fix="Save it again with a newer pandas")
    _refuse_packed(pyarrow, source, name, skip=8 if head == b"ARROW1" else 0)
    source.seek(0)
    return (pyarrow.ipc.open_file if head == b"ARROW1" else pyarrow.ipc.open_stream)(source)


def _refuse_packed(pyarrow: Any, source: Any, name: str, skip: int) -> None:
    """Refuses compressed batches that declare a far larger size, since a batch is decompressed as a whole."""
    source.seek(skip)
    while True:
        try:
            message = pyarrow.ipc.read_message(source)
        except (EOFError, pyarrow.ArrowInvalid):  # the end; damage is reported when rows are read
            return
        body = message.body
        if message.type not in ("record batch", "dictionary") or body is None:
            continue
        unpacked = _unpacked_size(message.metadata.to_pybytes(), body)
        if unpacked > AT_ONCE and unpacked > AT_ONCE_RATIO * body.size:
            problem = f"{body.size} bytes of a batch expand to {unpacked >> 20} MiB"
            fix = "No text compresses that well: check the file's source"
            raise DataError(problem, where=name, fix=fix)


def _unpacked_size(metadata: bytes, body: Any) -> int:
    """Returns the decompressed size that the buffers of a message declare.

    Message and RecordBatch are flatbuffers: Message.header is field 2, DictionaryBatch.data field 1,
    RecordBatch.buffers field 2 (pairs of 64-bit numbers: offset and length) and RecordBatch.compression field
    3.
    """

    def number(place: int, size: int, signed: bool = True) -> int:
        return int.from_bytes(metadata[place : place + size], "little", signed=signed)

    def field(table: int, index: int) -> int:
        """Returns the position of a field of a table; 0 if it is absent."""
        listing = table - number(table, 4)
        here = 4 + 2 * index
        offset = number(listing + here, 2, False) if here < number(listing, 2, False) else 0
        return table + offset if offset else 0

    def follow(place: int) -> int:
        return place + number(place, 4, False)

    message = follow(0)
    batch = follow(field(message, 2))
    if number(field(message, 1), 1, False) == 2:  # a dictionary batch holds a record batch
        batch = follow(field(batch, 1))
    if not field(batch, 3):
        return 0
    buffers, total = follow(field(batch, 2)), 0
    for index in range(number(buffers, 4, False)):
        place, length = (number(buffers + 4 + 16 * index + part, 8) for part in (0, 8))
        if length >= 8:
            total += max(0, int.from_bytes(body[place : place + 8], "little", signed=True))
    return total


def _rows(  # noqa: PLR0917
    pyarrow: Any, batches: Any, schema: Any, name: str, room: SizeBudget, only: list[str] | None
) -> Iterator[Row]:
    names, known = schema.names, _classes(schema.metadata)
    if len(set(names)) < len(names):
        twice = next(column for column in names if names.count(column) > 1)
        raise DataError(f"two columns have the name {twice!r}", where=name, fix="Rename one")
    names = only or names
    for batch in batches:
        columns = []
        for column in names:
            values = batch.column(column)
            column_values = map(_maker(pyarrow, values.type, room), values)
            columns.append(
                map(partial(_class_name, known[column]), column_values) if column in known else column_values
            )
        for row in zip(*columns, strict=True):
            yield dict(zip(names, row, strict=True))


def _maker(pyarrow: Any, kind: Any, room: SizeBudget) -> Callable[[Any], Any]:
    """Returns a function from a type's scalars to Python values, charged to `room`; UTF-8 becomes text."""
    types = pyarrow.types
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = _maker(pyarrow, kind.value_type, room)
        return lambda scalar: [inner(value) for value in scalar.values] if scalar.is_valid else None
    if types.is_struct(kind):
        fields = [(field.name, _maker(pyarrow, field.type, room)) for field in kind]
        return lambda scalar: {n: make(scalar[n]) for n, make in fields} if scalar.is_valid else None

    def make(scalar: Any) -> Any:
        value = scalar.as_py()
        room.spend(len(value) if isinstance(value, str | bytes | list | dict) else 1)
        try:
            return value.decode() if isinstance(value, bytes) else value
        except UnicodeDecodeError:
            return value

    return make


def with_names(row: Mapping[str, Any], known: Mapping[str, list[str]]) -> Row:
    """Returns a row with class numbers replaced by names, for the columns in `known`."""
    return {name: _class_name(known[name], value) if name in known else value for name, value in row.items()}


def _class_name(names: list[str], value: Any) -> Any:
    if isinstance(value, list):
        return [_class_name(names, inner) for inner in value]
    if isinstance(value, int) and not isinstance(value, bool) and value < len(names):
        return names[value] if value >= 0 else None  # -1: no label
    return value


def _classes(metadata: Mapping[bytes, bytes] | None) -> dict[str, list[str]]:
    """Returns the class names of each column that has them, from the metadata of `datasets`."""
    try:
        features = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
        return class_names(features)
    except (KeyError, ValueError, TypeError, RecursionError):
        return {}


def class_names(features: Any) -> dict[str, list[str]]:
    """Returns the class names of each column that has them, from the features of `datasets` as JSON."""

    def names(feature: Any) -> list[str] | None:
        if isinstance(feature, list):
            return names(feature[0]) if feature else None
        if not isinstance(feature, dict):
            return None
        known = feature.get("names")
        if feature.get("_type") == "ClassLabel" and isinstance(known, list):
            return [str(each) for each in known]
        return names(feature.get("feature"))

    classes = {column: names(feature) for column, feature in features.items()}
    return {column: known for column, known in classes.items() if known}


def _refuse_unfolding(metadata: Any, name: str) -> None:
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(column)
            packed, unpacked = max(1, chunk.total_compressed_size), chunk.total_uncompressed_size
            if unpacked > AT_ONCE and unpacked > AT_ONCE_RATIO * packed:
                problem = f"{packed} bytes of column {chunk.path_in_schema!r} expand to {unpacked >> 20} MiB"
                fix = "No text compresses that well: check the file's source"
                raise DataError(problem, where=name, fix=fix)


def _parquet(path: Path, name: str) -> Any:
    pyarrow = _library(name)
    try:
        return pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise _unreadable("parquet", name, error) from None


def _library(name: str) -> Any:
    library("pyarrow.ipc", "data", "parquet and Arrow files", DataError, where=name)
    return library("pyarrow.parquet", "data", "parquet and Arrow files", DataError, where=name)


def _unreadable(kind: str, name: str, error: Exception) -> DataError:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return DataError(f"not a readable {kind} file ({reason})", where=name)


Opened = tuple[
    Callable[[Path, str], tuple[str, ...]], Callable[[Path, str, SizeBudget, list[str] | None], Iterator[Row]]
]
READERS: dict[str, Opened] = {
    "parquet": (parquet_columns, parquet_rows),
    "arrow": (arrow_columns, arrow_rows),
}
