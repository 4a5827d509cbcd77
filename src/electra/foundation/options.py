"""Types of options that Python may give in more ways than a command line can."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from reprlib import repr as shortened
from typing import Annotated, Any, NamedTuple

from electra.foundation.config import convert
from electra.foundation.errors import ConfigError

Source = str | os.PathLike[str]
"""A folder or a file, an artifact, or the name of a model on the hub."""


class OnCommandLine(NamedTuple):
    """Marks a field whose type in Python is wider than what can be typed: `kind` is the type there."""

    kind: Any
    repeated: bool = False
    """One value each time (--data a --data b) instead of several after one option (--sizes a b)."""


Sources = Annotated[Source | Sequence[Source], OnCommandLine(tuple[str, ...])]
Names = Annotated[str | Sequence[str], OnCommandLine(tuple[str, ...])]
RepeatedSources = Annotated[Source | Sequence[Source], OnCommandLine(tuple[str, ...], repeated=True)]
RepeatedNames = Annotated[str | Sequence[str], OnCommandLine(tuple[str, ...], repeated=True)]


def given_name(source: Source, key: str = "") -> str:
    """A path (`~` expanded) or a hub's name as text; ConfigError where what is given for `key` is neither."""
    if isinstance(source, str | os.PathLike) and isinstance(name := os.fspath(source), str):
        return os.path.expanduser(name)
    fix = "Give a text, a Path, or what a function of electra returned"
    raise ConfigError(f"{shortened(source)} is not a path", key=key, fix=fix)


def name_of(source: Source | None, key: str = "") -> str | None:
    return None if source is None else given_name(source, key)


def given_names(source: Source | Sequence[Source], key: str = "") -> list[str]:
    """One source or several as a list of their names."""
    return [given_name(each, key) for each in as_tuple(source)]


def as_path(source: Source, key: str = "") -> Path:
    return Path(given_name(source, key))


def as_tuple(given: Any) -> tuple[Any, ...]:
    """One value, or several, as a tuple."""
    several = isinstance(given, Iterable) and not isinstance(given, str | bytes | os.PathLike)
    return tuple(given) if several else (given,)


def several(given: str | Sequence[str], key: str) -> tuple[str, ...]:
    """One text or several; ConfigError where what was given for `key` is neither."""
    made: tuple[str, ...] = convert(tuple[str, ...], (given,) if isinstance(given, str) else given, key)
    return made
