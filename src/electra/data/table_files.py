"""Finds the files that hold a table: a single file, the parts of one, or a folder that `datasets` saved."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path

from electra.data.lines import COMPRESSIONS
from electra.foundation import durable
from electra.foundation.errors import DataError

FORMATS = {
    ".tsv": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".tab": "tsv",
}
ZIP = ".zip"
TABLES = (*FORMATS, ZIP)
SPREADSHEETS, SAVE_AS_CSV = ".xls .xlsx .ods", "Save it as csv"
SAVED, SAVED_SPLITS = "state.json", "dataset_dict.json"  # mark the folders that `datasets` saves
_PART = re.compile(r"(.*)-(\d{5})-of-(\d{5})(\..*)?")


def is_saved_dataset(folder: Path) -> bool:
    """Whether the folder is a data set saved by `datasets`."""
    return (folder / SAVED).is_file()


def saved_splits(folder: Path) -> dict[str, Path]:
    """Returns the folders of the splits of a saved data set, by name; {} for any other folder."""
    if not (folder / SAVED_SPLITS).is_file():
        return {}
    return {split.name: split for split in sorted(folder.iterdir()) if is_saved_dataset(split)}


def parts_of(path: Path) -> list[Path]:
    """Returns the files or saved folders that match a path or pattern; there may be none for a pattern.

    Any other path is returned whether it exists or not.

    Raises:
        DataError: a pattern matches only some of the parts that should exist.
    """
    if path.exists() or not any(character in path.name for character in "*?["):
        return [path]
    parts = sorted(path.parent.glob(path.name))
    declared = re.search(r"-\*-of-(\d{5})", path.name)
    if declared and len(parts) != int(declared[1]):
        fix = "Get the others, or pass one of them by its name"
        raise DataError(f"only {len(parts)} of {int(declared[1])} parts exist", where=path, fix=fix)
    return parts


def data_digest(path: Path) -> str:
    """Returns the SHA-256 of a file, or of the joined digests of several files that are read as one."""
    files = files_of(path)
    if files == [path]:
        return durable.sha256(path)
    return hashlib.sha256("".join(map(durable.sha256, files)).encode()).hexdigest()


def parts_pattern(path: Path) -> Path:
    """Returns the pattern of all parts if a file is one of several (a-00000-of-00002.csv), else its path."""
    part = _PART.fullmatch(path.name)
    if part and part[3] == "00001":
        return path
    return path.with_name(f"{part[1]}-*-of-{part[3]}{part[4] or ''}") if part else path


def split_name(path: Path) -> tuple[str, str]:
    """Splits a file name into stem and extension: "train-10k.jsonl.gz" -> ("train-10k", ".jsonl").

    All parts of a table share one stem. The stem of a folder that `datasets` saved is its name.
    """
    if is_saved_dataset(path):
        return path.name.lower(), ".arrow"
    name = path.name.lower()
    for extension in COMPRESSIONS:
        name = name.removesuffix(extension)
    if name.endswith(ZIP) and Path(name).with_suffix("").suffix in FORMATS:
        name = name.removesuffix(ZIP)
    if part := re.fullmatch(r"(.*)-(?:\d{5}|\*)-of-\d{5}(\..*)?", name):
        name = part[1] + (part[2] or "")
    return Path(name).stem, Path(name).suffix


def files_of(path: Path) -> list[Path]:
    """Returns the files that are read for a path: itself, its parts, or those of a saved data set.

    Raises DataError for any other folder, and if parts are missing.
    """
    files: list[Path] = []
    for part in parts_of(path):
        files += _saved_files(part) if part.is_dir() else [part]
    return files


def _saved_files(folder: Path) -> list[Path]:
    if splits := saved_splits(folder):
        return [file for split in splits.values() for file in _saved_files(split)]
    try:
        data_files = json.loads((folder / SAVED).read_bytes())["_data_files"]
        names = [str(entry["filename"]) for entry in data_files]
        if any(Path(name).name != name for name in names):
            raise ValueError("a file in another folder")
    except FileNotFoundError:
        fix = "Pass a file, or a folder that save_to_disk wrote"
        raise DataError("a folder, not a file", where=folder, fix=fix) from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"lists no data files ({error})", where=folder / SAVED) from None
    return [folder / name for name in names]


def known_extension(path: Path, formats: Sequence[str]) -> str:
    """Returns the file's extension. Raises DataError if it is not one of `formats`."""
    extension = split_name(path)[1]
    if extension not in formats:
        raise unknown_extension(path, formats)
    return extension


def unknown_extension(path: Path, formats: Sequence[str]) -> DataError:
    """Returns the error for a file whose extension is none of `formats`."""
    fix = f"Use {', '.join(formats)}, each also {', '.join(COMPRESSIONS)}"
    if path.suffix.lower() in SPREADSHEETS.split():
        fix = SAVE_AS_CSV
    return DataError("unrecognised file extension", where=path, fix=fix)
