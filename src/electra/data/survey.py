"""Measures a corpus without preparing it: reads all of it and counts the tokens of a sample."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from electra.data.audit import Audit
from electra.data.corpus import Documents, KeptDocument, keep_documents, show
from electra.data.holding_out import no_text
from electra.data.settings import CorpusConfig, TokenizerConfig
from electra.data.sources import Argument
from electra.data.store_builder import sample_documents
from electra.data.tokenizer import Count, Tokenizer
from electra.data.wordpiece import choose_accents

SAMPLE_CHARACTERS = 4_000_000  # characters for training a vocabulary and counting tokens


class Survey(NamedTuple):
    """The size of a corpus, not counting duplicates."""

    documents: int
    characters: int
    tokens: int
    """An estimate: the tokens per character of a sample, times all characters."""
    vocab_size: int
    tokenizer: Tokenizer
    """That which encoded the sample, and counted its tokens."""


def survey(
    sources: Sequence[Argument], tokenizer: Tokenizer | TokenizerConfig, config: CorpusConfig
) -> Survey:
    """Reads a corpus and estimates its size; see `store_builder.build_store` for arguments and errors."""
    audit = Audit()
    documents = characters = 0

    def counted(corpus: Documents) -> Iterator[KeptDocument]:
        nonlocal documents, characters
        for document in keep_documents(corpus, audit, "reading"):
            documents, characters = documents + 1, characters + len(document.text)
            yield document

    with tempfile.TemporaryDirectory() as work:
        corpus = Documents(sources, config, Path(work))
        sample = sample_documents(counted(corpus), SAMPLE_CHARACTERS)
        if not sample:
            audit.sources = corpus.describe()
            raise no_text(audit)
    if isinstance(tokenizer, TokenizerConfig):
        show("training a vocabulary on a sample", sum(map(len, sample)))
        tokenizer = Tokenizer.train(sample, choose_accents(sample, tokenizer)[0])
    tokenizer.counted = Count()
    tokens = sum(map(len, tokenizer.encode_corpus(sample))) * characters / max(1, sum(map(len, sample)))
    return Survey(documents, characters, round(tokens), tokenizer.vocab_size, tokenizer)
