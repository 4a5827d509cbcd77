"""What a table is read from: a file, the parts of one, a folder that `datasets` saved, or data in memory."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from electra.data.tables.lines import COMPRESSIONS
from electra.foundation import durable
from electra.foundation.errors import DataError

FORMATS = {
    **{".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json"},
    **{".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow", ".tab": "tsv"},
}
TABLES = tuple(FORMATS)
ADVICE = {  # on files that are not read, by their extensions
    ".xls .xlsx .ods": "Save it as csv",
    ".zip .tar .tgz .7z .rar": "Unpack it, and pass the file or folder",
    ".ann": "Pass the text beside it, a .txt file",
    ".pubtator .md": "End its name in .txt",
    ".htm .html .xml .pdf .doc .docx .odt .epub .warc": "Extract its text into .txt or .jsonl files first",
}
_PART = re.compile(r"(.*)-(\d{5}|\*)-of-(\d{5})(\..*)?")


@dataclass(frozen=True)
class Given:
    """Data that is not in a file: rows from Python, or bytes from standard input or the command line."""

    name: str  # for messages, such as "standard input"
    content: bytes = b""
    extension: str = ".jsonl"  # of a file with this content
    rows: Sequence[Mapping[str, Any]] | None = None  # read instead of `content`
    stream: IO[bytes] | None = None  # the same, once

    def __str__(self) -> str:
        return self.name


Data = Path | Given


def is_saved_dataset(folder: Path) -> bool:
    """Whether the folder is a data set saved by `datasets`."""
    return (folder / "state.json").is_file()


def saved_splits(folder: Path) -> dict[str, Path]:
    """Returns the folders of the splits of a saved data set, by name; {} for any other folder."""
    if not (folder / "dataset_dict.json").is_file():
        return {}
    return {split.name: split for split in sorted(folder.iterdir()) if is_saved_dataset(split)}


def parts_of(path: Path) -> list[Path]:
    """Returns the files or saved folders that match a path or pattern; there may be none for a pattern.

    Any other path is returned, be it there or not. Raises DataError if a pattern matches only some parts.
    """
    if path.exists() or not any(character in path.name for character in "*?["):
        return [path]
    parts = sorted(path.parent.glob(path.name))
    part = _PART.fullmatch(path.name)
    if part and part[2] == "*" and len(parts) != int(part[3]):
        fix = "Get the others, or pass one of them by its name"
        raise DataError(f"only {len(parts)} of {int(part[3])} parts exist", where=path, fix=fix)
    return parts


def files_of(path: Path) -> list[Path]:
    """Returns the files of a path: itself, its parts or a saved data set's; DataError if any is missing."""
    return [file for part in parts_of(path) for file in (_saved_files(part) if part.is_dir() else [part])]


def _saved_files(folder: Path) -> list[Path]:
    folders = [folder] if is_saved_dataset(folder) else list(saved_splits(folder).values())
    if not folders:
        fix = "Pass a file, or a folder that save_to_disk wrote"
        raise DataError("a folder, not a file", where=folder, fix=fix)
    return [file for each in folders for file in sorted(each.glob("*.arrow"))]


def data_digest(source: Data) -> str:
    """Returns the SHA-256 of data, or of the joined digests of several files that are read as one."""
    if isinstance(source, Given):
        return hashlib.sha256(source.content).hexdigest()
    files = files_of(source)
    if files == [source]:
        return durable.sha256(source)
    return hashlib.sha256("".join(map(durable.sha256, files)).encode()).hexdigest()


def parts_pattern(path: Path) -> Path:
    """Returns the pattern of all parts if a file is one of several (a-00000-of-00002.csv), else its path."""
    part = _PART.fullmatch(path.name)
    if part is None or part[3] == "00001":
        return path
    return path.with_name(f"{part[1]}-*-of-{part[3]}{part[4] or ''}")


def split_name(path: Path) -> tuple[str, str]:
    """Splits a file name into stem and extension: "train-10k.jsonl.gz" -> ("train-10k", ".jsonl").

    All parts of a table share one stem. The stem of a folder that `datasets` saved is its name.
    """
    if is_saved_dataset(path):
        return path.name.lower(), ".arrow"
    name = path.name.lower()
    for extension in COMPRESSIONS:
        name = name.removesuffix(extension)
    if part := _PART.fullmatch(name):
        name = part[1] + (part[4] or "")
    return Path(name).stem, Path(name).suffix


def extension_of(source: Data) -> str:
    """Returns the extension of data, without that of a compression."""
    return source.extension if isinstance(source, Given) else split_name(source)[1]


def known_extension(source: Data, formats: Sequence[str]) -> str:
    """Returns the extension of data. Raises DataError if it is not one of `formats`."""
    extension = extension_of(source)
    if extension not in formats:
        raise unknown_extension(Path(str(source)), formats)
    return extension


def unknown_extension(path: Path, formats: Sequence[str]) -> DataError:
    """Returns the error for a file whose extension is none of `formats`."""
    suffix = split_name(path)[1]
    fix = next((advice for known, advice in ADVICE.items() if suffix and suffix in known.split()), "")
    fix = fix or f"Use {', '.join(formats)}, each also {', '.join(COMPRESSIONS)}"
    return DataError("unrecognised file extension", where=path, fix=fix)
