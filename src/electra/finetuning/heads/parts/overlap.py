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
LONGEST = 200  # words of each text in the longest common subsequence
OVERLAP = (
    "words in common",
    "of the first's words",
    "of the second's words",
    "word pairs",
    "runs of 2 characters",
    "runs of 3 characters",
    "words in order",
    "log ratio of words",
)


def overlap(first: str, second: str) -> list[float]:
    """Returns the features of `OVERLAP`, from 0 to 1 (except the log ratio of lengths)."""
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
        _share(2 * common_subsequence(a[:LONGEST], b[:LONGEST]), len(a[:LONGEST]) + len(b[:LONGEST])),
        math.log((1 + len(b)) / (1 + len(a))),
    ]


def weighted_overlap(first: str, second: str, weight: Callable[[str], float]) -> float:
    """Returns the Jaccard similarity of the two texts' words, each weighted by `weight`."""
    a, b = set(words(first)), set(words(second))
    return _share(sum(map(weight, a & b)), sum(map(weight, a | b)))


def words(text: str) -> list[str]:
    """Returns the lower-cased words and punctuation marks of a text."""
    return WORD.findall(text.lower())


def character_ngrams(text: str, length: int) -> Iterator[str]:
    """Yields runs of `length` characters, which also match inflected words and scripts without spaces."""
    plain = " ".join(text.lower().split())
    return (plain[i : i + length] for i in range(len(plain) - length + 1))


def common_subsequence(a: Sequence[str], b: Sequence[str]) -> int:
    """Returns the length of the longest common subsequence of two lists of words."""
    row = np.zeros(len(b) + 1, np.int64)
    b_words = np.array(b, dtype=object)
    for word in a:
        extended = np.where(b_words == word, row[:-1] + 1, row[1:])
        row[1:] = np.maximum.accumulate(np.maximum(extended, row[1:]))
    return int(row[-1])


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _dice(first: Iterable[Any], second: Iterable[Any]) -> float:
    a, b = Counter(first), Counter(second)
    return _share(2 * (a & b).total(), a.total() + b.total())
