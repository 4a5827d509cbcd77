"""SHA-256 of the files of a folder that is finished, kept beside them in digests.json.

For folders that grow while work goes on in them, and so are never committed whole with a manifest. Work that
goes on removes the digests first (`forget`), and records them anew when it is done.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from electra.foundation import durable

DIGESTS = "digests.json"
_GROWS = ".jsonl"  # lines may follow; those that were there stay


def record(folder: Path, files: list[Path]) -> None:
    """Record those of `files` that exist."""
    listing = {str(path.relative_to(folder)): _entry(path) for path in files if path.is_file()}
    durable.commit_json(folder / DIGESTS, {"files": listing})


@contextmanager
def replacing(path: Path) -> Iterator[None]:
    """One file of a folder is about to be written: its old digest goes first, its new one follows."""
    listing = _listing(path.parent)
    if listing.pop(path.name, None) is not None:
        durable.commit_json(path.parent / DIGESTS, {"files": listing})
    yield
    listing = {**_listing(path.parent), path.name: _entry(path)}
    durable.commit_json(path.parent / DIGESTS, {"files": dict(sorted(listing.items()))})


def _entry(path: Path) -> dict[str, Any]:
    return {"size": path.stat().st_size, "sha256": durable.sha256(path)}


def _listing(folder: Path) -> dict[str, Any]:
    """What is recorded; {} where that is nothing, or damaged."""
    try:
        return dict(json.loads((folder / DIGESTS).read_bytes())["files"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return {}


def forget(folder: Path) -> None:
    (folder / DIGESTS).unlink(missing_ok=True)


def compare(folder: Path) -> dict[str, str] | None:
    """Each recorded file and what is wrong with it (empty: nothing). None: nothing was recorded."""
    try:
        listing: dict[str, Any] = json.loads((folder / DIGESTS).read_bytes())["files"]
        return {
            name: _problem(folder, name, entry["size"], entry["sha256"]) for name, entry in listing.items()
        }
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {DIGESTS: "is damaged"}


def changed(folder: Path) -> dict[str, str]:
    """The files that are there and not what was recorded, and what is wrong with each."""
    found = (compare(folder) or {}).items()
    return {name: problem for name, problem in found if problem and (folder / name).exists()}


def _problem(folder: Path, name: str, size: int, digest: str) -> str:
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        return "points outside the folder"
    if not path.is_file():
        return "is missing"
    found, grows = path.stat().st_size, path.suffix == _GROWS
    if found < size or (found > size and not grows):
        return f"has {found} bytes instead of {size}"
    return "" if durable.sha256(path, size) == digest else "is damaged (its SHA-256 differs)"
