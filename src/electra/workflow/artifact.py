"""What every result of a verb has in common: it is a folder that describes itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from electra.workflow.rows import cell, html_card

Source = str | os.PathLike[str]
"""A folder or a file, an artifact, or the name of a model on the hub."""


def name_of(source: Source | None) -> str | None:
    return None if source is None else os.fspath(source)


class Artifact:
    """A folder with results. It can be given wherever a path can be given."""

    kind: ClassVar[str]
    """In words, for who looks at it."""

    def __init__(self, path: Source) -> None:
        self.path = Path(path)

    def __fspath__(self) -> str:
        return str(self.path)

    def facts(self) -> Sequence[tuple[str, Any]]:
        """What a reader wants to know first: names and values."""
        return ()

    def __repr__(self) -> str:
        facts = ", ".join(f"{name} {cell(value)}" for name, value in self.facts() if value is not None)
        return f"<{self.kind} {str(self.path)!r}{': ' if facts else ''}{facts}>"

    def _repr_html_(self) -> str:
        facts = [fact for fact in self.facts() if fact[1] is not None]
        return html_card(f"{self.kind}: {self.path}", facts)
