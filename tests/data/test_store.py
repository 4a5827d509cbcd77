"""Opening a store: what is damaged or foreign is named; bare pairs of files open with a tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from corpora import all_ids, texts, write

from electra.data import store
from electra.data.packing import build_store
from electra.data.store import TokenDocuments, TokenStore
from electra.data.tokenizer import Tokenizer, TokenizerConfig
from electra.errors import StoreError


def damaged(path: Path, file: str, change: Callable[[bytes], bytes]) -> None:
    (path / file).write_bytes(change((path / file).read_bytes()))


def test_damage_is_named(tmp_path: Path, tokenizer: Tokenizer) -> None:
    corpus = write(tmp_path, texts(50))
    cases: list[tuple[str, Callable[[bytes], bytes], str]] = [
        ("train.ds", lambda content: content[:-2], "tokens instead of"),
        ("train.ds", lambda content: content[:-1], "no whole number of 2-byte entries"),
        ("heldout.ds", lambda content: b"", "0 bytes"),
        ("train.ds.index", lambda content: content[:-8], "the last document ends at"),
        ("heldout.ds.index", lambda content: content[:0] + content[-8:] * 2, "documents instead of"),
        ("store.json", lambda content: content[:-10], "not readable as JSON"),
        ("store.json", lambda content: content.replace(b'"format": 1', b'"format": 99'), "store format 99"),
        ("store.json", lambda content: content.replace(b'"pad"', b'"bad"'), "store.json is damaged"),
        ("store.json", lambda content: b"[]", "store.json is damaged"),
    ]
    for number, (file, change, message) in enumerate(cases):
        path = build_store([corpus], tokenizer, tmp_path / str(number)).path
        damaged(path, file, change)
        with pytest.raises(StoreError, match=message) as caught:
            TokenStore.open(path)
        assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    path = build_store([corpus], tokenizer, tmp_path / "flip").path
    damaged(path, "train.ds", lambda content: bytes([content[0] ^ 1]) + content[1:])
    with pytest.raises(StoreError, match=r"train.ds is damaged"):
        TokenStore.open(path).verify()
    (path / "train.ds").unlink()
    with pytest.raises(StoreError, match="missing from the token store"):
        TokenStore.open(path)
    with pytest.raises(StoreError, match="no such token store"):
        TokenStore.open(tmp_path / "nowhere")
    with pytest.raises(StoreError, match="not a token store"):
        TokenStore.open(tmp_path)
    other = Tokenizer.train(texts(9), TokenizerConfig(vocab_size=70))
    with pytest.raises(StoreError, match="another tokenizer"):
        TokenStore.open(build_store([corpus], tokenizer, tmp_path / "good").path, tokenizer=other)


def test_a_bare_pair_of_files(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """The layout that datatrove writes, held-out documents taken from its end."""
    documents = [tokenizer.encode_corpus([text])[0] for text in texts(40)]
    np.concatenate(documents).astype("<u2").tofile(tmp_path / "bare.ds")
    np.cumsum([len(ids) for ids in documents]).astype("<u8").tofile(tmp_path / "bare.ds.index")
    opened = TokenStore.open(tmp_path / "bare.ds", tokenizer=tokenizer, heldout=0.1)
    assert all_ids(opened.train) == [ids.tolist() for ids in documents[:36]]
    assert all_ids(opened.heldout) == [ids.tolist() for ids in documents[36:]]
    assert opened.tokenizer is tokenizer and len(opened.digest) == 64 and opened.audit == {}
    opened.verify()
    with pytest.raises(StoreError, match="does not say which tokenizer"):
        TokenStore.open(tmp_path / "bare.ds")
    small = Tokenizer.train(texts(), TokenizerConfig(vocab_size=70))
    with pytest.raises(StoreError, match=r"token id \d+ is outside the tokenizer's vocabulary"):
        TokenStore.open(tmp_path / "bare.ds", tokenizer=small)
    np.array([9, 3, sum(map(len, documents))], dtype="<u8").tofile(tmp_path / "bare.ds.index")
    with pytest.raises(StoreError, match="go backwards"):
        TokenStore.open(tmp_path / "bare.ds", tokenizer=tokenizer)
    np.array([sum(map(len, documents))], dtype="<u8").tofile(tmp_path / "bare.ds.index")
    with pytest.raises(StoreError, match="a single document"):
        TokenStore.open(tmp_path / "bare.ds", tokenizer=tokenizer)


def test_the_digest_is_of_ids_documents_and_tokenizer() -> None:
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
