"""What every result of a verb has in common: it is a folder that describes itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from electra.artifacts import Folder, open_folder
from electra.workflow.rows import cell, html_card

Source = str | os.PathLike[str]
"""A folder or a file, an artifact, or the name of a model on the hub."""


def name_of(source: Source | None) -> str | None:
    return None if source is None else os.fspath(source)


F = TypeVar("F", bound=Folder)


class Artifact(Generic[F]):
    """A folder with results. It can be given wherever a path can be given."""

    FOLDER: ClassVar[type[Folder]]

    def __init__(self, path: Source) -> None:
        self.path = Path(path)
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
        from electra.report.pages import write_page

        return write_page(self.path)

    def __repr__(self) -> str:
        facts = ", ".join(f"{name} {cell(value)}" for name, value in self.facts())
        return f"<{self.kind} {str(self.path)!r}{': ' if facts else ''}{facts}>"

    def _repr_html_(self) -> str:
        return html_card(f"{self.kind}: {self.path}", self.facts())


class Part(Artifact[Folder]):
    """A folder inside another artifact: a seed, a checkpoint."""

    def __init__(self, path: Source) -> None:
        self.path = Path(path)
        self.folder = open_folder(self.path)

    @property
    def kind(self) -> str:
        return self.folder.KIND
