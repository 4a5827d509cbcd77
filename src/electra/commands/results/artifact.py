"""The base of all results: a folder that describes itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from typing_extensions import override

from electra.artifacts import Folder, open_folder
from electra.commands.results.rows import cell, html_card
from electra.foundation.options import Source, checked_path

F = TypeVar("F", bound=Folder)


class Artifact(Generic[F]):
    """A folder with results. It can be passed wherever a path can."""

    FOLDER: ClassVar[type[Folder]]

    def __init__(self, path: Source) -> None:
        self.path = checked_path(path, "path")
        self.folder: F = self.FOLDER.open(self.path)  # type: ignore[assignment]

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def kind(self) -> str:
        """The kind of result, for display."""
        return type(self).__name__

    def facts(self) -> list[tuple[str, Any]]:
        """Returns the names and values of the most important facts."""
        return [fact for fact in self.folder.facts() if fact[1] is not None]

    def report(self) -> Path:
        """Writes the report and returns its path. Raises RunFolderError if the records are inconsistent."""
        from electra.pages.pages import write_page

        return write_page(self.path)

    def __repr__(self) -> str:
        facts = ", ".join(f"{name} {cell(value)}" for name, value in self.facts())
        return f"<{self.kind} {str(self.path)!r}{': ' if facts else ''}{facts}>"

    def _repr_html_(self) -> str:
        return html_card(f"{self.kind}: {self.path}", self.facts())


class Part(Artifact[Folder]):
    """A folder inside another artifact, such as a seed or a checkpoint."""

    def __init__(self, path: Source) -> None:
        self.path = checked_path(path, "path")
        self.folder = open_folder(self.path)

    @property
    @override
    def kind(self) -> str:
        return self.folder.KIND
