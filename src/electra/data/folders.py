"""How folders of text and data are walked; people link folders together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path


def folders_below(
    root: Path,
    deepest: int | None = None,
    fail: Callable[[OSError], None] | None = None,
    enter: Callable[[Path], bool] = lambda folder: True,
) -> Iterator[Path]:
    """`root` and the folders below it, a folder before what is in it, in order of their names.

    Linked folders are entered too, except through a link back up, which would never end. Hidden folders are
    left out, and so is what lies more than `deepest` levels down. A folder that cannot be read is left out
    too, and `fail` hears of it. `enter` tells of each folder below `root` whether it is looked into.
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
