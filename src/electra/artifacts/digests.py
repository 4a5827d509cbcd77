"""SHA-256 of the files of a finished folder, kept in its digests.json.

This is for folders that grow while a command works in them, so that they cannot be committed at once with a
manifest. A command that resumes removes the digests first (`forget`) and records new ones when it is done.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from electra.foundation import durable

DIGESTS = "digests.json"
_APPENDABLE = ".jsonl"  # files of this suffix may gain lines; the recorded ones must not change


def record(folder: Path, files: list[Path]) -> None:
    """Writes digests.json with the size and SHA-256 of those `files` in `folder` that exist."""
    listing = {str(path.relative_to(folder)): _entry(path) for path in files if path.is_file()}
    durable.commit_json(folder / DIGESTS, {"files": listing})


@contextmanager
def replacing(path: Path) -> Iterator[None]:
    """Removes the digest of a file that the `with` block replaces, and records the new one afterwards.

    If the block raises an error, the file has no digest afterwards.
    """
    listing = _listing(path.parent)
    if listing.pop(path.name, None) is not None:
        durable.commit_json(path.parent / DIGESTS, {"files": listing})
    yield
    listing = {**_listing(path.parent), path.name: _entry(path)}
    durable.commit_json(path.parent / DIGESTS, {"files": dict(sorted(listing.items()))})


def _entry(path: Path) -> dict[str, Any]:
    return {"size": path.stat().st_size, "sha256": durable.sha256(path)}


def _listing(folder: Path) -> dict[str, Any]:
    """Returns the recorded sizes and digests by file; {} if there are none or the record is damaged."""
    try:
        return dict(json.loads((folder / DIGESTS).read_bytes())["files"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return {}


def forget(folder: Path) -> None:
    """Removes the digests of a folder, if there are any."""
    with durable.explain_disk_errors(folder / DIGESTS):
        (folder / DIGESTS).unlink(missing_ok=True)


def compare(folder: Path) -> dict[str, str] | None:
    """Returns the problem of each recorded file by its name ("": none), or None if nothing was recorded.

    If digests.json itself is damaged, it is the only entry.
    """
    try:
        listing: dict[str, Any] = json.loads((folder / DIGESTS).read_bytes())["files"]
        return {
            name: _problem(folder, name, entry["size"], entry["sha256"]) for name, entry in listing.items()
        }
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {DIGESTS: "is damaged"}


def changed_files(folder: Path) -> dict[str, str]:
    """Returns the problem of each existing file that differs from its record, by its path in `folder`."""
    problems = (compare(folder) or {}).items()
    return {name: problem for name, problem in problems if problem and os.path.exists(folder / name)}


def _problem(folder: Path, name: str, size: int, digest: str) -> str:
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        return "points outside the folder"
    return durable.file_problem(path, size, digest, may_grow=path.suffix == _APPENDABLE)
