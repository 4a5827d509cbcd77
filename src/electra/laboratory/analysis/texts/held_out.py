"""Held-out text for probes: as rows of token ids, or as sentences split into words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from electra.artifacts.store import StoreFolder
from electra.data.corpus import Documents
from electra.data.settings import CorpusConfig
from electra.data.store import TokenStore
from electra.foundation.arrays import Ints
from electra.laboratory.analysis.contract import Input, ProbeDataError

if TYPE_CHECKING:
    from electra.data.tokenizer import Tokenizer


STORE = StoreFolder.RECORD
PER_DOCUMENT = 8  # maximum rows or sentences from one document, so that none dominates the sample
SHORTEST = 8  # minimum tokens in a row and words in a sentence: leaves out headings and the like
LONGEST_SENTENCE = 40  # words
LONGEST_TEXT = 1000  # maximum tokens of a document, of 8 characters each, from which sentences are taken
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_WORD = re.compile(r"\w+(?:['\u2019]\w+)*|[^\w\s]")


def text_input(required: bool = True) -> Input:
    """Returns the input for held-out text: a token store or text files."""
    patterns = (STORE, "heldout*.txt*", "wikitext*test*.txt*", "./*.txt*", "./*.jsonl*", "./*.parquet")
    return Input("text", "held-out text (a token store or text files)", patterns, required)


def held_out_rows(tokenizer: Tokenizer, paths: Sequence[Path], *, length: int, count: int) -> list[Ints]:
    """Returns at most `count` rows of up to `length` ids, a few from each held-out document or text.

    Raises:
        ProbeDataError: No text is long enough, or the token store has a different tokenizer.
    """
    rows: list[Ints] = []
    for ids in _documents(tokenizer, paths):
        starts = range(0, max(1, len(ids) - length // 2), length)
        pieces = [ids[start : start + length] for start in starts[:PER_DOCUMENT]]
        rows += [row for row in pieces if len(row) >= SHORTEST]
        if len(rows) >= count:
            break
    rows = rows[:count]
    if not rows:
        raise ProbeDataError(
            "contains no text that is long enough",
            where=paths[0],
            fix="Pass a token store or other text files",
        )
    return rows


def held_out_sentences(tokenizer: Tokenizer, paths: Sequence[Path], *, count: int) -> list[list[str]]:
    """Returns at most `count` sentences as words, a few from each document. A store is decoded to text.

    Raises:
        ProbeDataError: No sentence has a suitable length, or the token store has a different tokenizer.
    """
    if paths[0].name == STORE:
        texts: Iterator[str] = (tokenizer.decode(ids[:LONGEST_TEXT]) for ids in _documents(tokenizer, paths))
    else:
        texts = _texts(paths)
    sentences: list[list[str]] = []
    for text in texts:
        pieces = [split_words(part) for part in _SENTENCE.split(text[: 8 * LONGEST_TEXT])]
        sentences += [words for words in pieces if SHORTEST <= len(words) <= LONGEST_SENTENCE][:PER_DOCUMENT]
        if len(sentences) >= count:
            break
    if not sentences:
        raise ProbeDataError(
            "contains no sentences of a suitable length",
            where=paths[0],
            fix="Pass a token store or other text files",
        )
    return sentences[:count]


def _documents(tokenizer: Tokenizer, paths: Sequence[Path]) -> Iterator[Ints]:
    if paths[0].name != STORE:
        for text in _texts(paths):
            yield tokenizer.encode_corpus([text])[0].astype(np.int64)
        return
    store = TokenStore.open(paths[0].parent)
    if store.tokenizer_digest != tokenizer.digest:
        fix = "Pass text files, which are tokenised for each model"
        raise ProbeDataError(
            "the token store was made with a different tokenizer than the model's", where=store.path, fix=fix
        )
    for index in range(store.heldout.num_documents):
        yield np.asarray(store.heldout.document(index)).astype(np.int64)


def _texts(paths: Sequence[Path]) -> Iterator[str]:
    for text in Documents(paths, CorpusConfig(unit="line")):
        yield text.text


def split_words(text: str) -> list[str]:
    """Returns words and punctuation marks as separate strings."""
    return _WORD.findall(text)
