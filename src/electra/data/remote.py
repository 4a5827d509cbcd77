"""A token store on a remote file system (s3://, gs://, https://, ...): copied once into a local cache, and
mapped from there.

The cache is $ELECTRA_CACHE, or ~/.cache/electra. A copy is named by the store's manifest, so a store that was
made anew is fetched anew, and a copy counts only when every file has the hash the manifest names.
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

MOST = 1 << 24  # bytes of a manifest

__all__ = ["fetch_store", "is_remote"]


def cache_folder() -> Path:
    return Path(os.environ.get("ELECTRA_CACHE") or Path.home() / ".cache" / "electra") / "stores"


def fetch_store(url: str, say: Callable[[str], None] = lambda line: None) -> Path:
    """The folder here that holds the store at `url`."""
    url = url.rstrip("/")
    with explain(url, error=StoreError), _open(f"{url}/{durable.MANIFEST}") as stream:
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
    """Wait while another process copies the same store."""
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(durable.lock(folder))
                break
            except RunFolderError:
                time.sleep(0.2)
        yield


def _copy(url: str, listed: dict[str, Any], target: Path) -> None:
    with explain(url, error=StoreError), _open(url) as stream, open(target, "wb") as file:
        copy_bytes(stream, file, listed["size"], url, StoreError)
    if durable.sha256(target) != listed["sha256"]:
        raise StoreError(
            "was damaged on the way, or does not match the manifest",
            where=url,
            fix="Try again, or copy the store there again",
        )


def _open(url: str) -> IO[bytes]:
    if url.startswith(("http://", "https://")):  # fsspec would need two more packages for it
        from urllib.request import urlopen

        opened: IO[bytes] = urlopen(url, timeout=60)
        return opened
    import fsspec

    system, path = fsspec.core.url_to_fs(url)
    found: IO[bytes] = system.open(path, "rb")
    return found
