"""Copies a token store from a remote file system (s3://, gs://, https://, ...) into a local cache.

The cache is the folder stores/ of `cache_folder`. The name of a copy is the hash of the store's manifest, so
that a rebuilt store is fetched again. A copy is used only if all its files match the hashes in the manifest.
A store that was prepared at its address is copied without its training tokens; see `data.chunks`.
"""

from __future__ import annotations

import glob
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

from electra.artifacts.session import wait_and_lock
from electra.artifacts.store import ShardFolder, StoreFolder
from electra.data.sources import convert_errors, copy_bytes, is_remote, is_web, open_web
from electra.foundation import durable
from electra.foundation.errors import StoreError
from electra.foundation.machine import cache_folder

MAX_MANIFEST_BYTES = 1 << 24

__all__ = ["fetch_store", "is_remote"]


def fetch_store(url: str, say: Callable[[str], None] = lambda line: None) -> Path:
    """Returns a local copy of the store or shard at `url`, fetching it if necessary.

    `say` receives a line before the store is copied.

    Raises:
        StoreError: the address cannot be read or is not that of a token store, or the copy is damaged.
    """
    url = url.rstrip("/")
    with convert_errors(url, error=StoreError), open_at(f"{url}/{durable.MANIFEST}") as stream:
        manifest = stream.read(MAX_MANIFEST_BYTES)
    try:
        listing: dict[str, dict[str, Any]] = json.loads(manifest)["files"]
        names = [name for name in listing if name == name.strip("/") and ".." not in name.split("/")]
        if not {StoreFolder.RECORD, ShardFolder.RECORD} & set(names) or len(names) < len(listing):
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise StoreError(
            f"{durable.MANIFEST} is not the manifest of a token store",
            where=url,
            fix="Copy the whole folder there",
        ) from None
    folder = cache_folder() / "stores" / hashlib.sha256(manifest).hexdigest()[:32]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with wait_and_lock(folder.with_name(f"{folder.name}.lock"), say):
        if durable.verify_directory(folder) is not None:
            say(
                f"copying {url} to {folder}, {sum(entry['size'] for entry in listing.values()) / 1e6:,.0f} MB"
            )
            durable.commit_directory(
                folder, {name: partial(_copy, f"{url}/{name}", listing[name]) for name in listing}
            )
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
        raise StoreError(
            "was damaged in transfer, or does not match the manifest",
            where=url,
            fix="Try again, or upload the store again",
        )


def open_at(address: str, start: int = 0) -> IO[bytes]:
    """Opens a local or remote file at byte `start`; if the server cannot do so, at 0 (see `continues`).

    Errors are those of the file system or library; `convert_errors` turns them into ours.
    """
    if is_web(address):
        return open_web(address, start)
    import fsspec

    is_url = is_remote(address)
    system, path = fsspec.core.url_to_fs(address) if is_url else (fsspec.filesystem("file"), address)
    file: IO[bytes] = system.open(path, "rb")
    file.seek(start)
    return file


def read_whole(address: str) -> bytes:
    """Returns the content of a small file at an address, with one request."""
    if is_web(address):
        with open_at(address) as stream:
            return stream.read()
    import fsspec

    system, path = fsspec.core.url_to_fs(address)
    content: bytes = system.cat_file(path)
    return content


def expand_patterns(names: Iterable[str]) -> Iterator[str]:
    """Yields the names; an address with wildcards, such as s3://bucket/shards/*, is replaced by its matches.

    Raises:
        StoreError: nothing matches, or the address cannot be listed.
    """
    for name in names:
        if not (is_remote(name) and glob.has_magic(name)):
            yield name
            continue
        import fsspec

        with convert_errors(name, error=StoreError):
            system, path = fsspec.core.url_to_fs(name)
            matches = [system.unstrip_protocol(match) for match in sorted(system.glob(path))]
        if not matches:
            raise StoreError("nothing matches", where=name)
        yield from matches


def continues(stream: IO[bytes], start: int) -> bool:
    """Returns whether an opened file begins at byte `start`; local files do."""
    headers = getattr(stream, "headers", None)
    return headers is None or str(headers.get("Content-Range", "")).startswith(f"bytes {start}-")
