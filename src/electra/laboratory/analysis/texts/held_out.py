"""Running text and sentences for probes: as rows of ids, or as words judged word by word."""

from __future__ import annotations

import re
import tempfile
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
PER_DOCUMENT = 8  # rows or sentences taken from one document at most, so that no document is the whole sample
SHORTEST = 8  # tokens of a row, words of a sentence: headings and the like are left out
LONGEST_SENTENCE = 40
LONGEST_TEXT = 1000  # tokens of a document that sentences are taken from
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_WORD = re.compile(r"\w+(?:['\u2019]\w+)*|[^\w\s]")


def text_input(required: bool = True) -> Input:
    patterns = (STORE, "heldout*.txt*", "wikitext*test*.txt*", "./*.txt*", "./*.jsonl*", "./*.parquet")
    return Input("text", "held-out text (a token store or text files)", patterns, required)


def held_out_rows(tokenizer: Tokenizer, paths: Sequence[Path], *, length: int, count: int) -> list[Ints]:
    """`count` rows of up to `length` ids, of held-out documents or text files, few of any document."""
    rows: list[Ints] = []
    for ids in _documents(tokenizer, paths):
        starts = range(0, max(1, len(ids) - length // 2), length)
        cut = [ids[start : start + length] for start in starts[:PER_DOCUMENT]]
        rows += [row for row in cut if len(row) >= SHORTEST]
        if len(rows) >= count:
            break
    rows = rows[:count]
    if not rows:
        raise ProbeDataError("no text in it", where=paths[0], fix="Give a token store or text files")
    return rows


def held_out_sentences(tokenizer: Tokenizer, paths: Sequence[Path], *, count: int) -> list[list[str]]:
    """`count` sentences as words, few of any one document. A store's ids are first made text again."""
    if paths[0].name == STORE:
        texts: Iterator[str] = (tokenizer.decode(ids[:LONGEST_TEXT]) for ids in _documents(tokenizer, paths))
    else:
        texts = _texts(paths)
    found: list[list[str]] = []
    for text in texts:
        cut = [words_of(part) for part in _SENTENCE.split(text[: 8 * LONGEST_TEXT])]
        found += [words for words in cut if SHORTEST <= len(words) <= LONGEST_SENTENCE][:PER_DOCUMENT]
        if len(found) >= count:
            break
    if not found:
        raise ProbeDataError("no sentences in it", where=paths[0], fix="Give a token store or text files")
    return found[:count]


def _documents(tokenizer: Tokenizer, paths: Sequence[Path]) -> Iterator[Ints]:
    if paths[0].name != STORE:
        for text in _texts(paths):
            yield tokenizer.encode_corpus([text])[0].astype(np.int64)
        return
    store = TokenStore.open(paths[0].parent)
    if store.tokenizer_digest != tokenizer.digest:
        fix = "Give text files, which each model tokenises for itself"
        raise ProbeDataError(
            "this token store was made with another tokenizer than the model's", where=store.path, fix=fix
        )
    for index in range(store.heldout.num_documents):
        yield np.asarray(store.heldout.document(index)).astype(np.int64)


def _texts(paths: Sequence[Path]) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as scratch:
        for text in Documents(paths, CorpusConfig(unit="line"), Path(scratch)):
            yield text.text


def words_of(text: str) -> list[str]:
    """Words and punctuation marks, apart."""
    return _WORD.findall(text)
