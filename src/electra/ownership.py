"""Whose folder is this? A command writes only into a folder that is new, empty or its own, and goes on only
with what it began with.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from electra.errors import RunFolderError


def refuse_strangers(folder: Path, record: str, kind: str, beside: Collection[str] = ()) -> None:
    """Refuse a folder without the file `record` that holds anything else.

    kind:   what the folder should hold, with its article ("a run").
    beside: names that may lie there before the record does: what a process leaves that was killed early.
        Hidden files always may.
    """
    if folder.exists() and not folder.is_dir():
        raise RunFolderError("is a file, not a folder", where=folder, fix="Choose another --out")
    if (folder / record).exists():
        return
    strangers = sorted(
        path.name for path in folder.glob("*") if path.name not in beside and not path.name.startswith(".")
    )
    if strangers:
        more = ", ..." if len(strangers) > 1 else ""
        raise RunFolderError(
            f"holds files that are not {kind} ({strangers[0]}{more})",
            where=folder,
            fix="Choose another --out",
        )


def refuse_differences(
    folder: Path, kind: str, changed: Sequence[tuple[str, Any, Any]], most: int | None = None, fix: str = ""
) -> None:
    """Refuse to go on where settings differ from those recorded, naming each, or the first `most` of them.

    changed: as `electra.config.differences` gives it.
    """
    if not changed:
        return
    listed = "; ".join(f"{name} was {_short(old)}, now {_short(new)}" for name, old, new in changed[:most])
    more = f"; and {len(changed[most:])} more" if most is not None and changed[most:] else ""
    raise RunFolderError(
        f"holds another {kind}: {listed}{more}",
        where=folder,
        fix=fix or "Use the same settings, or another --out",
    )


def _short(value: Any) -> str:
    return "absent" if value is None else "there" if isinstance(value, Mapping) else str(value)[:24]
