"""Batches contain every token once, in segments that never mix documents."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from electra.data.corpus.batches import Batches
from electra.data.corpus.store import TokenDocuments
from electra.data.corpus.tokenizer_folder import Specials
from electra.foundation.errors import ConfigError, StoreError

SPECIALS = Specials(pad=0, unk=1, cls=2, sep=3, mask=4)
FIRST = 5  # the first id that is not special


def documents_of(sizes: list[int]) -> TokenDocuments:
    """Returns documents of these sizes with distinct ids, so that a lost or doubled token shows."""
    total = sum(sizes)
    return TokenDocuments(np.arange(FIRST, FIRST + total, dtype="<u4"), np.cumsum(sizes, dtype="<u8"))


def batches_of(sizes: list[int], length: int, seed: int = 0) -> Batches:
    return Batches(documents_of(sizes), length=length, seed=seed, specials=SPECIALS)


@settings(max_examples=150, deadline=None)
@given(
    sizes=st.lists(st.one_of(st.integers(1, 3), st.integers(0, 40)), min_size=1, max_size=60).filter(any),
    length=st.integers(5, 24),
)
def test_rows_hold_every_token_once_in_segments_of_one_document(sizes: list[int], length: int) -> None:
    batches = batches_of(sizes, length)
    rows = batches.rows(np.arange(batches.num_blocks))
    document_of = np.repeat(np.arange(len(sizes)), sizes)
    tokens = rows.input_ids[~rows.special]
    assert tokens.tolist() == list(range(FIRST, FIRST + sum(sizes)))  # none lost, none doubled, none moved
    padded_rows = 0
    for ids, positions, document_ids, special in zip(
        rows.input_ids, rows.position_ids, rows.document_ids, rows.special, strict=True
    ):
        used = int((document_ids >= 0).sum())
        assert (document_ids[used:] == -1).all() and (ids[used:] == SPECIALS.pad).all()
        assert (positions[used:] == 0).all() and special[used:].all()
        documents = range(document_ids[:used].max() + 1)
        assert {*document_ids[:used].tolist()} == {*documents} and (np.diff(document_ids[:used]) >= 0).all()
        padded_rows += used < length
        for document in documents:
            inside = document_ids == document
            text = ids[inside]
            assert text[0] == SPECIALS.cls and text[-1] == SPECIALS.sep and len(text) > 2
            assert special[inside].tolist() == [True] + [False] * (len(text) - 2) + [True]
            assert positions[inside].tolist() == list(range(len(text)))
            assert len(set(document_of[text[1:-1] - FIRST].tolist())) == 1
    assert rows.packed == (bool((rows.document_ids != 0).any()))
    if all(size == 0 for size in sizes[1:]):
        assert padded_rows <= 1, "one long document is padded in its last row only"


def test_every_epoch_visits_every_block_once_in_another_order() -> None:
    batches = batches_of([7, 1, 1, 30, 2, 90], length=8, seed=3)
    count = batches.num_blocks

    def epoch(number: int) -> list[int]:
        actual = []
        for example in range(number * count, (number + 1) * count):
            batch = batches.batch(example, 1)
            actual.extend(batch.input_ids[~batch.special].tolist())
        return actual

    everything = list(range(FIRST, FIRST + 131))
    assert sorted(epoch(0)) == sorted(epoch(1)) == everything
    assert epoch(0) != epoch(1) and epoch(0) != everything


@settings(max_examples=50, deadline=None)
@given(
    step=st.integers(0, 10**9),
    batch_size=st.integers(1, 40),
    cuts=st.lists(st.integers(0, 40), max_size=3),
    seed=st.integers(0, 2**63 - 1),
)
def test_a_batch_does_not_depend_on_the_number_of_processes(
    step: int, batch_size: int, cuts: list[int], seed: int
) -> None:
    batches = batches_of([5, 1, 17, 2, 2, 64], length=9, seed=seed)
    again = batches_of([5, 1, 17, 2, 2, 64], length=9, seed=seed)
    whole = batches.batch(step, batch_size)
    edges = sorted({0, batch_size, *(min(cut, batch_size) for cut in cuts)})
    parts = [batches.batch(step, batch_size, start, stop) for start, stop in itertools.pairwise(edges)]
    for name in ("input_ids", "position_ids", "document_ids", "special", "examples"):
        assert np.array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(whole, name))
    assert whole.examples.tolist() == list(range(step * batch_size, (step + 1) * batch_size))
    assert whole.digest == again.batch(step, batch_size).digest
    assert whole.digest != batches.batch(step + 1, batch_size).digest


def test_a_batch_larger_than_the_corpus_holds_several_epochs() -> None:
    batches = batches_of([4], length=8)
    assert batches.num_blocks == 1
    batch = batches.batch(0, 3)
    assert batch.input_ids.tolist() == [[2, 5, 6, 7, 8, 3, 0, 0]] * 3
    assert batch.examples.tolist() == [0, 1, 2] and batch.packed
    assert not batches_of([12], length=8).batch(0, 2).packed, "a full row of one document needs no mask"


def test_each_document_of_a_row_has_its_own_segment_and_positions() -> None:
    rows = batches_of([3, 2, 6], length=10).rows([0, 1])
    assert rows.input_ids.tolist() == [[2, 5, 6, 7, 3, 2, 8, 9, 3, 0], [2, 10, 11, 12, 13, 14, 15, 3, 0, 0]]
    assert rows.document_ids.tolist() == [[0, 0, 0, 0, 0, 1, 1, 1, 1, -1], [0] * 8 + [-1, -1]]
    assert rows.position_ids.tolist() == [[0, 1, 2, 3, 4, 0, 1, 2, 3, 0], [0, 1, 2, 3, 4, 5, 6, 7, 0, 0]]


def test_special_tokens_inside_a_document_are_special() -> None:
    """Other makers of stores end each document with one; it must never be masked. [UNK] is text."""
    documents = TokenDocuments(
        np.array([9, SPECIALS.unk, SPECIALS.sep, 8, SPECIALS.mask, 7], dtype="<u2"),
        np.array([3, 6], dtype="<u8"),
    )
    rows = Batches(documents, length=10, seed=0, specials=SPECIALS).rows([0])
    assert rows.input_ids[0].tolist() == [2, 9, 1, 3, 3, 2, 8, 4, 7, 3]
    assert rows.special[0].tolist() == [True, False, False, True, True, True, False, True, False, True]


def test_a_short_length_and_an_empty_store_are_refused() -> None:
    with pytest.raises(ConfigError, match="5"):
        batches_of([9], length=4)
    with pytest.raises(StoreError):
        Batches(TokenDocuments(np.empty(0, "<u2"), np.empty(0, "<u8")), length=8, seed=0, specials=SPECIALS)
