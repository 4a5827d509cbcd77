"""Values of words from the values of their tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from electra.foundation.arrays import Floats, Ints
from electra.foundation.progress import Share
from electra.inference.detection import tokenize
from electra.laboratory.analysis.scoring.scorers import Reading, token_scores

if TYPE_CHECKING:
    from electra.data.tokenizer import Tokenizer
    from electra.exchange.load import Loaded

Combine = Literal["max", "mean", "first"]
"""How to combine the values of a word's tokens."""


def owners(tokenizer: Tokenizer, words: Sequence[str]) -> Ints:
    """For each token of the words joined by spaces, the index of its word."""
    return owners_at(words, tokenize(tokenizer, " ".join(words)).offsets)


def owners_at(words: Sequence[str], offsets: Iterable[tuple[int, int]]) -> Ints:
    """For each token, by its offsets in the words joined by spaces, the index of its word.

    A token belongs to the word with its last character: some tokenizers let a token begin with a space.
    """
    ends = np.cumsum([len(word) + 1 for word in words])
    last = np.array([max(end - 1, 0) for _, end in offsets], np.int64)
    return np.searchsorted(ends, last, side="right").astype(np.int64)


def combine(values: Floats, owner: Ints, count: int, how: Combine) -> Floats:
    """One value for each word [count] from its tokens' values; NaN for a word without tokens."""
    by_word = np.full(count, np.nan)
    if how == "max":
        np.fmax.at(by_word, owner, values)
    elif how == "first":
        by_word[owner[::-1]] = values[::-1]
    else:
        number = np.bincount(owner, minlength=count)
        by_word = np.where(number > 0, np.bincount(owner, values, count) / np.maximum(number, 1), np.nan)
    return by_word


def word_values(
    loaded: Loaded,
    texts: Sequence[Sequence[str]],
    reading: Reading,
    transform: Callable[[Floats], Floats],
    *,
    how: Combine = "max",
    progress: Share | None = None,
) -> list[Floats]:
    """For each sentence, one value for each word: the reading of its tokens, transformed and combined."""
    per_token = token_scores(loaded, [" ".join(words) for words in texts], reading, progress)
    values_by_text = []
    for words, values in zip(texts, per_token, strict=True):
        owner = owners(loaded.tokenizer, words)
        assert len(owner) == len(values), "the two tokenisations differ"
        values_by_text.append(combine(transform(values), owner, len(words), how))
    return values_by_text


def suspicion(values: Floats) -> Floats:
    """A `transform` for `word_values`: odds become log-odds of "replaced", log p becomes surprisal."""
    return -values
