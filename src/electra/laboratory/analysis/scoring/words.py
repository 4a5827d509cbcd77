"""What a network says of each word, out of what it says of the word's tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def owners(tokenizer: Tokenizer, words: Sequence[str]) -> Ints:
    """For each token of the words joined by spaces, its word: the one that holds its last character."""
    ends = np.cumsum([len(word) + 1 for word in words])
    last = np.array([max(end - 1, 0) for _, end in tokenize(tokenizer, " ".join(words)).offsets], np.int64)
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
    progress: Share | None = None,
) -> list[Floats]:
    """For each sentence, one value a word: what the network says of its tokens, transformed, combined."""
    per_token = token_scores(loaded, [" ".join(words) for words in texts], reading, progress)
    found = []
    for words, values in zip(texts, per_token, strict=True):
        owner = owners(loaded.tokenizer, words)
        assert len(owner) == len(values), "two ways to tokenise differ"
        found.append(combine(transform(values), owner, len(words), how))
    return found


def suspicion(values: Floats) -> Floats:
    """For `word_values`: odds become log-odds of "replaced", log p surprisal; higher is more suspicious."""
    return -values
