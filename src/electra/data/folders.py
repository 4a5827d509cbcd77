"""Walks folders of text and data, in which links may lead to other folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path


def walk_folders(
    root: Path,
    depth: int | None = None,
    fail: Callable[[OSError], None] | None = None,
    enter: Callable[[Path], bool] = lambda folder: True,
) -> Iterator[Path]:
    """Yields `root` and the folders below it, parents first, sorted by name.

    Links are followed, except those to an enclosing folder, which never end. Hidden folders are left out.

    Args:
        root: where to begin.
        depth: how many levels below `root` to enter (None: all).
        fail: called with the error of a folder that cannot be read; the folder is left out in
            any case.
        enter: returns whether to enter a folder below `root`.
    """
    yield from _below(root, (), depth, fail, enter)


def _below(
    folder: Path,
    ancestors: tuple[str, ...],
    depth: int | None,
    fail: Callable[[OSError], None] | None,
    enter: Callable[[Path], bool],
) -> Iterator[Path]:
    real_path = os.path.realpath(folder)
    if real_path in ancestors:
        return
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        if fail is not None:
            fail(error)
        return
    yield folder
    if len(ancestors) == depth:
        return
    for name in names:
        if name.startswith(".") or not os.path.isdir(folder / name):  # Path.is_dir fails at a link to itself
            continue
        if enter(folder / name):
            yield from _below(folder / name, (*ancestors, real_path), depth, fail, enter)
