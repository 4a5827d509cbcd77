"""Types of options that Python callers may pass in more forms than a command line can."""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from reprlib import repr as shortened
from typing import Annotated, Any, NamedTuple

from electra.foundation.config import convert
from electra.foundation.errors import ConfigError, ElectraError

STDIN = "-"  # the name of standard input where a file is expected
MAX_SHOWN_PATH = 200  # characters of a path in an error

Source = str | os.PathLike[str]  # a folder or a file, an artifact, or the name of a model on the hub


class OnCommandLine(NamedTuple):
    """Marks a field that takes more types in Python than on a command line; `kind` is the type there."""

    kind: Any
    repeated: bool = False  # whether each value repeats the option (--data a --data b) or all follow it


Sources = Annotated[Source | Sequence[Source], OnCommandLine(tuple[str, ...])]
Names = Annotated[str | Sequence[str], OnCommandLine(tuple[str, ...])]
RepeatedSources = Annotated[Source | Sequence[Source], OnCommandLine(tuple[str, ...], repeated=True)]
RepeatedNames = Annotated[str | Sequence[str], OnCommandLine(tuple[str, ...], repeated=True)]


def as_name(source: Source, key: str = "") -> str:
    """Returns a path (`~` expanded) or a name on the hub as a string; ConfigError for anything else."""
    if isinstance(source, str | os.PathLike) and isinstance(name := os.fspath(source), str):
        return os.path.expanduser(name)
    fix = "Pass a string, a Path, or the result of an electra function"
    raise ConfigError(f"{shortened(source)} is not a path", key=key, fix=fix)


def optional_name(source: Source | None, key: str = "") -> str | None:
    """Returns the result of `as_name`, or None for an option that was left out."""
    return None if source is None else as_name(source, key)


def as_names(source: Source | Sequence[Source], key: str = "") -> list[str]:
    """Returns the names of one source, or of a sequence of several, as a list; see `as_name`."""
    several = source if isinstance(source, Sequence) and not isinstance(source, str) else [source]
    return [as_name(each, key) for each in several]


def as_path(source: Source, key: str = "") -> Path:
    """Returns the result of `as_name` as a path."""
    return Path(as_name(source, key))


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Returns one value, or several, as a tuple; strings, bytes and paths are single values."""
    is_several = isinstance(value, Iterable) and not isinstance(value, str | bytes | os.PathLike)
    return tuple(value) if is_several else (value,)


def as_strings(value: str | Sequence[str], key: str) -> tuple[str, ...]:
    """Returns one string or several as a tuple. Raises ConfigError if the option `key` is neither."""
    strings: tuple[str, ...] = convert(tuple[str, ...], (value,) if isinstance(value, str) else value, key)
    return strings


def expand_path(name: str | Path, error: type[ElectraError]) -> Path:
    """Expands `~` in a path. Raises `error` if no file can have this path, or if access is denied."""
    try:
        path = Path(name).expanduser()
        with suppress(FileNotFoundError, NotADirectoryError):
            os.stat(path)
        return path
    except (OSError, RuntimeError, ValueError) as problem:  # too long, no permission; unknown user; a NUL
        reason = problem.strerror if isinstance(problem, OSError) else problem
        where = str(name) if len(str(name)) <= MAX_SHOWN_PATH else f"{str(name)[:MAX_SHOWN_PATH]}..."
        raise error(f"not a path that can be read ({reason})", where=where, fix="Check the path") from None


def checked_path(source: Source, key: str = "") -> Path:
    """Returns a path with `~` expanded. Raises ConfigError if the option `key` is none, or not accessible."""
    return expand_path(as_name(source, key), ConfigError)
