"""A tokenizer that is trained on the small corpora."""

import pytest
from corpora import texts

from electra.data.corpus.tokenizer import Tokenizer
from electra.data.text_settings import TokenizerConfig


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(texts(), TokenizerConfig(vocab_size=80))
