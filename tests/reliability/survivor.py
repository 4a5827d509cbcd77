"""A volume whose power is cut: what survives is what was fsynced.

POSIX promises no more: the bytes of a file as they were when it was last fsynced, and the names in a folder
as they were when that was. Only `os.fsync` is watched, so it does not matter which library wrote.
"""

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

HIDDEN = re.compile(r"/(\.|made/)")  # of work that is not committed yet
Cut = dict[str, bytes | None]  # by path; None: a folder


class Volume:
    """Everything below `root`, which is there from the beginning."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root, self.cuts = root, list[Cut]([{}])
        self._files: dict[int, bytes] = {}
        self._folders: dict[int, dict[str, tuple[int, bool]]] = {}
        self._held: list[int] = []  # open, so that no number of an inode is used again
        self._fsync: Callable[[int], None] = os.fsync
        self._device = root.stat().st_dev
        self.sync(root)
        patch.setattr(os, "fsync", self.fsync)

    def sync(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        self._note(descriptor)
        os.close(descriptor)

    def fsync(self, descriptor: int) -> None:
        self._note(descriptor)
        cut = self.survives()
        if cut.keys() != self.cuts[-1].keys() or any(cut[name] is not self.cuts[-1][name] for name in cut):
            self.cuts.append(cut)

    def _note(self, descriptor: int) -> None:
        found = os.fstat(descriptor)
        if found.st_dev != self._device:
            return
        if stat.S_ISDIR(found.st_mode):
            with os.scandir(f"/proc/self/fd/{descriptor}") as entries:
                self._folders[found.st_ino] = {
                    entry.name: (entry.inode(), entry.is_dir(follow_symlinks=False)) for entry in entries
                }
        else:
            self._files[found.st_ino] = Path(f"/proc/self/fd/{descriptor}").read_bytes()
        self._held.append(os.dup(descriptor))

    def survives(self) -> Cut:
        made: Cut = {}

        def walk(inode: int, path: str) -> None:
            for name, (child, is_folder) in self._folders.get(inode, {}).items():
                made[f"{path}{name}"] = None if is_folder else self._files.get(child, b"")
                if is_folder:
                    walk(child, f"{path}{name}/")

        walk(self.root.stat().st_ino, "")
        return made

    def close(self) -> None:
        for descriptor in self._held:
            os.close(descriptor)


def whole(cut: Cut) -> list[str]:
    """The folders with a manifest; each must be what its manifest says."""
    found = [name for name in cut if name.endswith("/manifest.json") and not HIDDEN.search(name)]
    for name in found:
        folder = name.removesuffix("manifest.json")
        for file, entry in json.loads(cut[name] or b"")["files"].items():
            content = cut.get(folder + file)
            assert content is not None, f"{folder}{file} is lost"
            assert _digest(content) == entry["sha256"], f"{folder}{file} is damaged"
    return found


@cache
def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def restore(cut: Cut, root: Path) -> None:
    """The volume as it is found when the power is back."""
    for name, content in cut.items():
        if content is None:
            (root / name).mkdir()
        else:
            (root / name).write_bytes(content)
