"""How much text a corpus holds, without preparing it: all of it is read, a sample's tokens are counted."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from electra.data.audit import Audit
from electra.data.corpus import Documents
from electra.data.kept import Kept, kept
from electra.data.packing import Counted, no_text, sample_of
from electra.data.settings import CorpusConfig, TokenizerConfig
from electra.data.tokenizer import Tokenizer
from electra.data.wordpiece import settle_accents

SAMPLE = 4_000_000  # characters, to train a vocabulary on and to count the tokens of


@dataclass(frozen=True)
class Survey:
    """A corpus in numbers, repetitions left out."""

    documents: int
    characters: int
    tokens: int
    """Estimated: the sample's tokens per character, times the characters."""
    vocab_size: int


def survey(
    sources: Sequence[str | Path],
    tokenizer: Tokenizer | TokenizerConfig,
    config: CorpusConfig | None = None,
    progress: Counted = lambda stage, characters: None,
) -> Survey:
    """Raises CorpusError where there is no text, or none that can be read."""
    audit = Audit()
    documents = characters = 0

    def counted() -> Iterator[Kept]:
        nonlocal documents, characters
        for document in kept(read, audit, partial(progress, "reading"), work):
            documents, characters = documents + 1, characters + len(document.text)
            yield document

    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        read = Documents(sources, config or CorpusConfig(), work)
        sample = sample_of(counted(), SAMPLE)
        if not sample:
            raise no_text(Audit(documents_read=audit.documents_read, sources=read.describe()))
    if isinstance(tokenizer, TokenizerConfig):
        progress("training a vocabulary on a sample", sum(map(len, sample)))
        tokenizer = Tokenizer.train(sample, settle_accents(sample, tokenizer)[0])
    tokens = sum(map(len, tokenizer.encode_corpus(sample)))
    share = characters / max(1, sum(map(len, sample)))
    return Survey(documents, characters, round(tokens * share), tokenizer.vocab_size)
