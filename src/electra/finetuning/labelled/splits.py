"""The train, dev and test files of a folder, found by name; and examples chosen by the hash of their texts,
so that a choice depends neither on the order of a file nor on a seed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from pathlib import Path

from electra.data.rows import TABLES, is_saved_dataset, parts_pattern, split_name
from electra.finetuning.labelled.examples import Example, Examples
from electra.foundation.errors import DataError

SPLIT_NAMES = {
    "train": ("train", "training"),
    "dev": ("dev", "valid", "validation", "val", "eval"),
    "test": ("test",),
}
DEV_SHARE = 0.1  # of the training data, when there is no dev file


def find_split(
    folder: Path, split: str, preferred: Sequence[str] = (), formats: Sequence[str] = TABLES
) -> Path | None:
    """The file of a split, by name and ending: `train.tsv`, `train-10k.jsonl.gz`, `mine.valid.csv`; or None.

    A whole name beats a first word, which beats a later word; two equally good ones are an error.
    """
    names = [*preferred, *SPLIT_NAMES[split]]
    ranked: dict[int, list[Path]] = {}
    for path in _entries(folder):
        stem, ending = split_name(path)
        words = stem.replace("-", ".").replace("_", ".").split(".")
        if ending in formats and (stem in names or set(words) & set(names)):
            rank = names.index(stem) if stem in names else len(names) + (words[0] not in names)
            ranked.setdefault(rank, []).append(path)
    best = ranked[min(ranked)] if ranked else []
    if len(best) > 1:
        listed, option = ", ".join(path.name for path in best), "data" if split == "train" else split
        raise DataError(
            f"more than one {split} file ({listed})", where=folder, fix=f"Name one: --{option} FILE"
        )
    return best[0] if best else None


def find_named(folder: Path, names: Sequence[str], formats: Sequence[str] = TABLES) -> list[Path]:
    """The files with exactly these names, whatever their endings."""
    found = {split_name(path): path for path in _entries(folder)}
    return [path for (stem, ending), path in found.items() if stem in names and ending in formats]


def _entries(folder: Path) -> list[Path]:
    """What in a folder may be the file of a split: parts count as one, and so does a folder that `datasets`
    saved. Where the folder has none but a folder `data` (as on the hub), what is in that.
    """
    found = sorted(folder.iterdir())
    kept = {parts_pattern(path): None for path in found if path.is_file()} | {
        path: None for path in found if is_saved_dataset(path)
    }
    inner = folder / "data"
    tables = [path for path in kept if split_name(path)[1] in TABLES]
    return [*kept, *([] if tables or not inner.is_dir() else _entries(inner))]


def hash_of(texts: Sequence[str]) -> float:
    """A number in [0, 1) that depends on the texts alone."""
    digest = hashlib.blake2b("\x1f".join(texts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") / 2**64


def split_by_hash(
    examples: Sequence[Example],
    side: Callable[[Example], Sequence[str]],
    where: Path | str,
    share: float = DEV_SHARE,
) -> tuple[Examples, Examples]:
    """(train, dev): the examples whose `side` has the smallest hashes are dev; equal ones stay together."""
    hashes = [hash_of(side(example)) for example in examples]
    cut = sorted(hashes)[math.ceil(len(hashes) * share) - 1]
    dev = tuple(example for example, value in zip(examples, hashes, strict=True) if value <= cut)
    train = tuple(example for example, value in zip(examples, hashes, strict=True) if value > cut)
    if not train:
        raise DataError("too few examples to hold some out as a dev set", where=where, fix="Pass `dev` FILE")
    return train, dev


def limit_by_hash(examples: Sequence[Example], limit: int) -> Examples:
    """`limit` examples, in the file's order."""
    order = sorted(range(len(examples)), key=lambda i: (hash_of(examples[i].texts), str(examples[i].gold), i))
    return tuple(examples[i] for i in sorted(order[:limit]))
