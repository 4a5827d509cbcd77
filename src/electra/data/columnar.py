"""Reads rows of columnar files (parquet, Arrow streams and files, feather) with pyarrow; writes parquet.

A repeated value is stored once, so a few kilobytes can expand to gigabytes. Repeated values therefore stay
dictionaries until their row is read, and each row is charged to a `SizeBudget` before the next. Class indices
are replaced by the class names in the metadata of `datasets`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

from electra.data.lines import SizeBudget, expansion_error
from electra.foundation.errors import DataError, reason_of
from electra.foundation.machine import library

# A column chunk is decompressed whole: to at most this many bytes, or this many times its size.
EXPANDED_BYTES, EXPANDED_RATIO = 1 << 28, 1000
BATCH_ROWS = 256

RowsReader = Callable[[SizeBudget, list[str] | None], Iterator[dict[str, Any]]]
"""Yields the rows, with all columns or those that are listed, and charges them to the budget."""


def open_parquet(path: Path, name: str) -> tuple[tuple[str, ...], RowsReader]:
    """Returns the columns of a parquet file, and a reader of its rows; `name` names the file in messages.

    Raises:
        DataError: the file cannot be read, a chunk expands too far, or two columns have the same name.
    """
    pyarrow = _library(name)
    with _errors(pyarrow, "parquet", name):
        file = pyarrow.parquet.ParquetFile(path)
        metadata = file.metadata
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            for chunk in map(group.column, range(metadata.num_columns)):
                size, packed = chunk.total_uncompressed_size, chunk.total_compressed_size
                if size > EXPANDED_BYTES and size > EXPANDED_RATIO * max(1, packed):
                    part = f"column {chunk.path_in_schema!r}"
                    raise expansion_error(f"{packed} bytes of {part} expand to {size >> 20} MiB", name)
        leaves = [file.schema.column(index).path for index in range(len(file.schema))]
        file = pyarrow.parquet.ParquetFile(path, read_dictionary=leaves)

    def rows(budget: SizeBudget, only: list[str] | None) -> Iterator[dict[str, Any]]:
        with _errors(pyarrow, "parquet", name):
            yield from _rows(
                pyarrow, file.iter_batches(BATCH_ROWS, columns=only), file.schema_arrow, budget, only
            )

    return _distinct(file.schema_arrow.names, name), rows


def open_arrow(path: Path, name: str) -> tuple[tuple[str, ...], RowsReader]:
    """Returns the columns of an Arrow stream or file (such as feather), and a reader, as `open_parquet`."""
    pyarrow = _library(name)

    @contextmanager
    def reader() -> Iterator[Any]:
        with _errors(pyarrow, "Arrow", name), pyarrow.memory_map(str(path)) as source:
            is_file = source.read(6) == b"ARROW1"
            source.seek(0)
            yield (pyarrow.ipc.open_file if is_file else pyarrow.ipc.open_stream)(source)

    def rows(budget: SizeBudget, only: list[str] | None) -> Iterator[dict[str, Any]]:
        with reader() as file:
            count = getattr(file, "num_record_batches", None)
            batches = file if count is None else map(file.get_batch, range(count))
            yield from _rows(pyarrow, batches, file.schema, budget, only)

    with reader() as file:
        return _distinct(file.schema.names, name), rows


READERS = {"parquet": open_parquet, "arrow": open_arrow}


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
            vector = pyarrow.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
            table = table.append_column("vector", vector)
        pyarrow.parquet.write_table(table, target)
    except (pyarrow.ArrowException, OverflowError) as error:
        problem = f"the columns cannot be written as parquet ({reason_of(error)})"
        raise DataError(problem, where=name, fix="Write jsonl instead") from None


def _rows(
    pyarrow: Any, batches: Any, schema: Any, budget: SizeBudget, only: list[str] | None
) -> Iterator[dict[str, Any]]:
    names, classes = only or schema.names, _classes_in(schema.metadata)

    def value_of(scalar: Any) -> Any:
        if isinstance(scalar, pyarrow.ListScalar) and scalar.is_valid:  # its items may repeat a long value
            return list(map(value_of, scalar.values))
        return plain(scalar.as_py())

    def plain(value: Any) -> Any:
        """Charges a value to the budget, and returns it with UTF-8 as text."""
        if isinstance(value, dict):
            return {name: plain(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return list(map(plain, value))
        budget.spend(len(value) if isinstance(value, str | bytes) else 1)
        try:
            return value.decode() if isinstance(value, bytes) else value
        except UnicodeDecodeError:
            return value

    for batch in batches:
        columns = [batch.column(name) for name in names]
        for scalars in zip(*columns, strict=True):
            row = {name: value_of(scalar) for name, scalar in zip(names, scalars, strict=True)}
            yield with_class_names(row, classes) if classes else row


def _distinct(names: Sequence[str], name: str) -> tuple[str, ...]:
    if repeated := [column for column in names if names.count(column) > 1]:
        raise DataError(f"two columns have the name {repeated[0]!r}", where=name, fix="Rename one")
    return tuple(names)


def with_class_names(row: Mapping[str, Any], classes: Mapping[str, list[str]]) -> dict[str, Any]:
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


def _classes_in(metadata: Mapping[bytes, bytes] | None) -> dict[str, list[str]]:
    """Returns the class names of each column that has them, from the metadata of `datasets`."""
    try:
        return class_names(json.loads((metadata or {})[b"huggingface"])["info"]["features"])
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
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


def _library(name: str) -> Any:
    library("pyarrow.ipc", "data", "parquet and Arrow files", DataError, where=name)
    return library("pyarrow.parquet", "data", "parquet and Arrow files", DataError, where=name)


@contextmanager
def _errors(pyarrow: Any, kind: str, name: str) -> Iterator[None]:
    """Turns pyarrow's errors into one line."""
    try:
        yield
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"not a readable {kind} file ({reason_of(error)})", where=name) from None
