"""Running text and sentences for probes: as rows of ids, or as words judged word by word."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from electra.analysis.parts.interface import Input, ProbeDataError
from electra.analysis.parts.reading import Sentence, sentences
from electra.analysis.parts.scoring import Reading, token_scores
from electra.analysis.parts.tokens import Floats, Ints
from electra.data.corpus import CorpusConfig, Documents
from electra.data.store import TokenStore
from electra.interop.detection import split

if TYPE_CHECKING:
    from electra.data.tokenizer import Tokenizer
    from electra.interop.load import Loaded

Combine = Literal["max", "mean", "first"]
Language = Literal["en", "de"]

STORE = "store.json"
CORRECT = "c"
PER_DOCUMENT = 8  # rows or sentences taken from one document at most, so that no document is the whole sample
SHORTEST = 8  # tokens of a row, words of a sentence: headings and the like are left out
LONGEST_SENTENCE = 40
LONGEST_TEXT = 1000  # tokens of a document that sentences are taken from
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_WORD = re.compile(r"\w+(?:['\u2019]\w+)*|[^\w\s]")


def text_input(required: bool = True) -> Input:
    patterns = (STORE, "heldout*.txt*", "wikitext*test*.txt*", "./*.txt*", "./*.jsonl*", "./*.parquet")
    return Input("text", "held-out text (a token store or text files)", patterns, required)


def learner_inputs(language: Language, required: bool = True) -> tuple[Input, Input]:
    """Learners' sentences with labels for each word: "c" correct, anything else an error."""
    corpus = {"en": "fce", "de": "falko"}[language]
    dev = (f"ged/{corpus}*/dev.tsv*", "./dev.tsv*", "./*dev*.tsv*")
    test = (f"ged/{corpus}*/test.tsv*", "./test.tsv*", "./*test*.tsv*")
    what = "learners' sentences with a label for each word"
    return Input("learners", f"{what} (dev)", dev, required), Input(
        "learners_test", f"{what} (test)", test, required=False
    )


def held_out_rows(tokenizer: Tokenizer, paths: Sequence[Path], *, length: int, count: int) -> list[Ints]:
    """`count` rows of up to `length` ids, from a store's held-out documents or from text files, few of any
    one document.
    """
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
    """`count` sentences as words, cut at full stops, few of any one document. A store's ids are first made
    text again.
    """
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


def read_learners(path: Path) -> list[Sentence]:
    """Sentences with one column of labels, "c" where nothing is wrong. Such files write a double quote as
    \\".
    """
    found = [
        Sentence(tuple(word.replace('\\"', '"') for word in one.words), one.columns)
        for one in sentences(path, (1,), separator="\t")
    ]
    if not any(CORRECT in one.columns[0] for one in found):
        raise ProbeDataError(
            f'no word is labelled "{CORRECT}" (correct)',
            where=path,
            fix="Give a word, a tab and its label on each line",
        )
    return found


def words_of(text: str) -> list[str]:
    """Words and punctuation marks, apart."""
    return _WORD.findall(text)


def owners(tokenizer: Tokenizer, words: Sequence[str]) -> Ints:
    """For each token of the words joined by spaces, the word that it belongs to: the one that holds its last
    character.
    """
    ends = np.cumsum([len(word) + 1 for word in words])
    last = np.array([max(end - 1, 0) for _, end in split(tokenizer, " ".join(words)).offsets], np.int64)
    return np.searchsorted(ends, last, side="right").astype(np.int64)


def combine(values: Floats, owner: Ints, count: int, how: Combine) -> Floats:
    """One value a word out of its tokens' values; NaN for a word without tokens."""
    found = np.full(count, np.nan)
    if how == "max":
        np.fmax.at(found, owner, values)
    elif how == "first":
        found[owner[::-1]] = values[::-1]
    else:
        number = np.bincount(owner, minlength=count)
        found = np.where(number > 0, np.bincount(owner, values, count) / np.maximum(number, 1), np.nan)
    return found


def word_values(
    loaded: Loaded,
    texts: Sequence[Sequence[str]],
    reading: Reading,
    transform: Callable[[Floats], Floats],
    *,
    how: Combine = "max",
    progress: Callable[[int, int], None] | None = None,
) -> list[Floats]:
    """For each sentence given as words, one value a word: what the network says of its tokens, transformed,
    combined.
    """
    per_token = token_scores(loaded, [" ".join(words) for words in texts], reading, progress)
    found = []
    for words, values in zip(texts, per_token, strict=True):
        owner = owners(loaded.tokenizer, words)
        assert len(owner) == len(values), "two ways to tokenise differ"
        found.append(combine(transform(values), owner, len(words), how))
    return found


def suspicion(values: Floats) -> Floats:
    """For `word_values`: the higher, the more suspicious. A discriminator's "odds" become log-odds of
    replaced, log p surprisal.
    """
    return -values
