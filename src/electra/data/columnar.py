"""Reads rows of columnar files (parquet, Arrow streams and files, feather) in bounded memory; writes parquet.

A repeated value is stored once, so a few kilobytes can expand to gigabytes. Batches therefore keep repeated
values as dictionaries, rows are converted one at a time, and each value is charged to a `SizeBudget` before
the next is converted. Class indices are replaced by the class names in the metadata of `datasets`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

from electra.data.lines import SizeBudget, expansion_error
from electra.data.tables import Row
from electra.foundation.errors import DataError, reason_of
from electra.foundation.machine import library

# A column chunk or batch is decompressed whole: to at most this many bytes, or this many times its size if
# that is more.
EXPANDED_BYTES, EXPANDED_RATIO = 1 << 28, 1000
BATCH_ROWS = 256


def parquet_columns(path: Path, name: str) -> tuple[str, ...]:
    """Returns a parquet file's column names; `name` names the file in messages. Raises DataError."""
    return tuple(_parquet(path, name).schema_arrow.names)


def parquet_rows(path: Path, name: str, budget: SizeBudget, only: list[str] | None = None) -> Iterator[Row]:
    """Yields the rows of a parquet file, with all columns or those in `only`, and charges values to `budget`.

    `name` names the file in messages. Raises DataError if the file cannot be read, exceeds the budget, or has
    two columns of the same name.
    """
    pyarrow = _library(name)
    try:
        file = _parquet(path, name)
        _refuse_large_chunks(file.metadata, name)
        leaves = [file.schema.column(index).path for index in range(len(file.schema))]
        # Repeated values stay dictionary-encoded until a row is converted.
        file = pyarrow.parquet.ParquetFile(path, read_dictionary=leaves)
        yield from _rows(
            pyarrow, file.iter_batches(BATCH_ROWS, columns=only), file.schema_arrow, name, budget, only
        )
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _unreadable("parquet", name, error) from None


def write_parquet(
    target: Path | BytesIO, records: Sequence[Mapping[str, Any]], name: str = "", vectors: Any = None
) -> None:
    """Writes records as parquet, with every column that occurs in any of them.

    Args:
        target: the file, or a buffer.
        records: the rows.
        name: the file's name in messages.
        vectors: a float array [N, D] for a further column `vector`, which replaces one in the records.

    Raises:
        DataError: the values of a column have no common type, or an integer is too large.
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
        problem = f"the columns cannot be written as parquet ({reason_of(error)})"
        raise DataError(problem, where=name, fix="Write jsonl instead") from None


def arrow_columns(path: Path, name: str) -> tuple[str, ...]:
    """Returns an Arrow stream's or file's column names; `name` names it in messages. Raises DataError."""
    pyarrow = _library(name)
    try:
        with pyarrow.memory_map(str(path)) as source:
            return tuple(_reader(pyarrow, source, name).schema.names)
    except (pyarrow.ArrowException, OSError) as error:
        raise _unreadable("Arrow", name, error) from None


def arrow_rows(path: Path, name: str, budget: SizeBudget, only: list[str] | None = None) -> Iterator[Row]:
    """Yields the rows of an Arrow stream or file (such as feather), as `parquet_rows` does."""
    pyarrow = _library(name)
    try:
        with pyarrow.memory_map(str(path)) as source:
            reader = _reader(pyarrow, source, name)
            is_file = hasattr(reader, "num_record_batches")
            batches = map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader
            yield from _rows(pyarrow, batches, reader.schema, name, budget, only)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _unreadable("Arrow", name, error) from None


def _reader(pyarrow: Any, source: Any, name: str) -> Any:
    head = source.read(6)
    source.seek(0)
    if head.startswith(b"FEA1"):
        raise DataError(
            "feather version 1 is not supported", where=name, fix="Save it again with a newer pandas"
        )
    _refuse_large_batches(pyarrow, source, name, start=8 if head == b"ARROW1" else 0)
    source.seek(0)
    return (pyarrow.ipc.open_file if head == b"ARROW1" else pyarrow.ipc.open_stream)(source)


def _refuse_large_batches(pyarrow: Any, source: Any, name: str, start: int) -> None:
    """Refuses compressed batches that declare a far larger size, since a batch is decompressed whole."""
    source.seek(start)
    while True:
        try:
            message = pyarrow.ipc.read_message(source)
        except (EOFError, pyarrow.ArrowInvalid):  # the end; damage is reported when rows are read
            return
        body = message.body
        if message.type not in ("record batch", "dictionary") or body is None:
            continue
        unpacked = _unpacked_size(message.metadata.to_pybytes(), body)
        _refuse_expansion(body.size, unpacked, "a batch", name)


def _refuse_expansion(packed: int, unpacked: int, part: str, name: str) -> None:
    if unpacked > EXPANDED_BYTES and unpacked > EXPANDED_RATIO * max(1, packed):
        raise expansion_error(f"{packed} bytes of {part} expand to {unpacked >> 20} MiB", name)


def _unpacked_size(metadata: bytes, body: Any) -> int:
    """Returns the decompressed size that the buffers of a message declare; 0 if they are not compressed.

    Message and RecordBatch are flatbuffers. In a Message, field 1 is the type of the header and field 2 the
    header; in a DictionaryBatch, field 1 is the data; in a RecordBatch, field 2 holds the buffers (pairs
    of 64-bit integers: offset and length) and field 3 the compression.
    """

    def integer(position: int, size: int, signed: bool = True) -> int:
        return int.from_bytes(metadata[position : position + size], "little", signed=signed)

    def field(table: int, index: int) -> int:
        """Returns the position of a field of a table; 0 if it is absent."""
        fields = table - integer(table, 4)
        entry = 4 + 2 * index
        offset = integer(fields + entry, 2, False) if entry < integer(fields, 2, False) else 0
        return table + offset if offset else 0

    def follow(position: int) -> int:
        return position + integer(position, 4, False)

    message = follow(0)
    batch = follow(field(message, 2))
    if integer(field(message, 1), 1, False) == 2:  # a dictionary batch holds a record batch
        batch = follow(field(batch, 1))
    if not field(batch, 3):
        return 0
    buffers, total = follow(field(batch, 2)), 0
    for index in range(integer(buffers, 4, False)):
        offset, length = (integer(buffers + 4 + 16 * index + part_offset, 8) for part_offset in (0, 8))
        if length >= 8:
            total += max(0, int.from_bytes(body[offset : offset + 8], "little", signed=True))
    return total


def _rows(  # noqa: PLR0917
    pyarrow: Any, batches: Any, schema: Any, name: str, budget: SizeBudget, only: list[str] | None
) -> Iterator[Row]:
    names, classes = schema.names, _classes(schema.metadata)
    if len(set(names)) < len(names):
        repeated = next(column for column in names if names.count(column) > 1)
        raise DataError(f"two columns have the name {repeated!r}", where=name, fix="Rename one")
    names = only or names
    for batch in batches:
        columns = []
        for column in names:
            scalars = batch.column(column)
            values = map(_converter(pyarrow, scalars.type, budget), scalars)
            if column in classes:
                values = map(partial(_class_name, classes[column]), values)
            columns.append(values)
        for row in zip(*columns, strict=True):
            yield dict(zip(names, row, strict=True))


def _converter(pyarrow: Any, kind: Any, budget: SizeBudget) -> Callable[[Any], Any]:
    """Returns a converter of a type's scalars to Python values, charged to `budget`; UTF-8 becomes text."""
    types = pyarrow.types
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        convert_item = _converter(pyarrow, kind.value_type, budget)
        return lambda scalar: [convert_item(value) for value in scalar.values] if scalar.is_valid else None
    if types.is_struct(kind):
        fields = [(field.name, _converter(pyarrow, field.type, budget)) for field in kind]
        return lambda scalar: (
            {name: convert(scalar[name]) for name, convert in fields} if scalar.is_valid else None
        )

    def convert(scalar: Any) -> Any:
        value = scalar.as_py()
        budget.spend(len(value) if isinstance(value, str | bytes | list | dict) else 1)
        try:
            return value.decode() if isinstance(value, bytes) else value
        except UnicodeDecodeError:
            return value

    return convert


def with_class_names(row: Mapping[str, Any], classes: Mapping[str, list[str]]) -> Row:
    """Returns a row with class indices replaced by names, for the columns in `classes` (names by column).

    A negative index (no label) becomes None, and one beyond the names stays.
    """
    return {
        name: _class_name(classes[name], value) if name in classes else value for name, value in row.items()
    }


def _class_name(names: list[str], value: Any) -> Any:
    if isinstance(value, list):
        return [_class_name(names, item) for item in value]
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
        label_names = feature.get("names")
        if feature.get("_type") == "ClassLabel" and isinstance(label_names, list):
            return list(map(str, label_names))
        return names(feature.get("feature"))

    classes = {column: names(feature) for column, feature in features.items()}
    return {column: label_names for column, label_names in classes.items() if label_names}


def _refuse_large_chunks(metadata: Any, name: str) -> None:
    """Refuses column chunks that declare a far larger size, since a chunk is decompressed whole."""
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(column)
            part = f"column {chunk.path_in_schema!r}"
            _refuse_expansion(chunk.total_compressed_size, chunk.total_uncompressed_size, part, name)


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


ColumnsReader = Callable[[Path, str], tuple[str, ...]]
RowsReader = Callable[[Path, str, SizeBudget, list[str] | None], Iterator[Row]]
READERS: dict[str, tuple[ColumnsReader, RowsReader]] = {
    "parquet": (parquet_columns, parquet_rows),
    "arrow": (arrow_columns, arrow_rows),
}
