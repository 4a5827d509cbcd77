"""Counted features: what a linear model sees of a text, a pair or a word without a network.

of a text   the TF-IDF weights of its words, pairs of words, and characters: 2 to 5 within a word
of a pair   how many words and characters the two texts share (`overlaps`)
of a word   its form, shape, first and last characters, and the two words on either side with their endings

Features are strings, hashed to 31 bits by scikit-learn, so a vocabulary is an array of numbers: those that
the training data has, the most frequent ones if there are too many. They are in no particular script.

Shapes: N texts, pairs or words; K features in the vocabulary.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from electra.foundation.arrays import Floats, Ints, Vectors

Texts: TypeAlias = tuple[str, ...]
"""A text, the two texts of a pair, or the words of a sentence."""
Kind = Literal["texts", "pairs", "words"]

WORD = re.compile(r"\w+|[^\w\s]")
HASHES = 2**31 - 1
MAX_WEIGHTS = 2_000_000  # features times outputs
EDGES, ENDINGS, NEIGHBOURS = (1, 2, 3, 4), (2, 3), (-2, -1, 1, 2)
GRAMS = (2, 3, 4, 5)  # characters
LONGEST = 20_000  # characters of a text that are read
NUM_OVERLAPS = 7


@dataclass(frozen=True)
class Counts:
    """The counted features of texts, pairs or words: those that are known, and how each is weighted."""

    kind: Kind
    hashes: Ints  # [K], ascending; of pairs those of single words
    rarity: Vectors  # [K], of a word's features 1

    @classmethod
    def learn(cls, kind: Kind, texts: Sequence[Texts], num_outputs: int) -> Counts:
        """Returns the features that the training texts have, at most MAX_WEIGHTS for all outputs."""
        rows = [row for each in texts for row in FEATURES[kind](each)]
        found, frequencies = np.unique(hashed(rows).indices, return_counts=True)
        size = MAX_WEIGHTS // max(2, num_outputs)
        kept = np.sort(np.argsort(-frequencies, kind="stable")[:size])
        rarity = np.log((1 + len(rows)) / (1 + frequencies[kept])) + 1
        if kind == "words":
            rarity = np.ones(len(kept))
        return cls(kind, found[kept].astype(np.int64), rarity.astype(np.float32))

    def matrix(self, texts: Sequence[Texts], chosen: Sequence[Ints] = ()) -> Any:
        """Returns the features as a sparse matrix [N, columns]; of sentences, those of the `chosen` words.

        A text has TF-IDF weights with norm 1, a word 0 or 1, and a pair its overlaps.
        """
        from scipy.sparse import csr_array

        if self.kind == "pairs":
            return csr_array(np.array([self.overlaps(*pair) for pair in texts], np.float32))
        rows = [row for each in texts for row in FEATURES[self.kind](each)]
        if chosen:
            starts = np.cumsum([0, *map(len, texts)])
            rows = [rows[start + i] for start, of_text in zip(starts, chosen, strict=False) for i in of_text]
        counts = hashed(rows)
        places, is_known = self.find(counts.indices)
        ends = np.concatenate([[0], np.cumsum(is_known)])[counts.indptr]
        values = (1 + np.log(counts.data[is_known])).astype(np.float32) * self.rarity[places[is_known]]
        if self.kind == "texts":
            row_of = np.repeat(np.arange(len(rows)), np.diff(ends))
            values /= np.sqrt(np.bincount(row_of, np.square(values), len(rows)))[row_of].astype(np.float32)
        return csr_array((values, places[is_known], ends), (len(rows), self.num_columns))

    @property
    def num_columns(self) -> int:
        """The number of columns of the matrix."""
        return NUM_OVERLAPS + 1 if self.kind == "pairs" else len(self.hashes)

    def find(self, hashes: npt.NDArray[Any]) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Returns the place of each feature in the vocabulary, and whether it is there."""
        if not len(self.hashes):
            return np.zeros(len(hashes), np.int64), np.zeros(len(hashes), bool)
        places = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        return places, self.hashes[places] == hashes

    def overlaps(self, first: str, second: str) -> Floats:
        """Returns the `overlaps` of two texts, and that of their words by rarity [NUM_OVERLAPS + 1]."""
        known = sorted({*words(first), *words(second)})
        places, is_known = self.find(hashed([[word] for word in known] or [[]]).indices)
        unknown = float(self.rarity.max(initial=1.0))
        rarity = np.where(is_known, self.rarity[places], unknown) if len(self.rarity) else np.ones(len(known))
        weight = dict(zip(known, map(float, rarity), strict=True))
        return np.append(overlaps(first, second), weighted_overlap(first, second, weight.__getitem__))


def hashed(rows: Sequence[Sequence[str]]) -> Any:
    """Returns how often each row has each feature, as a sparse matrix [N, 2^31 - 1]."""
    from sklearn.feature_extraction import FeatureHasher

    return FeatureHasher(HASHES, input_type="string", alternate_sign=False).transform(rows)


def words(text: str) -> list[str]:
    """Returns the lower-cased words and punctuation marks of a text."""
    return WORD.findall(text.lower())


def of_text(texts: Texts) -> list[list[str]]:
    """Returns the features of a text."""
    [text] = texts
    text = text[:LONGEST]
    found = words(text)
    features = [*found, *(f"{first} {second}" for first, second in pairwise(found))]
    for word in text.lower().split():
        padded = f" {word} "
        features += [f"={padded[i : i + n]}" for n in GRAMS for i in range(len(padded) - n + 1)]
    return [features]


def of_pair(texts: Texts) -> list[list[str]]:
    """Returns the different words of each text of a pair."""
    return [sorted({*words(text)}) for text in texts]


def of_words(sentence: Texts) -> Iterator[list[str]]:
    """Yields the features of each word of a sentence."""
    low = [word.lower() for word in sentence]
    about = [[f"={word}", *(f"-{n}{word[-n:]}" for n in ENDINGS)] for word in low]
    for place, word in enumerate(sentence):
        features = ["", f"w{word}", f"l{low[place]}", f"s{shape(word)}"]
        for n in EDGES:
            features += [f"p{low[place][:n]}", f"e{low[place][-n:]}"] if n <= len(word) else []
        for step in NEIGHBOURS:
            other = place + step
            features += [f"{step}{each}" for each in about[other]] if 0 <= other < len(low) else [f"{step}"]
        if place:
            features.append(f"b{low[place - 1]} {low[place]}")
            features.append(f"S{shape(sentence[place - 1])}")
        yield features


def shape(word: str) -> str:
    """Returns a word's shape, such as Xx for Hall and d-d for 3-4: a letter for each run of a kind."""
    kinds = ("X" if c.isupper() else "d" if c.isdigit() else "x" if c.isalpha() else c for c in word)
    return re.sub(r"(.)\1+", r"\1", "".join(kinds))


FEATURES: dict[Kind, Callable[[Texts], Iterable[list[str]]]] = {
    "texts": of_text,
    "pairs": of_pair,
    "words": of_words,
}


def overlaps(first: str, second: str) -> Floats:
    """Returns shares of common words (three), word bigrams, character bi- and trigrams, and a log ratio."""
    a, b = words(first), words(second)
    common, folded = set(a) & set(b), [" ".join(text.lower().split()) for text in (first, second)]
    values = [_share(len(common), len(group)) for group in (set(a) | set(b), set(a), set(b))]
    values.append(_dice(pairwise(a), pairwise(b)))
    values += [_dice(*(zip(*(text[i:] for i in range(n)), strict=False) for text in folded)) for n in (2, 3)]
    return np.array([*values, math.log((1 + len(b)) / (1 + len(a)))])


def weighted_overlap(first: str, second: str, weight: Callable[[str], float]) -> float:
    """Returns the Jaccard similarity of two texts' words, each weighted by `weight`; 0 without words."""
    a, b = set(words(first)), set(words(second))
    return _share(sum(map(weight, a & b)), sum(map(weight, a | b)))


def _share(count: float, total: float) -> float:
    return count / total if total else 0.0


def _dice(first: Iterable[Any], second: Iterable[Any]) -> float:
    a, b = Counter(first), Counter(second)
    return _share(2 * (a & b).total(), a.total() + b.total())
