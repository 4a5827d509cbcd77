"""Values of words from the values of their tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from electra.foundation.arrays import Floats, Ints
from electra.foundation.progress import Share
from electra.inference.detection import tokenize
from electra.laboratory.analysis.scoring.scorers import Reading, token_scores

if TYPE_CHECKING:
    from electra.data.tokenizer import Tokenizer
    from electra.exchange.load import Loaded


def word_ids(tokenizer: Tokenizer, words: Sequence[str]) -> Ints:
    """Returns the index of each token's word, for words joined by spaces."""
    return word_ids_at(words, tokenize(tokenizer, " ".join(words)).offsets)


def word_ids_at(words: Sequence[str], offsets: Iterable[tuple[int, int]]) -> Ints:
    """Returns the index of each token's word, from the tokens' offsets in the words joined by spaces.

    A token belongs to the word with its last character: some tokenizers let a token begin with a space.
    """
    ends = np.cumsum([len(word) + 1 for word in words])
    last_character = np.array([max(end - 1, 0) for _, end in offsets], np.int64)
    return np.searchsorted(ends, last_character, side="right").astype(np.int64)


def highest_token_values(values: Floats, word_ids: Ints, num_words: int) -> Floats:
    """Returns the highest value [words] of each word's tokens; NaN for a word without tokens."""
    by_word = np.full(num_words, np.nan)
    np.fmax.at(by_word, word_ids, values)
    return by_word


def word_values(
    loaded: Loaded,
    texts: Sequence[Sequence[str]],
    reading: Reading,
    transform: Callable[[Floats], Floats],
    *,
    progress: Share | None = None,
) -> list[Floats]:
    """Returns, for each sentence, the highest value [words] of each word's tokens.

    A word without tokens gets NaN.

    Args:
        loaded: The network.
        texts: The words of each sentence.
        reading: What to compute for each token.
        transform: Applied first to the readings of a sentence's tokens, such as `suspicion`.
        progress: Receives the fraction done.

    Raises:
        ModelError: The network cannot give this reading.
    """
    per_token = token_scores(loaded, [" ".join(words) for words in texts], reading, progress)
    values_of_texts = []
    for words, values in zip(texts, per_token, strict=True):
        ids = word_ids(loaded.tokenizer, words)
        assert len(ids) == len(values), "the two tokenisations differ"
        values_of_texts.append(highest_token_values(transform(values), ids, len(words)))
    return values_of_texts


def suspicion(values: Floats) -> Floats:
    """Returns readings as suspicions: odds become log-odds of "replaced", log p becomes surprisal."""
    return -values
