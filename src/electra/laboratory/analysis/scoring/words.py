"""Values of words from the values of their tokens."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from electra.foundation.arrays import Floats, Ints
from electra.inference.detection import tokenize
from electra.laboratory.analysis.scoring.scorers import Reading, token_scores

if TYPE_CHECKING:
    from electra.data.corpus.tokenizer import Tokenizer
    from electra.exchange.load import Loaded


def word_ids(tokenizer: "Tokenizer", words: Sequence[str]) -> Ints:
    """Returns the index of each token's word, for words joined by spaces."""
    return word_ids_at(words, tokenize(tokenizer, " ".join(words)).offsets)


def word_ids_at(words: Sequence[str], offsets: Iterable[tuple[int, int]]) -> Ints:
    """Returns the index of each token's word, from the tokens' offsets in the words joined by spaces.

    A token belongs to the word with its last character: some tokenizers let a token begin with a space.
    """
    ends = np.cumsum([len(word) + 1 for word in words])
    last_character = np.array([max(end - 1, 0) for _, end in offsets], np.int64)
    return np.searchsorted(ends, last_character, side="right").astype(np.int64)


def word_suspicion(loaded: "Loaded", texts: Sequence[Sequence[str]], reading: Reading) -> list[Floats]:
    """Returns, for each sentence given as words, the suspicion [words] of each word's most suspicious token.

    The suspicion of a token is its reading, negated: odds become log-odds of "replaced", log p becomes
    surprisal. A word without tokens gets NaN. Raises ModelError if the network cannot give this reading.
    """
    per_token = token_scores(loaded, [" ".join(words) for words in texts], reading)
    suspicions = []
    for words, values in zip(texts, per_token, strict=True):
        ids, by_word = word_ids(loaded.tokenizer, words), np.full(len(words), np.nan)
        assert len(ids) == len(values), "the two tokenisations differ"
        np.fmax.at(by_word, ids, -values)
        suspicions.append(by_word)
    return suspicions
