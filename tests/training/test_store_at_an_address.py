"""A run on a store at an address, through a cache smaller than it, has the bits of a run on a local store."""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path

import pytest
from driven import Forked, command, complete, fingerprint, steps_done, write_corpus

import electra
from electra.artifacts.run import RunFolder
from electra.data import chunks

CACHE = {"store-cache-gb": "2e-6"}


@pytest.mark.slow
def test_killed_and_without_a_chunk_for_a_while(
    toy_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {"ELECTRA_CACHE": str(tmp_path / "cache")}
    monkeypatch.setenv("ELECTRA_CACHE", variables["ELECTRA_CACHE"])
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 512)
    corpus, address = write_corpus(tmp_path / "corpus.txt"), f"file://{tmp_path}/far"
    options = {"unit": "line", "heldout": 0.1, "vocab_size": 90, "workers": 1, "progress": "quiet"}
    assert electra.prepare(corpus, out=address, **options).num_tokens * 2 > 4000  # twice the cache
    local, out = tmp_path / "local", tmp_path / "run"
    complete(command(toy_store, local))
    words = command(Path("store"), out, **CACHE)
    words[words.index("store")] = address

    process = Forked(words, **variables)
    while steps_done(out) < 6 and process.poll() is None:
        time.sleep(0.01)
    process.send(signal.SIGKILL)
    process.finish()

    (tmp_path / "far" / "chunks").rename(tmp_path / "elsewhere")
    for folder in (tmp_path / "cache" / "stores").glob("*.chunks"):
        shutil.rmtree(folder)
    process = Forked(words, **variables)
    said = process.finish()
    errors = [line for line in said.splitlines() if line.startswith("error:")]
    assert process.poll() == 2 and len(errors) == 1 and "Traceback" not in said, said
    assert address in "".join(said.split())

    (tmp_path / "elsewhere").rename(tmp_path / "far" / "chunks")
    process = Forked(words, **variables)
    said = process.finish()
    assert process.poll() == 0, said
    assert fingerprint(out) == fingerprint(local)
    [folder] = (tmp_path / "cache" / "stores").glob("*.chunks")
    assert 0 < sum(path.stat().st_size for path in folder.iterdir()) <= 2000
    assert RunFolder(out).record["environment"]["store"] == address
    replayed = Forked(["verify", str(out), "--replay", "2"], **variables)
    said = replayed.finish()
    assert replayed.poll() == 0, said
