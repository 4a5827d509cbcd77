"""Walks folders of text and data, which may be linked together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path


def walk_folders(
    root: Path,
    deepest: int | None = None,
    fail: Callable[[OSError], None] | None = None,
    enter: Callable[[Path], bool] = lambda folder: True,
) -> Iterator[Path]:
    """Yields `root` and the folders below it, parents first, sorted by name.

    Links are followed, except to a folder above, which would never end. Hidden folders are left out.

    Args:
        root: where to begin.
        deepest: the most levels below `root` (None: all).
        fail: called with the error of a folder that cannot be read, which is then left out.
        enter: says whether to enter a folder below `root`.
    """
    yield from _below(root, (), deepest, fail, enter)


def _below(
    folder: Path,
    above: tuple[str, ...],
    deepest: int | None,
    fail: Callable[[OSError], None] | None,
    enter: Callable[[Path], bool],
) -> Iterator[Path]:
    real = os.path.realpath(folder)
    if real in above:
        return
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        if fail is not None:
            fail(error)
        return
    yield folder
    if len(above) == deepest:
        return
    for name in names:
        if name.startswith(".") or not os.path.isdir(folder / name):  # Path.is_dir fails at a link to itself
            continue
        if enter(folder / name):
            yield from _below(folder / name, (*above, real), deepest, fail, enter)
