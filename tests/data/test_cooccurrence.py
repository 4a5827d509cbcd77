"""Co-occurrence vectors: counts, information and factors against direct computations."""

import math

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from electra.data.corpus import cooccurrence
from electra.data.corpus.store import TokenDocuments
from electra.testing import toy


def counted_by_hand(documents: TokenDocuments, vocab_size: int, window: int) -> np.ndarray:
    unit, start = math.lcm(*range(1, window + 1)), 0
    counts = np.zeros((vocab_size, vocab_size), dtype=np.int64)
    for end in documents.ends.astype(int):
        document = documents.tokens[start:end].astype(int)
        for here, token in enumerate(document):
            for there in range(max(0, here - window), min(len(document), here + window + 1)):
                if here != there:
                    counts[token, document[there]] += unit // abs(here - there)
        start = end
    return counts


@pytest.mark.parametrize("block", [7, 64, 1 << 21])
@pytest.mark.parametrize("window", [1, 3, 4])
def test_counts_equal_those_counted_by_hand(window: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cooccurrence, "BLOCK", block)
    documents = toy.documents(12, 3)
    actual = cooccurrence.cooccurrence_counts(documents, toy.VOCABULARY, window)
    assert (actual.toarray() == counted_by_hand(documents, toy.VOCABULARY, window)).all()


def test_a_long_text_is_sampled_in_blocks_from_its_whole_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of tokens 0, 1, 2, ...: which are counted says where it was read."""
    monkeypatch.setattr(cooccurrence, "BLOCK", 10)
    monkeypatch.setattr(cooccurrence, "MAX_TOKENS", 30)
    for length, begins in ((95, (0, 30, 60)), (30, (0, 10, 20)), (21, (0, 10, 20)), (7, (0,))):
        text = TokenDocuments(np.arange(length, dtype=np.uint16), np.array([length], dtype=np.uint64))
        actual = np.flatnonzero(cooccurrence.cooccurrence_counts(text, 100, window=1).diagonal(1))
        expected = [at for begin in begins for at in range(begin, min(begin + 10, length - 1))]
        assert actual.tolist() == expected


def test_positive_pmi_follows_the_formula() -> None:
    together = cooccurrence.cooccurrence_counts(toy.documents(40, 3), toy.VOCABULARY)
    joint = together.toarray() / together.sum()
    single = joint.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        contexts = single**0.75 / (single**0.75).sum()
        expected = np.nan_to_num(np.maximum(np.log(joint / np.outer(single, contexts)), 0), nan=0)
    assert cooccurrence.positive_pmi(together).toarray() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("dimensions", [5, 40])
def test_factors_equal_the_singular_value_decomposition(dimensions: int) -> None:
    """Compares inner products, since vectors are rotated; 40 dimensions exceed the rank of the matrix."""
    random = np.random.default_rng(0)
    left, right = (np.linalg.qr(random.standard_normal((30, 30)))[0] for _ in range(2))
    values = 4.0 ** -np.arange(30)
    values[10:] = 0
    matrix = (left * values) @ right.T
    kept = np.arange(30) < dimensions
    expected = (left * values * kept) @ left.T
    actual = cooccurrence.factorise(sparse.csr_array(matrix), dimensions)
    assert actual.shape == (30, dimensions)
    assert actual @ actual.T == pytest.approx(expected, abs=1e-5)


def test_vectors_are_the_same_on_one_thread_and_on_two() -> None:
    documents = toy.documents(300, 3)
    with threadpool_limits(1):
        alone = cooccurrence.token_vectors(documents, 60, 16)
    with threadpool_limits(2):
        shared = cooccurrence.token_vectors(documents, 60, 16)
    assert (alone == shared).all()


def test_vectors_reflect_the_contexts_of_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Centred, of one deviation, zero where nothing is known; tokens with like neighbours are alike."""
    random = np.random.default_rng(0)
    # 1 and 2 stand before 5, 3 and 4 before 6, in no other respect told apart; 0 and 7 never occur.
    pairs = [(token, 5 if token < 3 else 6) for token in random.integers(1, 5, 4000)]
    documents = TokenDocuments(np.array(pairs, dtype=np.uint16).ravel(), np.arange(2, 8001, 2, dtype=np.uint64))
    vectors = cooccurrence.token_vectors(documents, 8, 4)
    seen = vectors[1:7]
    assert not vectors[[0, 7]].any()
    assert seen.mean(axis=0) == pytest.approx(0, abs=1e-3) and seen.std() == pytest.approx(1, abs=1e-3)
    like, unlike = (float(np.linalg.norm(vectors[1] - vectors[other])) for other in (2, 3))
    assert like < unlike / 10
