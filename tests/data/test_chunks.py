"""The tokens of a store at an address are fetched in chunks, as they are read, into a limited cache."""

from __future__ import annotations

import hashlib
import http.server
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import contents, texts, write

import electra
from electra.commands.framework.main import main
from electra.data import chunks
from electra.data.store import TokenStore
from electra.foundation.errors import ConfigError, ElectraError, StoreError

OPTIONS: dict[str, Any] = {"vocab_size": 60, "workers": 1, "progress": "quiet"}
BYTES = 512  # of a chunk here


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ELECTRA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(chunks, "CHUNK_BYTES", BYTES)
    monkeypatch.setattr(chunks, "RETRY_PAUSES", ())
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stores")
    corpus = write(folder, texts(100))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ELECTRA_CACHE", str(folder / "cache"))
        patch.setattr(chunks, "CHUNK_BYTES", BYTES)
        electra.prepare(corpus, out=folder / "local", **OPTIONS)
        electra.prepare(corpus, out=f"file://{folder}/far", **OPTIONS)
    return folder


@pytest.fixture
def both(tmp_path: Path, prepared: Path) -> tuple[TokenStore, Path]:
    """A local store, and the folder of the same store as `prepare` writes it to an address."""
    for name in ("local", "far"):
        shutil.copytree(prepared / name, tmp_path / name)
    return TokenStore.open(tmp_path / "local"), tmp_path / "far"


class Server(http.server.SimpleHTTPRequestHandler):
    """Serves a folder; what is in `faults` by its path fails as often as its number says."""

    folder = ""
    faults: dict[str, tuple[str, int]]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments, directory=self.folder)

    def do_GET(self) -> None:
        kind, left = self.faults.get(self.path, ("", 0))
        if left:
            self.faults[self.path] = (kind, left - 1)
        if left and kind == "refused":
            self.send_error(403)
        elif left and kind == "breaks":
            self.send_response(200)
            self.send_header("Content-Length", str(BYTES))
            self.end_headers()
            self.wfile.write(b"x" * (BYTES // 2))
        else:
            super().do_GET()

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server(both: tuple[TokenStore, Path]) -> Iterator[tuple[str, dict[str, tuple[str, int]]]]:
    faults: dict[str, tuple[str, int]] = {}
    kind = type("Handler", (Server,), {"folder": str(both[1]), "faults": faults})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}", faults
        running.shutdown()


def kept(cache: Path) -> list[Path]:
    return [path for folder in (cache / "stores").glob("*.chunks") for path in folder.iterdir()]


def test_the_chunks_are_the_file_and_the_rest_is_the_same(both: tuple[TokenStore, Path]) -> None:
    local, far = both
    parts = sorted((far / "chunks").iterdir())
    assert len(parts) > 10 and all(part.stat().st_size == BYTES for part in parts[:-1])
    assert b"".join(part.read_bytes() for part in parts) == (local.path / "train.ds").read_bytes()
    here, there = contents(local.path), contents(far)
    names = set(here) - {"train.ds", "manifest.json"}
    assert {name: here[name] for name in names} == {name: there[name] for name in names}
    listed = json.loads((far / "manifest.json").read_text())["files"]
    assert {name: entry["sha256"] for name, entry in listed.items()} == {
        name: digest for name, digest in there.items() if name != "manifest.json" and "chunks/" not in name
    }
    opened = TokenStore.open(f"file://{far}")
    assert opened.is_chunked and opened.digest == local.digest and opened.place == f"file://{far}"
    opened.check()
    opened.verify()


def test_any_positions_are_read_through_a_cache_that_stays_small(
    both: tuple[TokenStore, Path], cache: Path
) -> None:
    local, far = both
    whole = np.fromfile(local.path / "train.ds", "<u2")
    limit = 4 * BYTES
    tokens = TokenStore.open(f"file://{far}", cache_gb=limit / 1e9).train.tokens
    assert len(tokens) == len(whole) > 2 * limit and tokens.nbytes == whole.nbytes
    for start, stop in [(0, 9), (0, len(whole)), (7, 7), (300, 2000), (len(whole) - 1, len(whole)), (9, 3)]:
        assert np.array_equal(tokens[start:stop], whole[start:stop])
    draw = np.random.default_rng(0)
    for _ in range(30):
        places = draw.integers(0, len(whole), (3, 5))
        assert np.array_equal(tokens[places], whole[places])
        assert 0 < sum(path.stat().st_size for path in kept(cache)) <= limit
    with pytest.raises(TypeError):
        np.asarray(tokens)  # would read one token after another


def test_what_was_used_last_stays(both: tuple[TokenStore, Path], cache: Path) -> None:
    tokens = TokenStore.open(f"file://{both[1]}", cache_gb=6 * BYTES / 1e9).train.tokens
    first = BYTES // 2  # tokens of a chunk
    for number in range(1, 10):
        tokens[np.array([0, number * first])]
        assert chunks.chunk_name(0) in [path.name for path in kept(cache)]


def test_a_kept_chunk_that_is_not_whole_is_fetched_again(both: tuple[TokenStore, Path], cache: Path) -> None:
    local, far = both
    whole = np.fromfile(local.path / "train.ds", "<u2")
    tokens = TokenStore.open(f"file://{far}").train.tokens
    tokens[:]
    for number, content in enumerate([b"", b"half", bytes(BYTES)]):
        (kept(cache)[0].parent / chunks.chunk_name(number)).write_bytes(content)
    assert np.array_equal(tokens[:], whole)
    assert b"".join(path.read_bytes() for path in sorted(kept(cache))) == whole.tobytes()


@pytest.mark.parametrize("kind", ["damaged", "short", "missing", "refused", "breaks"])
def test_a_chunk_that_cannot_be_had_is_named_in_one_line(
    kind: str, both: tuple[TokenStore, Path], server: tuple[str, dict[str, tuple[str, int]]], cache: Path
) -> None:
    address, faults = server
    chunk = both[1] / "chunks" / chunks.chunk_name(2)
    if kind in ("damaged", "short"):
        content = chunk.read_bytes()
        chunk.write_bytes(content[:-2] if kind == "short" else content[:-1] + bytes([content[-1] ^ 1]))
    elif kind == "missing":
        chunk.unlink()
    else:
        faults[f"/chunks/{chunk.name}"] = (kind, 1)
    tokens = TokenStore.open(address).train.tokens
    with pytest.raises(StoreError) as raised:
        tokens[:]
    assert raised.value.where == f"{address}/chunks/{chunk.name}"
    assert "\n" not in raised.value.line() and raised.value.exit_code == 2
    assert chunk.name not in [path.name for path in kept(cache)]
    if kind in ("refused", "breaks"):  # and once it can be had, reading goes on
        assert tokens[:].tobytes() == (both[0].path / "train.ds").read_bytes()


def test_a_connection_that_breaks_is_tried_again(
    both: tuple[TokenStore, Path],
    server: tuple[str, dict[str, tuple[str, int]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address, faults = server
    monkeypatch.setattr(chunks, "RETRY_PAUSES", (0.0, 0.0))
    faults[f"/chunks/{chunks.chunk_name(1)}"] = ("breaks", 2)
    tokens = TokenStore.open(address).train.tokens
    assert tokens[:].tobytes() == (both[0].path / "train.ds").read_bytes()


READER = """
import sys
import numpy as np
from electra.data.store import TokenStore
tokens = TokenStore.open(sys.argv[1], cache_gb=float(sys.argv[2])).train.tokens
whole, draw = np.fromfile(sys.argv[3], "<u2"), np.random.default_rng(int(sys.argv[4]))
for _ in range(60):
    places = draw.integers(0, len(whole), 20)
    assert np.array_equal(tokens[places], whole[places])
"""


def test_processes_share_the_cache(both: tuple[TokenStore, Path], cache: Path) -> None:
    local, far = both
    limit = 8 * BYTES
    words = [f"file://{far}", str(limit / 1e9), str(local.path / "train.ds")]
    readers = [subprocess.Popen([sys.executable, "-c", READER, *words, str(seed)]) for seed in range(3)]
    assert [reader.wait(60) for reader in readers] == [0, 0, 0]
    digests = json.loads((far / "chunks.json").read_text())["sha256"]
    for path in kept(cache):
        assert hashlib.sha256(path.read_bytes()).hexdigest() == digests[int(path.name)]


def test_shards_at_addresses_are_merged_into_a_store_at_one(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    for number in range(4):
        write(folder, texts(25, seed=number), f"{number}.jsonl")
    first = electra.prepare(folder, out=tmp_path / "first", **OPTIONS)
    local = electra.prepare(folder, out=tmp_path / "local", tokenizer=first, workers=1, progress="quiet")
    for number in range(2):
        out = f"memory://parts/shards/{number}"
        electra.prepare(folder, out=out, tokenizer=first, shard=f"{number}/2", workers=1, progress="quiet")
    merged = electra.prepare(
        "memory://parts/shards/*", merge=True, out="memory://parts/store", progress="quiet"
    )
    assert merged.tokens.digest == local.tokens.digest and merged.tokens.is_chunked
    assert merged.tokens.train.tokens[:].tobytes() == (tmp_path / "local" / "train.ds").read_bytes()
    with pytest.raises(StoreError, match="memory://parts/none"):
        electra.prepare("memory://parts/none/*", merge=True, out="memory://parts/other", progress="quiet")


def test_an_upload_that_fails_is_no_store_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import fsspec

    corpus, system = write(tmp_path, texts(100)), fsspec.filesystem("memory")
    words = [
        "prepare",
        str(corpus),
        "--out",
        "memory://out-of-space/store",
        "--vocab-size",
        "60",
        "--workers",
        "1",
    ]
    put, sent = system.pipe_file, []

    def fail(path: str, content: bytes) -> None:
        if "/chunks/" in path:
            sent.append(path)
            if len(sent) > 5:
                raise OSError("the bucket is full")
        put(path, content)

    monkeypatch.setattr(system, "pipe_file", fail)
    assert main(words) == 2
    told = capsys.readouterr().err.strip()
    assert "memory://out-of-space/store" in told and "the bucket is full" in " ".join(told.split())
    with pytest.raises(StoreError):
        TokenStore.open("memory://out-of-space/store")
    monkeypatch.undo()
    monkeypatch.setenv("ELECTRA_CACHE", str(tmp_path / "cache"))
    assert main(words) == 0
    TokenStore.open("memory://out-of-space/store").verify()
    assert main([*words[:-3], "50", *words[-2:]]) == 2  # other settings: refused, and the store stays
    assert "memory://out-of-space/store" in capsys.readouterr().err
    TokenStore.open("memory://out-of-space/store").verify()


@pytest.mark.parametrize(
    ("address", "word"), [("https://127.0.0.1:9/store", "http"), ("nosuch://bucket/store", "nosuch")]
)
def test_an_address_that_cannot_be_written_is_refused_before_the_work(
    address: str, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "electra.data.store_builder.build_store", lambda *_, **__: pytest.fail("the text was read")
    )
    with pytest.raises(ElectraError, match=word) as raised:
        electra.prepare(write(tmp_path, texts(5)), out=address, **OPTIONS)
    assert raised.value.where == address


@pytest.mark.parametrize("size", [0.0, -1.0, float("nan"), float("inf")])
def test_a_cache_without_a_size_is_refused(size: float, both: tuple[TokenStore, Path]) -> None:
    with pytest.raises(ConfigError) as raised:
        TokenStore.open(f"file://{both[1]}", cache_gb=size)
    assert raised.value.key == "store_cache_gb"


def test_a_copy_of_the_chunks_in_a_folder_is_refused(both: tuple[TokenStore, Path]) -> None:
    with pytest.raises(StoreError, match="address"):
        TokenStore.open(both[1])


def test_a_bucket(both: tuple[TokenStore, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "moto or s3fs is not installed (pip install -r tests/s3.txt)"
    moto = pytest.importorskip("moto.server", reason=reason, exc_type=ImportError)
    s3fs = pytest.importorskip("s3fs", reason=reason, exc_type=ImportError)
    for name, value in {
        "ACCESS_KEY_ID": "a",
        "SECRET_ACCESS_KEY": "b",
        "DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    served = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    served.start()
    try:
        _, port = served.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        corpus = tmp_path / "corpus.jsonl"
        with pytest.raises(StoreError, match="s3://none/store"):
            electra.prepare(corpus, out="s3://none/store", **OPTIONS)
        s3fs.S3FileSystem().mkdir("bucket")
        electra.prepare(corpus, out="s3://bucket/store", **OPTIONS)
        opened = TokenStore.open("s3://bucket/store")
        assert opened.train.tokens[:].tobytes() == (both[0].path / "train.ds").read_bytes()
        opened.verify()
    finally:
        served.stop()
