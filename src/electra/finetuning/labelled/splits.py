"""Finds the train, dev and test files of a folder by name, and chooses examples by the hash of their texts.

A choice by hash depends neither on the order of a file nor on a seed.
"""

import hashlib
import math
import os
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from electra.data.tables.table_files import TABLES, is_saved_dataset, parts_pattern, split_name
from electra.finetuning.labelled.examples import Example, Examples
from electra.foundation.errors import DataError

SPLIT_NAMES = {
    "train": ("train", "training"),
    "dev": ("dev", "devel", "development", "valid", "validation", "val", "eval", "testa"),
    "test": ("test", "testing", "testb"),
}
DEV_SHARE = 0.1  # the fraction of the training data to hold out if there is no dev file


def find_split(folder: Path, split: str, preferred: Sequence[str] = (), formats: Sequence[str] = TABLES) -> Path | None:
    """Returns the file of a split, such as `train.tsv` or `mine.valid.csv`; None if there is none.

    A file whose whole name (without its ending) matches is preferred to one whose first word matches, and
    that to one in which another word matches. A file with the names of two splits (train_dev) may hold both:
    it is found only as train, and only if no other file is. `preferred` names rank before SPLIT_NAMES. Raises
    DataError if several files match equally well.
    """
    names = [*preferred, *SPLIT_NAMES[split]]
    other_names = {name for other in SPLIT_NAMES if other != split for name in SPLIT_NAMES[other]}
    paths_by_rank: dict[int, list[Path]] = {}
    for path in _entries(folder):
        stem, ending = split_name(path)
        words = re.split(r"[-_.+ ]", stem)
        is_whole, is_both = stem in names, stem not in names and bool(set(words) & other_names)
        if ending not in formats or not (is_whole or set(words) & set(names)) or (is_both and split != "train"):
            continue
        rank = names.index(stem) if is_whole else len(names) + (words[0] not in names) + 2 * is_both
        paths_by_rank.setdefault(rank, []).append(path)
    best_paths = paths_by_rank[min(paths_by_rank)] if paths_by_rank else []
    for path in best_paths:
        if path.is_symlink() and not path.exists():
            fix = "Restore what it points to, or delete the link"
            raise DataError(f"a link that leads nowhere ({os.readlink(path)})", where=path, fix=fix)
        if path.is_dir() and not is_saved_dataset(path):
            raise DataError("a folder, not a file", where=path, fix="Replace it with the file, or rename it")
    if len(best_paths) > 1:
        option = "data" if split == "train" else split
        problem = f"more than one {split} file ({', '.join(path.name for path in best_paths)})"
        raise DataError(problem, where=folder, fix=f"Pass one of them as `{option}`")
    return best_paths[0] if best_paths else None


def other_files(folder: Path, known: Collection[object], formats: Sequence[str] = TABLES) -> list[str]:
    """Returns the names of the files in a folder that could be splits and are not among the known ones."""
    return [path.name for path in _entries(folder) if split_name(path)[1] in formats and path not in known]


def find_named(folder: Path, names: Sequence[str], formats: Sequence[str] = TABLES) -> list[Path]:
    """Returns the files whose name is exactly one of these names plus one of these endings."""
    entries = {split_name(path): path for path in _entries(folder)}
    return [path for (stem, ending), path in entries.items() if stem in names and ending in formats]


def _entries(folder: Path) -> list[Path]:
    """Returns the files, file patterns and saved data sets in a folder that may be splits.

    The parts of a sharded file are one entry (a pattern), and so is a folder saved by `datasets`. If there
    are no tables, a subfolder `data` (the layout of the Hugging Face hub) is searched as well.
    """
    paths = sorted(folder.iterdir())
    entries = dict.fromkeys(parts_pattern(path) for path in paths if path.is_file())
    entries |= dict.fromkeys(path for path in paths if is_saved_dataset(path))
    # Links that lead nowhere, and folders with the name of a file.
    others = [path for path in paths if not path.is_file() and (path.is_symlink() or path.is_dir())]
    entries |= dict.fromkeys(path for path in others if path not in entries)
    data_folder = folder / "data"
    tables = [path for path in entries if split_name(path)[1] in TABLES]
    return [*entries, *([] if tables or not data_folder.is_dir() else _entries(data_folder))]


def text_hash(texts: Sequence[str]) -> float:
    """Returns a hash of the texts, a number uniformly distributed in [0, 1)."""
    digest = hashlib.blake2b("\x1f".join(texts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") / 2**64


def split_by_hash(
    examples: Sequence[Example], hashed_texts: Callable[[Example], Sequence[str]], where: Path | str
) -> tuple[Examples, Examples]:
    """Splits examples into train and dev, the fraction DEV_SHARE with the smallest hashes of their texts.

    Examples with equal texts stay together. Raises DataError if no training example would be left.
    """
    hashes = [text_hash(hashed_texts(example)) for example in examples]
    threshold = sorted(hashes)[math.ceil(len(hashes) * DEV_SHARE) - 1]
    dev = tuple(example for example, value in zip(examples, hashes, strict=True) if value <= threshold)
    train = tuple(example for example, value in zip(examples, hashes, strict=True) if value > threshold)
    if not train:
        problem = "too few examples to hold out a dev set"
        raise DataError(problem, where=where, fix="Pass a dev file as `dev`")
    return train, dev


def limit_by_hash(examples: Sequence[Example], limit: int) -> Examples:
    """Returns the `limit` examples with the smallest hashes, in the file's order; all if there are fewer."""
    keys = [(text_hash(each.texts), str(each.gold), i) for i, each in enumerate(examples)]
    order = [i for _, _, i in sorted(keys)]
    return tuple(examples[i] for i in sorted(order[:limit]))
