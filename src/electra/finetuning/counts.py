"""Counted features: what a linear model sees of a text, a pair or a word without a network.

of a text   the TF-IDF weights of its words, pairs of words, and characters: 2 to 5 within a word
of a pair   those of the words that the first text, the second, or both have; and `overlaps`
of a word   its form, shape, first and last characters, and the two words on either side with their endings

A feature is a string of any script, hashed to 32 bits; so a vocabulary is an array of numbers: those that the
training data has, the most frequent ones if there are too many.

Shapes: N texts, pairs or words; K features in the vocabulary, F of a word.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain, pairwise
from typing import Any, Literal, Self
from zlib import crc32

import numpy as np

from electra.foundation.arrays import Floats, Ints, Vectors

Kind = Literal["texts", "pairs", "words"]
Texts = Sequence[tuple[str, ...]]
"""Texts, pairs of texts, or sentences as words."""

WORD = re.compile(r"\w{1,64}|[^\w\s]")  # a longer word is cut: what is remembered of words stays small
MAX_WEIGHTS = 2_000_000  # features times outputs
LONGEST = 20_000  # characters of a text that are read
GRAMS, EDGES, ENDINGS, NEIGHBOURS = (2, 3, 4, 5), (1, 2, 3, 4), (2, 3), (-2, -1, 1, 2)
NO_FEATURE = -1
CHARACTERS = 0.4  # their weight: they outnumber words, and would drown "who" and "when"
NUM_OVERLAPS = 7
_MIX, _MASK = 0x9E3779B1, 0xFFFFFFFF  # an odd number: no two features become one


@dataclass(frozen=True)
class Counts:
    """The counted features that are known, and what each is multiplied by."""

    kind: Kind
    hashes: Ints  # [K], ascending
    weights: Vectors  # [columns]: 1 of a word's features, else TF-IDF's; of pairs also those of the overlaps

    @classmethod
    def learn(cls, kind: Kind, texts: Texts, num_outputs: int) -> Self:
        """Returns the features that the training texts have, at most MAX_WEIGHTS for all outputs."""
        features, sizes = READERS[kind](texts)
        hashes = np.unique(features[features != NO_FEATURE])
        hashes = hashes if len(hashes) else np.zeros(1, np.int64)
        frequencies = np.bincount(_counted(features, sizes, hashes).indices, minlength=len(hashes))
        kept = np.argsort(-frequencies, kind="stable")[: MAX_WEIGHTS // max(2, num_outputs)]
        kept.sort()
        rarity = np.log((1 + len(sizes)) / (1 + frequencies[kept])) + 1
        weights = np.ones(len(kept)) if kind == "words" else rarity
        if kind == "texts":
            weights[hashes[kept] % 2 == 1] *= CHARACTERS
        counts = cls(kind, hashes[kept], weights.astype(np.float32))
        if kind != "pairs":
            return counts
        deviations = np.maximum(counts.overlaps(texts).std(0), 1e-3)
        return cls(kind, counts.hashes, np.append(counts.weights, 1 / deviations).astype(np.float32))

    def matrix(self, texts: Texts, chosen: Sequence[Ints] = ()) -> Any:
        """Returns the features as a sparse matrix [N, columns]; of sentences, those of the `chosen` words.

        The TF-IDF weights of a text or pair have norm 1.
        """
        from scipy.sparse import csr_array, hstack

        matrix = _counted(*READERS[self.kind](texts), self.hashes)
        if self.kind == "words":
            starts = np.cumsum([0, *map(len, texts)])
            rows = [start + words for start, words in zip(starts, chosen, strict=False)]
            return matrix[np.concatenate(rows)] if chosen else matrix
        row_of = np.repeat(np.arange(len(texts)), np.diff(matrix.indptr))
        values = (1 + np.log(matrix.data)) * self.weights[matrix.indices]
        norms = np.sqrt(np.bincount(row_of, np.square(values), len(texts)))
        matrix.data = (values / norms[row_of]).astype(np.float32)
        if self.kind == "texts":
            return matrix
        overlaps = self.overlaps(texts) * self.weights[len(self.hashes) :]
        return csr_array(hstack([matrix, csr_array(overlaps.astype(np.float32))], format="csr"))

    def overlaps(self, pairs: Texts) -> Floats:
        """Returns the `overlaps` of pairs, and those of their words by rarity [N, NUM_OVERLAPS + 1]."""
        known = dict(zip(self.hashes.tolist(), self.weights.tolist(), strict=False))
        unknown = max(known.values())

        @cache
        def weight(word: str) -> float:
            return float(known.get(_hash(word), unknown))

        return np.array([[*overlaps(a, b), weighted_overlap(a, b, weight)] for a, b in pairs])


def _counted(features: Ints, sizes: Ints, hashes: Ints) -> Any:
    """Returns how often each row has each known feature [N, K]; the rows' features lie one after another."""
    from scipy.sparse import csr_array

    places = np.minimum(np.searchsorted(hashes, features), len(hashes) - 1)
    is_known = hashes[places] == features
    ends = np.append(0, np.cumsum(is_known))[np.append(0, np.cumsum(sizes))]
    matrix = csr_array((np.ones(ends[-1], np.float32), places[is_known], ends), (len(sizes), len(hashes)))
    matrix.sum_duplicates()
    return matrix


def _hash(feature: str) -> int:
    return crc32(feature.encode("utf-8", "surrogatepass"))


def _mixed(hashes: Ints, how: Any) -> Ints:
    """Returns the hashes of other features, by `how`: a number, or the hashes of what comes before."""
    mixed: Ints = (hashes + (how + 1) * _MIX) & _MASK
    return mixed


def words(text: str) -> list[str]:
    """Returns the lower-cased words and punctuation marks of a text."""
    return WORD.findall(text[:LONGEST].lower())


@lru_cache(1 << 16)
def _spelling(word: str) -> Ints:
    """Returns the features of a word of a text: itself (even), then its characters (odd)."""
    padded = f" {word} "
    grams = (f"={padded[i : i + n]}" for n in GRAMS for i in range(len(padded) - n + 1))
    return np.array([_hash(word) & ~1, *(_hash(gram) | 1 for gram in grams)], np.int64)


@lru_cache(1 << 16)
def _form(word: str) -> Ints:
    """Returns the features of a word of a sentence [15]: of itself, and the three that neighbours see."""
    low, n = word.lower(), len(word)
    parts = [part for size in EDGES for part in (f"p{low[:size]}", f"e{low[-size:]}")]
    own = [_hash(part) for part in ("", f"w{word}", f"l{low}", f"s{shape(word)}", *parts)]
    own[4 + 2 * n :] = [NO_FEATURE] * len(own[4 + 2 * n :])  # a short word has no long beginning
    return np.array([*own, _hash(f"={low}"), *(_hash(f"-{size}{low[-size:]}") for size in ENDINGS)], np.int64)


def shape(word: str) -> str:
    """Returns a word's shape, such as Xx for Hall and d-d for 3-4: a letter for each run of a kind."""
    kinds = ("X" if c.isupper() else "d" if c.isdigit() else "x" if c.isalpha() else c for c in word)
    return re.sub(r"(.)\1+", r"\1", "".join(kinds))


def of_texts(texts: Texts) -> tuple[Ints, Ints]:
    """Returns the features of texts, one text after another, and how many each has [N]."""
    rows = []
    for (text,) in texts:
        spelled = [_spelling(word) for word in words(text)]
        first = np.array([each[0] for each in spelled], np.int64)
        rows.append(np.concatenate([*spelled, _mixed(first[1:], first[:-1]) & ~1]))
    return np.concatenate(rows), np.array([*map(len, rows)])


def of_pairs(pairs: Texts) -> tuple[Ints, Ints]:
    """Returns likewise the features of pairs: each word that a text has, and which of the two has it."""
    rows = []
    for first, second in ([{*map(_hash, words(text))} for text in pair] for pair in pairs):
        groups = map(sorted, (first - second, second - first, first & second))
        own = [np.array(group, np.int64) for group in groups]
        rows.append(np.concatenate([*own, *(_mixed(group, which) for which, group in enumerate(own))]))
    return np.concatenate(rows), np.array([*map(len, rows)])


def of_words(sentences: Texts) -> tuple[Ints, Ints]:
    """Returns likewise the features of the words of sentences; the words "" stand around a sentence."""
    padded = [("", "", *sentence) for sentence in sentences]
    found = np.stack([_form(word) for word in chain(*padded, ("", ""))])
    is_word = np.concatenate([np.arange(len(sentence)) > 1 for sentence in padded])
    places = np.flatnonzero(is_word)
    own, seen, before = found[:, :-3], found[:, -3:], found[places - 1]
    around = [_mixed(seen[places + step], step + 2) for step in NEIGHBOURS]
    features = np.hstack([own[places], *around, _mixed(own[places, 2:3], before[:, 2:3]), _mixed(before[:, 3:4], 5)])
    return features.ravel(), np.full(len(places), features.shape[1])


READERS = {"texts": of_texts, "pairs": of_pairs, "words": of_words}


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
