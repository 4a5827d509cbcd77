"""Copies a token store from a remote file system (s3://, gs://, https://, ...) into a local cache.

The cache is $ELECTRA_CACHE, or ~/.cache/electra. A copy is named by the hash of the store's manifest, so a
store that was rebuilt is fetched again. A copy is used only if every file has the hash in the manifest.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

from electra.artifacts.store import StoreFolder
from electra.data.sources import copy_bytes, explain, is_remote
from electra.foundation import durable
from electra.foundation.errors import RunFolderError, StoreError

MOST = 1 << 24  # largest manifest in bytes

__all__ = ["fetch_store", "is_remote"]


def cache_folder() -> Path:
    """Returns the folder of the cached stores."""
    return Path(os.environ.get("ELECTRA_CACHE") or Path.home() / ".cache" / "electra") / "stores"


def fetch_store(url: str, say: Callable[[str], None] = lambda line: None) -> Path:
    """Returns a local copy of the store at `url`, fetching it if necessary; `say` receives a progress line.

    Raises:
        StoreError: there is no token store, or the copy is damaged.
    """
    url = url.rstrip("/")
    with explain(url, error=StoreError), open_at(f"{url}/{durable.MANIFEST}") as stream:
        manifest = stream.read(MOST)
    try:
        listing: dict[str, dict[str, Any]] = json.loads(manifest)["files"]
        names = [name for name in listing if name == name.strip("/") and ".." not in name.split("/")]
        if StoreFolder.RECORD not in names or len(names) < len(listing):
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise StoreError(
            f"its {durable.MANIFEST} is not that of a token store",
            where=url,
            fix="Copy the whole folder there",
        ) from None
    folder = cache_folder() / hashlib.sha256(manifest).hexdigest()[:32]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _turn(folder.with_name(f"{folder.name}.lock")):
        if durable.verify_directory(folder) is not None:
            say(
                f"copying {url} to {folder}, {sum(entry['size'] for entry in listing.values()) / 1e6:,.0f} MB"
            )
            durable.commit_directory(
                folder, {name: partial(_copy, f"{url}/{name}", listing[name]) for name in listing}
            )
    return folder


@contextmanager
def _turn(folder: Path) -> Iterator[None]:
    """Waits while another process copies the same store."""
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(durable.lock(folder))
                break
            except RunFolderError:
                time.sleep(0.2)
        yield


def _copy(url: str, listed: dict[str, Any], target: Path) -> None:
    with explain(url, error=StoreError):
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
    """Opens a local or remote file at byte `start`; if the server cannot, at 0 (see `continues`)."""
    if address.startswith(("http://", "https://")):  # fsspec would need two more packages for it
        from urllib.error import HTTPError
        from urllib.request import Request, urlopen

        headers = {"User-Agent": "electra"} | ({"Range": f"bytes={start}-"} if start else {})
        try:
            opened: IO[bytes] = urlopen(Request(address, headers=headers), timeout=60)
        except HTTPError as error:
            error.close()  # it holds the connection
            raise
        return opened
    import fsspec

    named = is_remote(address)
    system, path = fsspec.core.url_to_fs(address) if named else (fsspec.filesystem("file"), address)
    file: IO[bytes] = system.open(path, "rb")
    file.seek(start)
    return file


def continues(stream: IO[bytes], start: int) -> bool:
    """Returns whether an open file begins at byte `start`."""
    headers = getattr(stream, "headers", None)
    return headers is None or str(headers.get("Content-Range", "")).startswith(f"bytes {start}-")
