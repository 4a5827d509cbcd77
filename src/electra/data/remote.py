"""Copies token stores from addresses (s3://, gs://, https://, ...) through fsspec.

Local copies are in the folder stores/ of `cache_folder`, each named by the hash of the store's manifest, so
that a rebuilt store is fetched again. A copy is used only if all its files match the hashes in the manifest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any

from electra.artifacts.session import wait_and_lock
from electra.artifacts.store import StoreFolder
from electra.data.sources import convert_errors, copy_bytes, is_remote, is_web, open_web
from electra.foundation import durable
from electra.foundation.errors import StoreError
from electra.foundation.machine import cache_folder

MAX_MANIFEST_BYTES = 1 << 24
CHUNKS = "chunks.json"  # in stores of earlier versions, which have train.ds in pieces with their digests

__all__ = ["fetch_store", "is_remote"]


def fetch_store(url: str, say: Callable[[str], None] = lambda line: None) -> Path:
    """Returns a local copy of the store at `url`, fetching it if necessary.

    `say` receives a line before the store is copied.

    Raises:
        StoreError: the address cannot be read or is not that of a token store, or the copy is damaged.
    """
    url = url.rstrip("/")
    with convert_errors(url, error=StoreError), open_at(f"{url}/{durable.MANIFEST}") as stream:
        manifest = stream.read(MAX_MANIFEST_BYTES)
    try:
        listing: dict[str, dict[str, Any]] = json.loads(manifest)["files"]
        if StoreFolder.RECORD not in listing or any(map(durable.points_outside, listing)):
            raise ValueError
    except (ValueError, KeyError, TypeError):
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
            if CHUNKS in listing:
                files[StoreFolder(folder).documents("train").name] = partial(_join_chunks, url)
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
        stream = open_at(url)
    with stream, open(target, "wb") as file:
        copy_bytes(stream, file, listed["size"], url, StoreError)
    if durable.sha256(target) != listed["sha256"]:
        problem = "was damaged in transfer, or does not match the manifest"
        raise StoreError(problem, where=url, fix="Try again, or upload the store again")


def _join_chunks(url: str, target: Path) -> None:
    with convert_errors(url, error=StoreError):
        with open_at(f"{url}/{CHUNKS}") as stream:
            digests = json.load(stream)["sha256"]
        with open(target, "wb") as file:
            for index, digest in enumerate(digests):
                with open_at(f"{url}/chunks/{index:08}") as stream:
                    content = stream.read()
                if hashlib.sha256(content).hexdigest() != digest:
                    raise StoreError("is damaged (its SHA-256 differs)", where=f"{url}/chunks/{index:08}")
                file.write(content)


def open_at(address: str) -> IO[bytes]:
    """Opens a file at an address. Errors are those of the library; `convert_errors` turns them into ours."""
    if is_web(address):
        return open_web(address)
    import fsspec

    system, path = fsspec.core.url_to_fs(address)
    file: IO[bytes] = system.open(path, "rb")
    return file
