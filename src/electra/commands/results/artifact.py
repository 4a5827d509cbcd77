"""What every result of a verb has in common: it is a folder that describes itself."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, ClassVar, Generic, TypeVar

from electra.artifacts import Folder, open_folder
from electra.artifacts.folder import expanded
from electra.commands.framework.command import Source
from electra.commands.results.rows import cell, html_card
from electra.foundation.config import convert
from electra.foundation.errors import ConfigError


def name_of(source: Source | None, key: str = "") -> str | None:
    return None if source is None else given_name(source, key)


def given_name(source: Source, key: str = "") -> str:
    """A path (`~` expanded) or a hub's name as text; ConfigError where what is given for `key` is neither."""
    if isinstance(source, str | os.PathLike) and isinstance(name := os.fspath(source), str):
        return os.path.expanduser(name)
    fix = "Give a text, a Path, or what a function of electra returned"
    raise ConfigError(f"{shortened(source)} is not a path", key=key, fix=fix)


def several(given: str | Sequence[str], key: str) -> tuple[str, ...]:
    """One text or several; ConfigError where what was given for `key` is neither."""
    made: tuple[str, ...] = convert(tuple[str, ...], (given,) if isinstance(given, str) else given, key)
    return made


def given_path(source: Source, key: str = "") -> Path:
    return expanded(given_name(source, key), ConfigError)


def given_names(source: Source | Sequence[Source], key: str = "") -> list[str]:
    """One source or several as a list of their names."""
    given: Any = source
    several = isinstance(given, Iterable) and not isinstance(given, str | bytes | os.PathLike)
    return [given_name(one, key) for one in (given if several else [given])]


F = TypeVar("F", bound=Folder)


class Artifact(Generic[F]):
    """A folder with results. It can be given wherever a path can be given."""

    FOLDER: ClassVar[type[Folder]]

    def __init__(self, path: Source) -> None:
        self.path = given_path(path, "path")
        self.folder: F = self.FOLDER.open(self.path)  # type: ignore[assignment]

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def kind(self) -> str:
        """In words, for who looks at it."""
        return type(self).__name__

    def facts(self) -> list[tuple[str, Any]]:
        """What a reader wants to know first: names and values."""
        return [fact for fact in self.folder.facts() if fact[1] is not None]

    def report(self) -> Path:
        """Write the page; its path."""
        from electra.pages.pages import write_page

        return write_page(self.path)

    def __repr__(self) -> str:
        facts = ", ".join(f"{name} {cell(value)}" for name, value in self.facts())
        return f"<{self.kind} {str(self.path)!r}{': ' if facts else ''}{facts}>"

    def _repr_html_(self) -> str:
        return html_card(f"{self.kind}: {self.path}", self.facts())


class Part(Artifact[Folder]):
    """A folder inside another artifact: a seed, a checkpoint."""

    def __init__(self, path: Source) -> None:
        self.path = given_path(path, "path")
        self.folder = open_folder(self.path)

    @property
    def kind(self) -> str:
        return self.folder.KIND
