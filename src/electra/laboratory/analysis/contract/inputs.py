"""The data that a probe needs: files found by name below the folders passed with --data."""

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
    """Data that a probe needs are missing or cannot be used."""


@dataclass(frozen=True)
class Input:
    """Data that a probe looks for under --data.

    Files named there take precedence over folders. The first of the `patterns` that matches any file is used,
    with all its matches; links to a file and compressed copies of it are left out.
    """

    key: str
    what: str
    """Name of the data, for the message if they are missing."""
    patterns: tuple[str, ...]
    """Globs: "ged/fce*/dev.tsv*" anywhere below a folder, "./dev.tsv*" directly in it."""
    required: bool = True

    def find(self, roots: Sequence[Path]) -> list[Path]:
        """Returns the matching files below these roots; [] if there are none."""
        named_files = [root for root in roots if root.is_file()]
        for places in (named_files, [root for root in roots if root not in named_files]):
            for pattern in self.patterns:
                if matches := _distinct([path for root in places for path in _matches(root, pattern)]):
                    return matches
        return []


def _matches(root: Path, pattern: str) -> list[Path]:
    if root.is_file():  # named by the user, so its own name decides
        return [root] if PurePath(root.name).match(PurePath(pattern).name) else []
    folders = [root] if pattern.startswith("./") else walk_folders(root)
    paths = (folder / name for folder in folders for name in sorted(glob.glob(pattern, root_dir=folder)))
    return sorted(
        path for path in paths if path.is_file() and _matches_compressed(path.name, PurePath(pattern).name)
    )


def _matches_compressed(name: str, pattern: str) -> bool:
    """Whether a file that a pattern found matches: a trailing * stands for .gz and the like, not for .bak."""
    name_without_compression = (
        name.removesuffix(PurePath(name).suffix) if PurePath(name).suffix in COMPRESSIONS else name
    )
    return not pattern.endswith("*") or fnmatch.fnmatch(name_without_compression, pattern[:-1])


def _distinct(paths: Sequence[Path]) -> list[Path]:
    """Returns each file once, leaving out links to it and compressed copies of it."""
    by_name: dict[Path, Path] = {}
    for path in sorted(paths, key=lambda path: path.suffix in COMPRESSIONS):
        target = path.resolve()
        by_name.setdefault(target.with_suffix("") if target.suffix in COMPRESSIONS else target, path)
    return sorted(by_name.values())
