"""A store on a remote file system is copied once, completely, and again when it was rebuilt."""

from __future__ import annotations

import json
from pathlib import Path

import fsspec
import pytest
from corpora import contents, texts, write

from electra.data import remote
from electra.data.store import TokenStore
from electra.data.store_builder import build_store
from electra.data.tokenizer import Tokenizer
from electra.foundation import durable
from electra.foundation.errors import StoreError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ELECTRA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def upload(folder: Path, url: str) -> None:
    system, path = fsspec.core.url_to_fs(url)
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            system.pipe_file(f"{path}/{file.relative_to(folder)}", file.read_bytes())


def test_a_remote_store_is_copied_once(tmp_path: Path, tokenizer: Tokenizer) -> None:
    built = build_store([write(tmp_path, texts(50))], tokenizer, tmp_path / "store", workers=1)
    upload(tmp_path / "store", "memory://there/store")
    messages: list[str] = []
    here = remote.fetch_store("memory://there/store/", messages.append)
    assert TokenStore.open(here).digest == built.digest
    assert contents(here) == contents(tmp_path / "store")
    assert remote.fetch_store("memory://there/store", messages.append) == here and len(messages) == 1, (
        "the copy is used again"
    )
    (here / "train.ds").write_bytes(b"")
    assert remote.fetch_store("memory://there/store", messages.append) == here and len(messages) == 2, (
        "a damaged copy is fetched again"
    )
    assert durable.verify_directory(here) is None

    build_store([write(tmp_path, texts(60))], tokenizer, tmp_path / "anew", workers=1)
    upload(tmp_path / "anew", "memory://there/store")
    assert remote.fetch_store("memory://there/store") != here


def test_a_damaged_remote_store_is_refused(tmp_path: Path, tokenizer: Tokenizer, cache: Path) -> None:
    build_store([write(tmp_path, texts(50))], tokenizer, tmp_path / "store", workers=1)
    with pytest.raises(StoreError):
        remote.fetch_store("memory://nowhere/store")
    upload(tmp_path / "store", "memory://torn/store")
    files = fsspec.filesystem("memory")
    size = (tmp_path / "store" / "train.ds").stat().st_size
    for content in (bytes(size), b"less", bytes(size + 1)):
        files.pipe_file("/torn/store/train.ds", content)
        with pytest.raises(StoreError) as caught:
            remote.fetch_store("memory://torn/store")
        assert caught.value.where == "memory://torn/store/train.ds"
    left = [path for path in (cache / "stores").iterdir() if not path.name.endswith(".lock")]
    assert not left, "nothing half-copied is left"
    for names in (["store.json", "../evil"], ["store.json", "/tmp/evil"], ["train.ds"], []):
        listing = {"files": {name: {"size": 1, "sha256": "0"} for name in names}}
        files.pipe_file("/torn/store/manifest.json", json.dumps(listing).encode())
        with pytest.raises(StoreError):
            remote.fetch_store("memory://torn/store")
