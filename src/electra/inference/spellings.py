"""Words that look alike: the near spellings of a word among the tokens of a model."""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from electra.data.corpus.tokenizer import Tokenizer
from electra.foundation.arrays import Floats, Ints

# How much more often (log) a word was meant for one that differs in one or in two letters than for another
NEARNESS = {1: 6.0, 2: 2.0}
FAR = -5.0  # log-probability plus nearness of all other words
LONGEST_WORD = 16  # letters of a word that has near spellings


class Spellings:
    """The words that a model may suggest: its tokens that are whole words."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        tokens = [tokenizer.readable(i) for i in range(tokenizer.vocab_size)]
        self.is_word = np.array([token.isalpha() for token in tokens]) & ~tokenizer.continues  # [V]
        self.ids = {t: i for i, t in enumerate(tokens) if self.is_word[i] and 2 <= len(t) <= LONGEST_WORD}
        self._words = list(self.ids)
        rows = ((hash(f), i, n) for i, word in enumerate(self._words) for f, n in _shortened(word.lower()))
        forms = np.fromiter(rows, np.dtype((np.int64, 3)))
        self._forms, self._owners, self._dropped = forms[np.argsort(forms[:, 0])].T
        self.weighted = lru_cache(2**16)(self._weights)

    def near(self, word: str) -> dict[str, int]:
        """Returns the words that equal it once one letter, or two, are dropped from either, and how many.

        Two are dropped from words of four letters and more.
        """
        edits: dict[str, int] = {}
        forms = list(_shortened(word.lower())) if len(word) <= LONGEST_WORD + 2 else []
        hashes = np.array([hash(form) for form, _ in forms], np.int64)
        ends = (np.searchsorted(self._forms, hashes, side) for side in ("left", "right"))
        for (_, dropped), start, end in zip(forms, *(each.tolist() for each in ends), strict=True):
            for i in range(start, end):
                other, most = self._words[self._owners[i]], max(dropped, int(self._dropped[i]))
                edits[other] = min(most, edits.get(other, most))
        return {other: edits[other] for other in sorted(edits) if other.lower() != word.lower()}

    def expected(self, word: str, log_p_V: Floats) -> float:
        """Returns the log-probability that a near spelling of a word stands in its place, plus `NEARNESS`."""
        ids, weights = self.weighted(word)
        return float(np.log(np.exp(log_p_V[ids] + weights).sum() + np.exp(FAR)))

    def _weights(self, word: str) -> tuple[Ints, Floats]:
        near = self.near(word)
        weights = [NEARNESS[edits] for edits in near.values()]
        return np.array([self.ids[each] for each in near], np.int64), np.array(weights, np.float64)


def _shortened(word: str) -> Iterator[tuple[str, int]]:
    forms = {word}
    for dropped in range(2 + (len(word) >= 4)):
        yield from ((form, dropped) for form in forms)
        forms = {form[:i] + form[i + 1 :] for form in forms for i in range(len(form))}
