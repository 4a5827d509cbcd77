"""The data that a probe looks for: files found by name below the folders given with --data."""

from __future__ import annotations

import fnmatch
import glob
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from electra.data.folders import walk_folders
from electra.data.lines import COMPRESSIONS
from electra.foundation.errors import DataError

Data = Mapping[str, Sequence[Path]]
"""The files found for each input's key. The key of an optional input that was not found is absent."""


class ProbeDataError(DataError):
    """Data that a probe needs and does not find, or cannot use."""


@dataclass(frozen=True)
class Input:
    """Data that a probe looks for under --data. A file that is itself named there comes before folders; then
    of the `patterns` the first that matches any file counts, and all its matches: each once, however many
    ways lead to it and whether or not it is compressed.
    """

    key: str
    what: str  # in words, for who has to provide it
    patterns: tuple[str, ...]  # globs: "ged/fce*/dev.tsv*" anywhere below a folder, "./dev.tsv*" right in it
    required: bool = True

    def find(self, roots: Sequence[Path]) -> list[Path]:
        named = [root for root in roots if root.is_file()]
        for among in (named, [root for root in roots if root not in named]):
            for pattern in self.patterns:
                if found := _once([path for root in among for path in _matches(root, pattern)]):
                    return found
        return []


def _matches(root: Path, pattern: str) -> list[Path]:
    if root.is_file():  # the user names the file: its own name decides
        return [root] if PurePath(root.name).match(PurePath(pattern).name) else []
    folders = [root] if pattern.startswith("./") else walk_folders(root)
    found = (folder / name for folder in folders for name in sorted(glob.glob(pattern, root_dir=folder)))
    return sorted(path for path in found if path.is_file() and _ends_as(path.name, PurePath(pattern).name))


def _ends_as(name: str, pattern: str) -> bool:
    """Whether a pattern's last * stands for a compression: "dev.conllu*" is dev.conllu.gz, no backup."""
    plain = name.removesuffix(PurePath(name).suffix) if PurePath(name).suffix in COMPRESSIONS else name
    return not pattern.endswith("*") or fnmatch.fnmatch(plain, pattern[:-1])


def _once(paths: Sequence[Path]) -> list[Path]:
    """Without a file's further names: other roots, links, a compressed copy beside it."""
    by_name: dict[Path, Path] = {}
    for path in sorted(paths, key=lambda path: path.suffix in COMPRESSIONS):
        real = path.resolve()
        by_name.setdefault(real.with_suffix("") if real.suffix in COMPRESSIONS else real, path)
    return sorted(by_name.values())
