"""The overlap of two texts: words, bigrams, character n-grams, and word order."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

WORD = re.compile(r"\w+|[^\w\s]")
MAX_WORDS = 200  # the longest common subsequence considers this many words of each text
OVERLAP_FEATURES = (
    "words in common",
    "share of the first text's words",
    "share of the second text's words",
    "word bigrams",
    "character bigrams",
    "character trigrams",
    "words in order",
    "log ratio of the numbers of words",
)


def overlap(first: str, second: str) -> list[float]:
    """Returns `OVERLAP_FEATURES`, which lie between 0 and 1 (except the log ratio)."""
    a, b = words(first), words(second)
    set_a, set_b = set(a), set(b)
    common = set_a & set_b
    return [
        _share(len(common), len(set_a | set_b)),
        _share(len(common), len(set_a)),
        _share(len(common), len(set_b)),
        _dice(pairwise(a), pairwise(b)),
        _dice(character_ngrams(first, 2), character_ngrams(second, 2)),
        _dice(character_ngrams(first, 3), character_ngrams(second, 3)),
        _share(2 * common_subsequence(a[:MAX_WORDS], b[:MAX_WORDS]), len(a[:MAX_WORDS]) + len(b[:MAX_WORDS])),
        math.log((1 + len(b)) / (1 + len(a))),
    ]


def weighted_overlap(first: str, second: str, weight: Callable[[str], float]) -> float:
    """Returns the Jaccard similarity of two texts' words, each weighted by `weight`; 0 without words."""
    a, b = set(words(first)), set(words(second))
    return _share(sum(map(weight, a & b)), sum(map(weight, a | b)))


def words(text: str) -> list[str]:
    """Returns the lower-cased words and punctuation marks of a text."""
    return WORD.findall(text.lower())


def character_ngrams(text: str, length: int) -> Iterator[str]:
    """Yields the lower-cased n-grams of `length` characters, which inflected forms of a word partly share.

    Runs of white space become one space.
    """
    folded_text = " ".join(text.lower().split())
    return (folded_text[i : i + length] for i in range(len(folded_text) - length + 1))


def common_subsequence(a: Sequence[str], b: Sequence[str]) -> int:
    """Returns the length of the longest common subsequence of two lists of words."""
    lengths = np.zeros(len(b) + 1, np.int64)
    b_words = np.array(b, dtype=object)
    for word in a:
        extended = np.where(b_words == word, lengths[:-1] + 1, lengths[1:])
        lengths[1:] = np.maximum.accumulate(np.maximum(extended, lengths[1:]))
    return int(lengths[-1])


def _share(count: float, total: float) -> float:
    return count / total if total else 0.0


def _dice(first: Iterable[Any], second: Iterable[Any]) -> float:
    a, b = Counter(first), Counter(second)
    return _share(2 * (a & b).total(), a.total() + b.total())
