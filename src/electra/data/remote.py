"""Copies token stores from addresses (s3://, gs://, https://, ...), through fsspec.

Local copies are in the folder stores/ of `cache_folder`, each named by the hash of the store's manifest, so
that a rebuilt store is fetched again. A copy is used only if all its files match the hashes in the manifest.
"""

from __future__ import annotations

import hashlib
import json
from functools import partial
from pathlib import Path
from typing import Any

from electra.artifacts.session import wait_and_lock
from electra.artifacts.store import StoreFolder
from electra.data.sources import convert_errors, open_address, read_block
from electra.foundation import durable
from electra.foundation.errors import StoreError
from electra.foundation.machine import cache_folder
from electra.foundation.progress import Say, quiet

MAX_MANIFEST_BYTES = 1 << 24


def fetch_store(url: str, say: Say = quiet) -> Path:
    """Returns a local copy of the store at `url`; `say` receives a line before it is copied.

    Raises:
        StoreError: the address cannot be read or is not that of a token store, or the copy is damaged.
    """
    url = url.rstrip("/")
    with convert_errors(url, error=StoreError), open_address(f"{url}/{durable.MANIFEST}")[0] as stream:
        manifest = stream.read(MAX_MANIFEST_BYTES)
    try:
        listing: dict[str, dict[str, Any]] = json.loads(manifest)["files"]
        if StoreFolder.RECORD not in listing or any(map(durable.points_outside, listing)):
            raise ValueError
        if not all(isinstance(each["size"], int) and each["sha256"] for each in listing.values()):
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError):
        problem = f"{durable.MANIFEST} is not the manifest of a token store"
        raise StoreError(problem, where=url, fix="Copy the whole folder there") from None
    folder = cache_folder() / "stores" / hashlib.sha256(manifest).hexdigest()[:32]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with wait_and_lock(folder.with_name(f"{folder.name}.lock"), say):
        if durable.verify_directory(folder) is not None:
            size = sum(entry["size"] for entry in listing.values())
            say(f"copying {url} to {folder}, {size / 1e6:,.0f} MB")
            files: dict[str, durable.Content] = {
                name: partial(_copy, f"{url}/{name}", entry) for name, entry in listing.items()
            }
            durable.commit_directory(folder, files)
        durable.commit_file(_address_file(folder), url.encode())
    return folder


def address_of(folder: Path) -> str | None:
    """Returns the address that a local copy of a store came from; None for any other folder."""
    file = _address_file(folder)
    return file.read_text(encoding="utf-8") if file.is_file() else None


def _address_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.address")


def _copy(url: str, listed: dict[str, Any], target: Path) -> None:
    with convert_errors(url, error=StoreError):
        stream, _ = open_address(url)
    size = 0
    with stream, open(target, "wb") as file:
        while size <= listed["size"] and (block := read_block(stream, url, StoreError)):
            size += len(block)
            file.write(block)
    if size != listed["size"] or durable.sha256(target) != listed["sha256"]:
        problem = "was damaged in transfer, or does not match the manifest"
        raise StoreError(problem, where=url, fix="Try again, or upload the store again")
