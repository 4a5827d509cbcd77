"""Walks folders of text and data, in which links may lead to other folders."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from electra.foundation.errors import ElectraError


def walk_folders(
    root: Path,
    depth: int | None = None,
    error: type[ElectraError] | None = None,
    enter: Callable[[Path], bool] = lambda folder: True,
) -> Iterator[Path]:
    """Yields `root` and the folders below it, parents first, sorted by name, `depth` levels down (None: all).

    Links are followed, except those to an enclosing folder, which never end. Hidden folders are left out, and
    those that `enter` declines. Raises `error` for a folder that cannot be read (None: it is left out).
    """

    def fail(problem: OSError) -> None:
        if error is not None:
            raise error(f"cannot be read ({problem.strerror})", where=problem.filename)

    enclosing = {str(root): {os.path.realpath(root)}}  # folder -> the real paths of it and those around it
    for name, below, _ in os.walk(root, onerror=fail, followlinks=True):
        yield Path(name)
        around = enclosing.pop(name)
        below[:] = sorted(each for each in below if not each.startswith("."))
        if depth is not None and len(Path(name).relative_to(root).parts) >= depth:
            below.clear()
        for each in list(below):
            path = os.path.join(name, each)
            real = os.path.realpath(path)
            if not os.access(path, os.R_OK | os.X_OK):
                fail(PermissionError(errno.EACCES, os.strerror(errno.EACCES), path))
            if real in around or not enter(Path(path)):
                below.remove(each)
            else:
                enclosing[path] = around | {real}
