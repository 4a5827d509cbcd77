"""Near-duplicates are detected at the requested similarity, whatever the memory and the calls."""

from __future__ import annotations

import hashlib
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import all_ids, contents, write

from electra.data import deduplication, near_duplicates
from electra.data.near_duplicates import (
    MAX_MISSED,
    MINIMA,
    NearDuplicates,
    NearMatch,
    band_layout,
    signatures,
)
from electra.data.settings import CorpusConfig
from electra.data.store_builder import build_store
from electra.data.tokenizer import Tokenizer
from electra.foundation.errors import ConfigError

WORDS = [hashlib.blake2b(bytes([i, i // 7]), digest_size=3).hexdigest() for i in range(250)]


def sentence(draw: random.Random, words: int = 30) -> str:
    return " ".join(draw.choices(WORDS, k=words))


def altered(text: str, draw: random.Random, words: int = 1) -> str:
    """Replaces some words."""
    parts = text.split()
    for place in draw.sample(range(len(parts)), words):
        parts[place] = draw.choice(WORDS)
    return " ".join(parts)


def windows(text: str) -> set[bytes]:
    content = f" {text} ".encode()
    return {content[i : i + 8] for i in range(len(content) - 7)}


def corpus(count: int = 200, seed: int = 0) -> list[str]:
    """Every other text is an earlier one with up to four words changed."""
    draw = random.Random(seed)
    output: list[str] = []
    for number in range(count):
        old = number % 2 and output
        output.append(altered(draw.choice(output), draw, draw.randint(0, 4)) if old else sentence(draw))
    return output


def find(
    texts: list[str], threshold: float, together: int = 10**6
) -> tuple[list[NearMatch | None], list[dict[str, Any]]]:
    """Returns the matches of texts that are divided into calls, and the examples."""
    seen = NearDuplicates(threshold)
    parts = [seen.find(texts[start : start + together]) for start in range(0, len(texts), together)]
    return [one for part in parts for one in part], seen.examples()


def test_the_similarity_is_the_share_of_common_windows() -> None:
    draw = random.Random(1)
    errors = []
    for words in (1, 2, 4, 8) * 25:
        one = sentence(draw)
        other = altered(one, draw, words)
        a, b = windows(one), windows(other)
        estimate = (np.equal(*signatures([one, other]))).mean()
        errors.append(estimate - len(a & b) / len(a | b))
    assert abs(np.mean(errors)) < 0.01 and np.std(errors) < 0.04  # sqrt(0.25 / 128) is 0.044


def test_case_and_whitespace_are_ignored() -> None:
    one, other = signatures(["The  chef\ncooked.", "the chef cooked."])
    assert (one == other).all()


def test_the_bands_miss_few_pairs_at_the_threshold() -> None:
    for threshold in (0.5, 0.6, 0.7, 0.8, 0.9, 0.99):
        count, rows = band_layout(threshold)
        assert count * rows <= MINIMA and (1 - threshold**rows) ** count <= MAX_MISSED
    assert band_layout(0.8) == (21, 6)


def test_duplicates_are_exactly_the_similar_documents() -> None:
    texts = corpus()
    actual, _ = find(texts, 0.8)
    before: list[set[bytes]] = []
    for text, earlier in zip(texts, actual, strict=True):
        mine = windows(text)
        true = [len(mine & old) / len(mine | old) for old in before]
        if earlier is None:
            assert max(true, default=0) < 0.9
            before.append(mine)
        else:
            assert abs(true[earlier.document] - earlier.similarity) < 0.13 and true[earlier.document] > 0.7
    assert 50 < len(before) < 180


@pytest.mark.parametrize("together", [3, 50])
def test_batching_does_not_change_the_duplicates(together: int) -> None:
    texts = corpus()
    actual, examples = find(texts, 0.7)
    assert find(texts, 0.7, together) == (actual, examples)
    assert any(actual) and len(examples) == near_duplicates.MAX_EXAMPLES


def test_candidates_are_compared_with_the_earliest_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """The earlier documents may be in runs or in the same call."""
    texts = corpus()
    actual, _ = find(texts, 0.9)
    monkeypatch.setattr(near_duplicates, "MAX_CANDIDATES", 1)
    fewer, _ = find(texts, 0.9)
    assert fewer != actual and find(texts, 0.9, 10)[0] == fewer


def test_signatures_never_change() -> None:
    """Another version of the library may give others: then the same command drops other documents."""
    output = signatures(["", "the chef cooked the meal", "\u540d\u524d\u306f", "x" * 100])
    assert hashlib.sha256(output.astype("<u4").tobytes()).hexdigest()[:16] == "ca8d028c0063689c"


def test_near_duplicates_are_dropped_from_a_store(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = corpus()
    path = write(tmp_path, [*texts, "", texts[0]])
    config = CorpusConfig(heldout=0.05, near_duplicates=0.8)
    one = build_store([path], tokenizer, tmp_path / "one", config=config, workers=1)
    audit = one.audit
    dropped = audit["documents_near_duplicate"]
    assert 10 < dropped < 100 and audit["documents_duplicate"] >= 1 and audit["documents_empty"] == 1
    assert dropped + sum(audit[f"documents_{n}"] for n in ("empty", "duplicate", "train", "heldout")) == 202
    unique = list(dict.fromkeys(texts))
    keep = [text for text, earlier in zip(unique, find(unique, 0.8)[0], strict=True) if not earlier]
    assert sorted(all_ids(one.train) + all_ids(one.heldout)) == sorted(
        tokenizer.encode(text).ids[1:-1] for text in keep
    )
    shown = audit["near_duplicates"]
    assert [example["similarity"] for example in shown] == sorted(example["similarity"] for example in shown)
    assert shown[0]["similarity"] >= 0.8 and shown[0]["document"] in texts and shown[0]["earlier"] in keep

    monkeypatch.setattr(deduplication, "_CHUNK_DOCUMENTS", 16)
    other = build_store([path], tokenizer, tmp_path / "two", config=config, workers=2)
    assert contents(other.path) == contents(one.path)


def test_a_wrong_threshold_is_refused(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for threshold in (0.0, 0.4, 1.0, 80.0):
        with pytest.raises(ConfigError):
            CorpusConfig(near_duplicates=threshold)
    path, config = write(tmp_path, corpus(4)), CorpusConfig(near_duplicates=0.8)
    monkeypatch.setitem(sys.modules, "rensa", None)
    with pytest.raises(ConfigError):
        build_store([path], tokenizer, tmp_path / "store", config=config, workers=1)
