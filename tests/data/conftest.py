"""A tokenizer that is trained on the small corpora."""

from __future__ import annotations

import pytest
from corpora import texts

from electra.data.settings import TokenizerConfig
from electra.data.tokenizer import Tokenizer


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(texts(), TokenizerConfig(vocab_size=80))
