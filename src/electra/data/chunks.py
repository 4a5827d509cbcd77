"""The training tokens of a store at an address, cut into chunks that are fetched when they are read.

    ADDRESS/ store.json, tokenizer/, heldout.*, train.ds.index, ...   as in a local store
             chunks.json      size of a chunk in bytes, and the SHA-256 of each chunk
             chunks/00000000  the bytes of train.ds, in order

Fetched chunks are stored in a folder that all processes of this machine share. They are renamed into place,
and compared with their digests whenever they are read. If there is no room, the least recently used are
deleted. Rows are read in random order, so each usually needs a different chunk; therefore chunks are small,
and many are fetched at a time.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from electra.artifacts.store import ShardFolder, StoreFolder
from electra.data.remote import address_of, fetch_store, read_whole
from electra.data.sources import convert_errors, is_web
from electra.foundation import durable
from electra.foundation.errors import StoreError
from electra.foundation.machine import cache_folder, launch_variable

CHUNK_BYTES = 1 << 18
PARALLEL_TRANSFERS = 32  # chunks
RETRY_PAUSES = (1.0, 5.0)  # seconds before each retry of a failed transfer
PERMANENT_ERRORS = (FileNotFoundError, PermissionError, ImportError)  # errors that a retry would not avoid
T = TypeVar("T")
U = TypeVar("U")
RECORD, FORMAT = "chunks.json", 1
UPLOAD_AGAIN = "Rerun to try again; if that does not help, run electra prepare with another `out`"


def chunk_name(index: int) -> str:
    """Returns the file name of the chunk with this index."""
    return f"{index:08}"


class ChunkedTokens:
    """Token ids that are read like an array, by a slice without a step or an array of positions from 0.

    Reading raises StoreError if a chunk cannot be fetched or does not match its digest, and DiskError if it
    cannot be written to the cache.

    Args:
        address: the store's address.
        cache: the folder that keeps chunks on this machine.
        digests: the SHA-256 of each chunk, in hexadecimal.
        chunk_bytes: the size of every chunk but the last.
        tokens: the number of tokens.
        dtype: the type of a token id.
        limit: the maximum size of the cache in bytes. More than 8 processes that were not launched together
            may exceed it.
    """

    def __init__(
        self,
        address: str,
        cache: Path,
        digests: list[str],
        *,
        chunk_bytes: int,
        tokens: int,
        dtype: np.dtype[Any],
        limit: int,
    ) -> None:
        self.address, self.cache, self.digests, self.limit = address, cache, digests, limit
        self.dtype, self.nbytes = dtype, tokens * dtype.itemsize
        self._tokens, self._chunk_bytes, self._per_chunk = tokens, chunk_bytes, chunk_bytes // dtype.itemsize
        # Bytes that may be written before the cache is measured again.
        self._room = self._make_room(0) if cache.exists() else 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self._tokens

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("these tokens are not in memory; read them by a slice or an array of positions")

    def __getitem__(self, index: Any) -> npt.NDArray[Any]:
        if isinstance(index, slice):
            start, stop, _ = index.indices(self._tokens)
            first, last = start // self._per_chunk, -(-max(start, stop) // self._per_chunk)
            parts = [np.empty(0, self.dtype), *self._pool.map(self._chunk, range(first, last))]
            begin = start - first * self._per_chunk
            return np.concatenate(parts)[begin : begin + max(0, stop - start)]
        positions = np.asarray(index)
        chunks, offsets = np.divmod(positions.ravel(), self._per_chunk)
        order = np.argsort(chunks, kind="stable")
        chunk_indices, begins = np.unique(chunks[order], return_index=True)
        groups = np.split(order, begins[1:])
        ids_of_groups = self._pool.map(
            lambda chunk, group: self._chunk(chunk)[offsets[group]], chunk_indices, groups
        )
        tokens = np.empty(positions.size, self.dtype)
        for group, ids in zip(groups, ids_of_groups, strict=True):
            tokens[group] = ids
        return tokens.reshape(positions.shape)

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(PARALLEL_TRANSFERS, thread_name_prefix="chunks")

    def _chunk(self, index: int) -> npt.NDArray[Any]:
        """Returns the tokens of a chunk, from the cache if it is there and intact."""
        path = self.cache / chunk_name(index)
        try:
            content = path.read_bytes()
            os.utime(path)  # the time of its last use
        except OSError:
            content = b""
        if not self._is_intact(index, content):
            content = self._fetch(index)
            self._store(path, content)
        return np.frombuffer(content, self.dtype)

    def _is_intact(self, index: int, content: bytes) -> bool:
        return hashlib.sha256(content).hexdigest() == self.digests[index]

    def _fetch(self, index: int) -> bytes:
        url = f"{self.address}/chunks/{chunk_name(index)}"
        for pause in (*RETRY_PAUSES, None):
            try:
                with convert_errors(url, error=StoreError):
                    content = read_whole(url)
                if self._is_intact(index, content):
                    return content
                size = min(self._chunk_bytes, self.nbytes - index * self._chunk_bytes)
                wrong_size = f"has {len(content):,} bytes instead of {size:,}"
                problem = "is damaged (its SHA-256 differs)" if len(content) == size else wrong_size
                raise StoreError(problem, where=url, fix=UPLOAD_AGAIN)
            except StoreError as error:
                cause = error.__cause__
                if (
                    pause is None
                    or isinstance(cause, PERMANENT_ERRORS)
                    or 400 <= getattr(cause, "code", 0) < 500
                ):
                    raise
            time.sleep(pause)
        raise AssertionError

    def _store(self, path: Path, content: bytes) -> None:
        """Stores a chunk in the cache, after deleting others if there is no room."""
        temporary = path.with_name(f".{path.name}-{os.getpid()}-{threading.get_ident()}")
        with durable.explain_disk_errors(path), self._lock:
            self.cache.mkdir(parents=True, exist_ok=True)
            self._room -= len(content)
            if self._room < 0:
                self._room = self._make_room(len(content))
            temporary.write_bytes(content)
            with suppress(FileNotFoundError):  # another process deleted it: the cache is tiny
                os.replace(temporary, path)

    def _make_room(self, size: int) -> int:
        """Deletes the least recently used chunks until `size` bytes fit into seven eighths of the limit.

        Returns how many more bytes this process may write before the cache is measured again.
        """
        files = sorted(_files(self.cache), reverse=True)
        total = size + sum(file_size for _, file_size, _ in files)
        while files and total > self.limit * 7 // 8:
            _, file_size, name = files.pop()
            (self.cache / name).unlink(missing_ok=True)
            total -= file_size
        processes = launch_variable("LOCAL_WORLD_SIZE", launch_variable("WORLD_SIZE", 1))
        return (self.limit - total) // max(8, processes)


def _files(folder: Path) -> Iterable[tuple[int, int, str]]:
    """Yields the time of last use, the size and the name of each file; other processes may delete some."""
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                status = entry.stat()
                yield status.st_mtime_ns, status.st_size, entry.name


def open_chunks(folder: Path, tokens: int, dtype: np.dtype[Any], limit: int) -> ChunkedTokens:
    """Returns the training tokens of a store whose other files `fetch_store` copied to `folder`.

    See `ChunkedTokens` for the other arguments.

    Raises:
        StoreError: `fetch_store` did not copy the folder, or its records do not match.
    """
    address = address_of(folder)
    if address is None:
        fix = "Pass the address instead, such as --store file:///..."
        raise StoreError("its tokens are in chunks, which are read from an address", where=folder, fix=fix)
    record = durable.read_record(folder / RECORD, FORMAT, StoreError, "a list of chunks", UPLOAD_AGAIN)
    chunk_bytes, digests = record.get("bytes"), record.get("sha256")
    if (
        not isinstance(chunk_bytes, int)
        or chunk_bytes < 8
        or chunk_bytes % 8
        or not isinstance(digests, list)
    ):
        raise StoreError("not a list of chunks of this version", where=folder / RECORD, fix=UPLOAD_AGAIN)
    if len(digests) != -(-tokens * dtype.itemsize // chunk_bytes):
        raise StoreError(f"{len(digests)} chunks do not match {tokens:,} tokens", where=folder / RECORD)
    cache = folder.with_name(f"{folder.name}.chunks")
    return ChunkedTokens(
        address, cache, digests, chunk_bytes=chunk_bytes, tokens=tokens, dtype=dtype, limit=limit
    )


@contextmanager
def uploaded(address: str) -> Iterator[Path]:
    """Yields a local folder in which to build a store or shard, and then uploads it to an address.

    If there is already one at the address, yields a local copy of it instead. The manifest is uploaded last.
    If the upload fails, the folder is kept, so that the next attempt does not build the store again.

    Raises:
        StoreError: the address cannot be written to, or what is already there is damaged.
    """
    address = address.rstrip("/")
    with _convert_errors(address):
        if is_web(address):
            raise StoreError("http addresses can only be read", where=address, fix="Choose another `out`")
        system, path = _file_system(address)
        exists = system.exists(f"{path}/{durable.MANIFEST}")
        if not exists:  # fails now rather than after the work
            system.pipe_file(f"{path}/.writable", b"")
            system.rm_file(f"{path}/.writable")
    name = hashlib.sha256(address.encode()).hexdigest()[:32]
    folder = fetch_store(address) if exists else cache_folder() / "made" / name
    try:
        yield folder
    except StoreError as error:
        if error.where == str(folder):
            error.where = address
        raise
    if not exists:
        _upload(folder, address)
        shutil.rmtree(folder)


def _upload(folder: Path, address: str) -> None:
    system, path = _file_system(address)
    files = json.loads((folder / durable.MANIFEST).read_bytes())["files"]
    if not ShardFolder.is_at(folder):
        tokens = StoreFolder(folder).documents("train")
        del files[tokens.name]
        count = -(-tokens.stat().st_size // CHUNK_BYTES)
        record = {"format": FORMAT, "bytes": CHUNK_BYTES}
        with _convert_errors(address):
            digests = _in_threads(partial(_upload_chunk, tokens, system, path), range(count))
        durable.commit_json(folder / RECORD, record | {"sha256": digests})
        content = (folder / RECORD).read_bytes()
        files[RECORD] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    with _convert_errors(address):
        _in_threads(lambda name: system.put_file(str(folder / name), f"{path}/{name}"), sorted(files))
        system.pipe_file(f"{path}/{durable.MANIFEST}", durable.to_json({"files": files}))


def _upload_chunk(tokens: Path, system: Any, path: str, index: int) -> str:
    with open(tokens, "rb") as file:
        file.seek(index * CHUNK_BYTES)
        content = file.read(CHUNK_BYTES)
    system.pipe_file(f"{path}/chunks/{chunk_name(index)}", content)
    return hashlib.sha256(content).hexdigest()


def _in_threads(function: Callable[[T], U], items: Iterable[T]) -> list[U]:
    """Returns the function's values, computed in threads, in order; an error cancels the remaining items."""
    pool = ThreadPoolExecutor(PARALLEL_TRANSFERS)
    try:
        return list(pool.map(function, items))
    finally:
        pool.shutdown(cancel_futures=True)


def _file_system(address: str) -> tuple[Any, str]:
    import fsspec

    options = {"auto_mkdir": True} if address.startswith(("file://", "local://")) else {}
    system, path = fsspec.core.url_to_fs(address, **options)
    return system, path


def _convert_errors(address: str) -> AbstractContextManager[None]:
    return convert_errors(address, error=StoreError, what="written")
