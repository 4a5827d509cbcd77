"""Opening a store: damaged and foreign files are named, and bare pairs of files open with a tokenizer."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from corpora import all_ids, texts, write

from electra.data.corpus import store
from electra.data.corpus.store import TokenDocuments, TokenStore
from electra.data.corpus.store_builder import build_store
from electra.data.corpus.tokenizer import Tokenizer
from electra.data.text_settings import TokenizerConfig
from electra.foundation.errors import StoreError


def damaged(path: Path, file: str, change: Callable[[bytes], bytes]) -> None:
    (path / file).write_bytes(change((path / file).read_bytes()))


def with_specials(**ids: object) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        record = json.loads(content)
        record["specials"] |= ids
        return json.dumps(record).encode()

    return change


DAMAGES: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("train.ds", lambda content: content[:-2], "train.ds"),
    ("train.ds", lambda content: content[:-1], "train.ds"),
    ("heldout.ds", lambda content: b"", "heldout.ds"),
    ("train.ds.index", lambda content: content[:-8], "train.ds"),
    ("heldout.ds.index", lambda content: content[-8:] * 2, "heldout"),
    ("store.json", lambda content: content[:-10], "store.json"),
    ("store.json", lambda content: content.replace(b'"format": 1', b'"format": 99'), "99"),
    ("store.json", lambda content: content.replace(b'"pad"', b'"bad"'), "store.json"),
    ("store.json", lambda content: b"[]", "store.json"),
    *(("store.json", with_specials(mask=wrong), "mask") for wrong in (80, -1, 2**70, "1", 1.5, True, None)),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> Path:
    folder = tmp_path_factory.mktemp("built")
    return build_store([write(folder, texts(50))], tokenizer, folder / "store").path


@pytest.mark.parametrize(("file", "change", "message"), DAMAGES)
def test_damage_is_refused_by_name(
    file: str, change: Callable[[bytes], bytes], message: str, built: Path, tmp_path: Path
) -> None:
    path = shutil.copytree(built, tmp_path / "copy")
    damaged(path, file, change)
    with pytest.raises(StoreError, match=message) as caught:
        TokenStore.open(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_missing_and_exchanged_stores_are_refused(built: Path, tmp_path: Path) -> None:
    path = shutil.copytree(built, tmp_path / "copy")
    damaged(path, "train.ds", lambda content: bytes([content[0] ^ 1]) + content[1:])
    with pytest.raises(StoreError, match=r"train\.ds"):
        TokenStore.open(path).verify()
    (path / "train.ds").unlink()
    for missing in (path, tmp_path / "nowhere", tmp_path):
        with pytest.raises(StoreError):
            TokenStore.open(missing)
    path = shutil.copytree(built, tmp_path / "exchanged")
    damaged(path, "store.json", with_specials(mask=0, pad=4))  # exchanged
    with pytest.raises(StoreError):
        TokenStore.open(path).check()
    with pytest.raises(StoreError):
        TokenStore.open(built, tokenizer=Tokenizer.train(texts(9), TokenizerConfig(vocab_size=70)))


@pytest.mark.parametrize(("entries", "width"), [(65_535, 2), (65_536, 2), (65_536, 4), (65_537, 4)])
def test_a_bare_pair_is_read_in_the_width_that_it_was_written_in(
    entries: int, width: int, tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """datatrove writes 65,536 entries in two bytes, and we in four."""
    monkeypatch.setattr(tokenizer, "vocab_size", entries)
    ids = np.array([7, 8, entries - 1, 9])
    ids.astype(f"<u{width}").tofile(tmp_path / "bare.ds")
    np.array([1, 3, 4], "<u8").tofile(tmp_path / "bare.ds.index")
    assert TokenStore.open(tmp_path / "bare.ds", tokenizer).train.tokens.tolist() == ids[:3].tolist()


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
    small = Tokenizer.train(texts(), TokenizerConfig(vocab_size=70))
    for other in (None, small):
        with pytest.raises(StoreError):
            TokenStore.open(tmp_path / "bare.ds", tokenizer=other)
    num_tokens = sum(map(len, documents))
    for ends in ([9, 3, num_tokens], [num_tokens]):
        np.array(ends, dtype="<u8").tofile(tmp_path / "bare.ds.index")
        with pytest.raises(StoreError):
            TokenStore.open(tmp_path / "bare.ds", tokenizer=tokenizer)


def test_the_digest_covers_ids_documents_and_tokenizer() -> None:
    def digest(tokens: list[int], ends: list[int], tokenizer: str = "t") -> str:
        documents = TokenDocuments(np.array(tokens, dtype="<u2"), np.array(ends, dtype="<u8"))
        return store.content_digest(documents, documents, tokenizer)

    different = [digest([1, 2, 3], [3]), digest([1, 2, 4], [3]), digest([1, 2, 3], [1, 3])]
    different.append(digest([1, 2, 3], [3], "u"))
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


CHANGES: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("train.ds", lambda content: bytes([content[0] ^ 1]) + content[1:], "store.json"),
    ("heldout.ds", lambda content: content[:-2] + bytes([content[-2] ^ 4]) + content[-1:], "store.json"),
    ("train.ds", shuffled, "store.json"),
    ("train.ds.index", with_entry(3, 1 << 40, "<u8"), "train.ds"),
    ("train.ds", with_entry(5, 60_000, "<u2"), "60000"),
    ("store.json", lambda text: text.replace(b'_size": 80', b'_size": 1000000000'), "80 entries"),
    ("store.json", lambda content: content.replace(b'"settings"', b'"rettings"'), "store.json"),
    ("audit.json", lambda content: content.replace(b"words", b"wores"), "audit.json"),
    ("manifest.json", lambda content: content[:-2], "manifest.json"),
]


def test_training_refuses_a_store_whose_bytes_changed(built: Path, tmp_path: Path) -> None:
    TokenStore.open(built).check()
    for number, (file, change, message) in enumerate(CHANGES):
        path = shutil.copytree(built, tmp_path / str(number))
        damaged(path, file, change)
        assert (path / file).read_bytes() != (built / file).read_bytes(), file
        with pytest.raises(StoreError, match=message) as caught:
            TokenStore.open(path).check()
        assert str(path) in str(caught.value)
