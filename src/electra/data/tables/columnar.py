"""Reads rows of columnar files (parquet, Arrow streams and files, feather) with pyarrow.

Class indices are replaced by the class names in the metadata of `datasets`, and columns of Arrow's JSON type
(`datasets` 5 and DuckDB write them) by what their JSON says.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from electra.data.tables.lines import COMPRESSIONS, expansion_error
from electra.foundation.errors import DataError, translated
from electra.foundation.machine import library

# A column chunk is decompressed whole: to at most this many bytes, or this many times its size.
EXPANDED_BYTES, EXPANDED_RATIO = 1 << 28, 1000
MAX_VALUES = 1 << 21  # of a column, plus two for each byte of the file: nulls and repetitions take no bytes
BATCH_ROWS = 16


def open_columnar(path: Path, kind: str, name: str, only: str = "") -> tuple[tuple[str, ...], Iterator[dict[str, Any]]]:
    """Returns the columns of a file, and its rows: of all columns, or of `only` one, possibly nested (a.b).

    `kind` is "parquet" or "arrow" (a stream, or a file such as feather). Raises DataError, with `name`, if
    the file cannot be read, a chunk expands too far, or two columns have the same name.
    """
    if path.suffix.lower() in COMPRESSIONS:
        raise DataError(f"a compressed {kind} file", where=name, fix="Unpack it: it is compressed inside")
    for part in ("pyarrow.ipc", "pyarrow.parquet"):
        pyarrow = library(part, "data", "parquet and Arrow files", DataError, where=name)
    kinds = (pyarrow.ArrowException, OSError, ValueError, RecursionError)
    explained = partial(translated, DataError, f"not a readable {kind} file", kinds, where=name)
    with explained():
        if kind == "parquet":
            file = pyarrow.parquet.ParquetFile(path)
            _refuse_bombs(file.metadata, path.stat().st_size, name)
            schema = file.schema_arrow
        else:
            with open(path, "rb") as beginning:
                is_stream = beginning.read(6) != b"ARROW1"
            open_file = pyarrow.ipc.open_stream if is_stream else pyarrow.ipc.open_file
            file = open_file(pyarrow.memory_map(str(path)))
            schema = file.schema
    names = schema.names
    if repeated := [column for column in names if names.count(column) > 1]:
        raise DataError(f"two columns have the name {repeated[0]!r}", where=name, fix="Rename one")
    wanted = [column for column in names if column in (only, only.partition(".")[0])] or names
    classes, size = _classes_in(schema.metadata), path.stat().st_size
    with_json = [each for each in map(schema.field, wanted) if _has_json(each)]

    def rows() -> Iterator[dict[str, Any]]:
        with explained():
            if kind == "parquet":
                batches = file.iter_batches(BATCH_ROWS, columns=wanted)
            elif is_stream:
                batches = file
            else:
                batches = map(file.get_batch, range(file.num_record_batches))
            count = dict.fromkeys(wanted, 0)
            for batch in batches:
                for column in wanted:
                    count[column] += _num_values(batch.column(column))
                    _refuse_values(count[column], size, column, name)
                for start in range(0, len(batch), BATCH_ROWS):
                    for row in batch.slice(start, BATCH_ROWS).select(wanted).to_pylist():
                        decoded = {each.name: _decoded(row[each.name], each) for each in with_json}
                        yield with_class_names(plain({**row, **decoded}), classes)

    return tuple(names), rows()


def _decoded(value: Any, field: Any) -> Any:
    """Returns a value of a column with what its JSON says, at any depth."""
    if value is None or not _has_json(field):
        return value
    if isinstance(value, dict):
        return {each.name: _decoded(value[each.name], each) for each in field.type}
    if isinstance(value, list) and hasattr(field.type, "value_field"):
        return [_decoded(each, field.type.value_field) for each in value]
    if isinstance(value, list):  # a map
        return [(key, _decoded(each, field.type.item_field)) for key, each in value]
    return json.loads(value)


def _has_json(field: Any) -> bool:
    return "arrow.json" in f"{field.type}{field.metadata}"


def _refuse_values(count: int, size: int, column: str, name: str) -> None:
    if count > MAX_VALUES + 2 * size:
        raise expansion_error(f"{size:,} bytes hold {count:,} values of column {column!r}", name)


def _num_values(column: Any) -> int:
    is_nested = hasattr(column, "flatten") and not hasattr(column.type, "key_field")  # no map
    inner = column.flatten() if is_nested else []
    return max([len(column), *map(_num_values, inner if isinstance(inner, list) else [inner])])


def _refuse_bombs(metadata: Any, file_size: int, name: str) -> None:
    counts: Counter[str] = Counter()
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(metadata.num_columns)):
            counts[chunk.path_in_schema] += chunk.num_values
            _refuse_values(counts[chunk.path_in_schema], file_size, chunk.path_in_schema, name)
            size, packed = chunk.total_uncompressed_size, chunk.total_compressed_size
            if size > EXPANDED_BYTES and size > EXPANDED_RATIO * max(1, packed):
                part = f"column {chunk.path_in_schema!r}"
                raise expansion_error(f"{packed} bytes of {part} expand to {size >> 20} MiB", name)


def plain(value: Any) -> Any:
    """Returns a value as JSON would hold it: without the types of numpy and pandas, and UTF-8 as text."""
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return list(map(plain, value))
    if type(value).__name__ in {"NAType", "NaTType"}:  # of pandas
        return None
    if isinstance(value, bytes):
        with suppress(UnicodeDecodeError):
            return value.decode()
        return value  # not text, which is for the caller to say
    return plain(value.tolist()) if hasattr(value, "tolist") else str(value)


def with_class_names(row: Mapping[str, Any], classes: Mapping[str, list[str]]) -> dict[str, Any]:
    """Returns a row with class indices replaced by names, for the columns in `classes` (names by column).

    A negative index (no label) becomes None. Raises DataError for one beyond the names.
    """
    named = {column: _class_name(names, row[column]) for column, names in classes.items() if column in row}
    return {**row, **named}


def _class_name(names: list[str], value: Any) -> Any:
    if isinstance(value, list):
        return [_class_name(names, item) for item in value]
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    if value < len(names):
        return names[value] if value >= 0 else None  # -1: no label
    listed = ", ".join(names[:5])
    raise DataError(f"class {value}, but the data names only {len(names)} ({listed}, from 0)")


def _classes_in(metadata: Mapping[bytes, bytes] | None) -> dict[str, list[str]]:
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
