"""Opening a store: damaged and foreign files are named, and bare pairs of files open with a tokenizer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from corpora import all_ids, texts, write

from electra.data import store
from electra.data.settings import TokenizerConfig
from electra.data.store import TokenDocuments, TokenStore
from electra.data.store_builder import build_store
from electra.data.tokenizer import Tokenizer
from electra.foundation.errors import StoreError


def damaged(path: Path, file: str, change: Callable[[bytes], bytes]) -> None:
    (path / file).write_bytes(change((path / file).read_bytes()))


def exchanged(content: bytes) -> bytes:
    """Exchanges the ids of [MASK] and [PAD] in store.json."""
    record = json.loads(content)
    specials = record["specials"]
    record["specials"] = specials | {"mask": specials["pad"], "pad": specials["mask"]}
    return json.dumps(record).encode()


def test_damage_is_refused_by_name(tmp_path: Path, tokenizer: Tokenizer) -> None:
    corpus = write(tmp_path, texts(50))
    cases: list[tuple[str, Callable[[bytes], bytes], str]] = [
        ("train.ds", lambda content: content[:-2], "train.ds"),
        ("train.ds", lambda content: content[:-1], "train.ds"),
        ("heldout.ds", lambda content: b"", "heldout.ds"),
        ("train.ds.index", lambda content: content[:-8], "train.ds"),
        ("heldout.ds.index", lambda content: content[:0] + content[-8:] * 2, "heldout"),
        ("store.json", lambda content: content[:-10], "store.json"),
        ("store.json", lambda content: content.replace(b'"format": 1', b'"format": 99'), "99"),
        ("store.json", lambda content: content.replace(b'"pad"', b'"bad"'), "store.json"),
        ("store.json", lambda content: b"[]", "store.json"),
    ]
    for wrong in (80, -1, 2**70, "1", 1.5, True, None):

        def change(content: bytes, mask: object = wrong) -> bytes:
            record = json.loads(content)
            record["specials"]["mask"] = mask
            return json.dumps(record).encode()

        cases.append(("store.json", change, "mask"))
    for number, (file, change, message) in enumerate(cases):
        path = build_store([corpus], tokenizer, tmp_path / str(number)).path
        damaged(path, file, change)
        with pytest.raises(StoreError, match=message) as caught:
            TokenStore.open(path)
        assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    path = build_store([corpus], tokenizer, tmp_path / "flip").path
    damaged(path, "train.ds", lambda content: bytes([content[0] ^ 1]) + content[1:])
    with pytest.raises(StoreError, match=r"train\.ds"):
        TokenStore.open(path).verify()
    (path / "train.ds").unlink()
    with pytest.raises(StoreError):
        TokenStore.open(path)
    with pytest.raises(StoreError):
        TokenStore.open(tmp_path / "nowhere")
    with pytest.raises(StoreError):
        TokenStore.open(tmp_path)
    path = build_store([corpus], tokenizer, tmp_path / "exchanged").path
    damaged(path, "store.json", exchanged)
    with pytest.raises(StoreError):
        TokenStore.open(path).check()
    other = Tokenizer.train(texts(9), TokenizerConfig(vocab_size=70))
    with pytest.raises(StoreError):
        TokenStore.open(build_store([corpus], tokenizer, tmp_path / "good").path, tokenizer=other)


def test_a_bare_pair_of_files_opens_as_a_store(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """The layout that datatrove writes, held-out documents taken from its end."""
    documents = [tokenizer.encode_corpus([text])[0] for text in texts(40)]
    np.concatenate(documents).astype("<u2").tofile(tmp_path / "bare.ds")
    np.cumsum([len(ids) for ids in documents]).astype("<u8").tofile(tmp_path / "bare.ds.index")
    opened = TokenStore.open(tmp_path / "bare.ds", tokenizer=tokenizer, heldout=0.1)
    assert all_ids(opened.train) == [ids.tolist() for ids in documents[:36]]
    assert all_ids(opened.heldout) == [ids.tolist() for ids in documents[36:]]
    assert opened.tokenizer is tokenizer and len(opened.digest) == 64 and opened.audit == {}
    opened.verify()
    with pytest.raises(StoreError):
        TokenStore.open(tmp_path / "bare.ds")
    small = Tokenizer.train(texts(), TokenizerConfig(vocab_size=70))
    with pytest.raises(StoreError):
        TokenStore.open(tmp_path / "bare.ds", tokenizer=small)
    np.array([9, 3, sum(map(len, documents))], dtype="<u8").tofile(tmp_path / "bare.ds.index")
    with pytest.raises(StoreError):
        TokenStore.open(tmp_path / "bare.ds", tokenizer=tokenizer)
    np.array([sum(map(len, documents))], dtype="<u8").tofile(tmp_path / "bare.ds.index")
    with pytest.raises(StoreError):
        TokenStore.open(tmp_path / "bare.ds", tokenizer=tokenizer)


def test_the_digest_covers_ids_documents_and_tokenizer() -> None:
    def digest(tokens: list[int], ends: list[int], tokenizer: str = "t") -> str:
        documents = TokenDocuments(np.array(tokens, dtype="<u2"), np.array(ends, dtype="<u8"))
        return store.content_digest(documents, documents, tokenizer)

    different = [
        digest([1, 2, 3], [3]),
        digest([1, 2, 4], [3]),
        digest([1, 2, 3], [1, 3]),
        digest([1, 2, 3], [3], "u"),
    ]
    assert len(set(different)) == 4 and digest([1, 2, 3], [3]) == different[0]


def shuffled(content: bytes) -> bytes:
    ids = np.frombuffer(content, "<u2")
    return np.random.default_rng(0).permutation(ids).tobytes()


def with_entry(position: int, value: int, kind: str) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        entries = np.frombuffer(content, kind).copy()
        entries[position] = value
        return entries.tobytes()

    return change


@pytest.mark.parametrize("at_once", [1 << 30, 0])
def test_training_refuses_a_store_whose_bytes_changed(
    at_once: int, tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damage is found before training, or soon after its start if the store is large."""
    monkeypatch.setattr(store, "FOREGROUND_BYTES", at_once)
    corpus = write(tmp_path, texts(50))
    cases: list[tuple[str, Callable[[bytes], bytes], str]] = [
        ("train.ds", lambda content: bytes([content[0] ^ 1]) + content[1:], "store.json"),
        ("heldout.ds", lambda content: content[:-2] + bytes([content[-2] ^ 4]) + content[-1:], "store.json"),
        ("train.ds", shuffled, "store.json"),
        ("train.ds.index", with_entry(3, 1 << 40, "<u8"), "train.ds"),
        ("train.ds", with_entry(5, 60_000, "<u2"), "60000"),
        (
            "store.json",
            lambda content: content.replace(b'"vocab_size": 80', b'"vocab_size": 1000000000'),
            "80 entries",
        ),
        (
            "store.json",
            lambda content: content.replace(b'"settings"', b'"rettings"'),
            "store.json",
        ),
        ("audit.json", lambda content: content.replace(b"words", b"wores"), "audit.json"),
        ("manifest.json", lambda content: content[:-2], "manifest.json"),
    ]
    for number, (file, change, message) in enumerate(cases):
        path = build_store([corpus], tokenizer, tmp_path / f"{number}").path
        sound = TokenStore.open(path).check()
        if at_once == 0:
            sound.join(60)
        sound.raise_if_damaged()
        before = (path / file).read_bytes()
        damaged(path, file, change)
        assert (path / file).read_bytes() != before, file
        with pytest.raises(StoreError, match=message) as caught:
            check = TokenStore.open(path).check()
            check.join(60)
            check.raise_if_damaged()
        assert str(path) in str(caught.value)
