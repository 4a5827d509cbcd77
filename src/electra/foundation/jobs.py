"""How another process of this package is started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_ROOT = str(Path(__file__).parents[2])
_RUN = (
    f"import sys; {_ROOT!r} in sys.path or sys.path.append({_ROOT!r}); import runpy;"
    " sys.argv.pop(0); runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)


def command(module: str, *arguments: str) -> list[str]:
    """Returns a command line that runs a module of this package in another process.

    Unlike `python -m`, it keeps the working directory out of the import path: a file there may have the name
    of a module that we import.
    """
    return [sys.executable, "-P", "-c", _RUN, module, *arguments]


def environment(**more: object) -> dict[str, str]:
    """Returns the environment for a process started with `command`: that of this process, and `more`.

    PYTHONPATH keeps only the entries that are in `sys.path`, made absolute, because an empty or relative
    entry depends on the working directory.
    """
    folders = map(os.path.abspath, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    path = {"PYTHONPATH": os.pathsep.join(folder for folder in folders if folder in sys.path)}
    return {**os.environ, **path, **{name: str(value) for name, value in more.items()}}
