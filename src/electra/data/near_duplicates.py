"""Finds near-duplicate documents with MinHash signatures and locality-sensitive hashing.

The similarity of two documents is the Jaccard index of their sets of 8-byte substrings, in lower case and
with single spaces. 128 minima of each document estimate it with a standard error of about 0.03. The minima
are divided into bands, and documents that agree in all minima of a band are compared. The bands are chosen so
that at most one in a hundred pairs at the threshold is missed.

Each document that is kept takes 128 bytes, and 8 for each band.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from electra.data.sorted_runs import SortedRuns
from electra.foundation import seeds
from electra.foundation.errors import ConfigError
from electra.foundation.machine import library

UInt64 = npt.NDArray[np.uint64]

MINIMA = 128
WINDOW = 8  # bytes
COMPARED_CHARACTERS = 1 << 20  # of each document
MAX_CANDIDATES = 64  # a document is compared with at most this many earlier ones, earliest first
MAX_MISSED = 0.01  # fraction of pairs at the threshold that may be missed
MIN_THRESHOLD = 0.5
MAX_EXAMPLES, BEGINNING_BYTES = 10, 240  # in the audit, and shown of each document
STORED_BEGINNINGS = 1 << 17  # documents whose beginnings are stored; only these become examples
_SEED = 1
_INDEX_MASK = np.uint64((1 << 32) - 1)  # mask: the lower half of an entry is the index of the document


class NearMatch(NamedTuple):
    """The most similar earlier document."""

    document: int  # its index among the kept documents
    similarity: float


@dataclass(frozen=True, order=True)
class Example:
    """A near-duplicate for the audit: the beginnings of both documents."""

    similarity: float
    document: str
    earlier: str


class NearDuplicates:
    """Finds near-duplicates of the documents kept so far.

    Raises:
        ConfigError: the threshold is not in [0.5, 1).
    """

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold
        self._bands, self._rows = band_layout(threshold)
        self._runs = [SortedRuns() for _ in range(self._bands)]
        self._signatures = bytearray()  # MINIMA bytes of each kept document
        self._beginnings: list[str] = []
        self._kept = 0
        self._examples: list[Example] = []

    def find(self, texts: Sequence[str]) -> list[NearMatch | None]:
        """Returns the near-duplicate of each text among the earlier documents, or None.

        A text without one is kept: later texts are compared with it. The results do not depend on how texts
        are divided into calls.

        Raises:
            ConfigError: the library `rensa` is not installed, or there are too many documents.
        """
        minima = signatures(texts)
        low_bytes = (minima & 255).astype(np.uint8)
        keys = self._keys(minima)
        earlier_documents = self._with_equal_keys(keys)
        shared_keys = _repeated(keys)
        recent: defaultdict[tuple[int, int], list[int]] = defaultdict(list)  # documents by band and key
        matches: list[NearMatch | None] = []
        kept: list[int] = []  # indices in `texts`

        def compare(text: int, document: int) -> NearMatch:
            if document < self._kept:
                start = document * MINIMA
                signature = np.frombuffer(bytes(self._signatures[start : start + MINIMA]), dtype=np.uint8)
            else:
                signature = low_bytes[kept[document - self._kept]]
            agreement = float((signature == low_bytes[text]).mean())
            # Corrects for bytes that agree by chance.
            return NearMatch(document, max(0.0, (256 * agreement - 1) / 255))

        for text, band_keys in enumerate(shared_keys):
            similar = earlier_documents[text].union(*(recent[band_key] for band_key in band_keys))
            candidates = [compare(text, document) for document in sorted(similar)[:MAX_CANDIDATES]]
            best_match = max(candidates, key=lambda match: (match.similarity, -match.document), default=None)
            if best_match is None or best_match.similarity < self.threshold:
                for band_key in band_keys:
                    recent[band_key].append(self._kept + len(kept))
                kept.append(text)
                matches.append(None)
            else:
                self._add_example(best_match, texts[text], [texts[i] for i in kept])
                matches.append(best_match)
        self._keep(keys[kept], low_bytes[kept], [texts[i] for i in kept])
        return matches

    def examples(self) -> list[dict[str, Any]]:
        """Returns the least similar near-duplicates for the audit: similarity and both beginnings."""
        return [asdict(example) for example in self._examples]

    def _keys(self, minima: npt.NDArray[np.uint32]) -> UInt64:
        """Returns keys [N, bands]: the upper half is a digest of the band's minima, the lower is zero."""
        by_band = minima[:, : self._bands * self._rows].reshape(len(minima), self._bands, self._rows)
        digest = np.zeros((len(minima), self._bands), dtype=np.uint64)
        for row in range(self._rows):
            digest = seeds.mix(digest ^ by_band[:, :, row])
        return digest & ~_INDEX_MASK

    def _with_equal_keys(self, keys: UInt64) -> list[set[int]]:
        """Returns, for each text, the indices of documents of earlier calls that agree with it in a band."""
        matches: list[set[int]] = [set() for _ in keys]
        for band, runs in enumerate(self._runs):
            for run in runs:
                first = np.searchsorted(run, keys[:, band])
                is_equal = run[np.minimum(first, len(run) - 1)] & ~_INDEX_MASK == keys[:, band]
                for index in np.flatnonzero(is_equal & (first < len(run))).tolist():
                    entries = run[first[index] : first[index] + MAX_CANDIDATES]
                    equal = entries[entries & ~_INDEX_MASK == keys[index, band]]
                    matches[index].update((equal & _INDEX_MASK).tolist())
        return matches

    def _keep(self, keys: UInt64, low_bytes: npt.NDArray[np.uint8], texts: list[str]) -> None:
        indices = np.arange(self._kept, self._kept + len(keys), dtype=np.uint64)
        if self._kept + len(keys) > _INDEX_MASK:
            raise ConfigError("near-duplicates are supported for at most 4.3 billion documents")
        for band, runs in enumerate(self._runs) if len(keys) else ():
            runs.add(np.sort(keys[:, band] | indices))
        self._signatures += low_bytes.tobytes()
        self._beginnings += map(beginning, texts[: max(0, STORED_BEGINNINGS - self._kept)])
        self._kept += len(keys)

    def _add_example(self, earlier: NearMatch, text: str, recent: list[str]) -> None:
        """Adds the pair to the examples if it is one of the least similar."""
        if earlier.document >= STORED_BEGINNINGS:
            return
        if len(self._examples) == MAX_EXAMPLES and earlier.similarity >= self._examples[-1].similarity:
            return
        is_stored = earlier.document < self._kept
        earlier_text = (
            self._beginnings[earlier.document]
            if is_stored
            else beginning(recent[earlier.document - self._kept])
        )
        bisect.insort(self._examples, Example(round(earlier.similarity, 4), beginning(text), earlier_text))
        del self._examples[MAX_EXAMPLES:]


def band_layout(threshold: float) -> tuple[int, int]:
    """Returns the number of bands and of minima in each: the longest bands that miss few pairs.

    At most a fraction MAX_MISSED of the pairs at the threshold share no band.

    Raises:
        ConfigError: the threshold is not in [0.5, 1).
    """
    if not MIN_THRESHOLD <= threshold < 1:
        problem = f"must be at least {MIN_THRESHOLD} and below 1, such as 0.8, not {threshold}"
        raise ConfigError(problem, key="near_duplicates")
    rows = max(rows for rows in range(1, MINIMA) if (1 - threshold**rows) ** (MINIMA // rows) <= MAX_MISSED)
    return MINIMA // rows, rows


def _repeated(keys: UInt64) -> list[list[tuple[int, int]]]:
    """Returns, for each text, (band, key) of each key that it shares with another text of the same call."""
    shared: list[list[tuple[int, int]]] = [[] for _ in keys]
    for band in range(keys.shape[1]):
        _, group, sizes = np.unique(keys[:, band], return_inverse=True, return_counts=True)
        for index in np.flatnonzero(sizes[group] > 1).tolist():
            shared[index].append((band, int(keys[index, band])))
    return shared


def beginning(text: str) -> str:
    """Returns the first BEGINNING_BYTES of a text, with single spaces."""
    return " ".join(text.split()).encode()[:BEGINNING_BYTES].decode(errors="ignore")


def signatures(texts: Sequence[str]) -> npt.NDArray[np.uint32]:
    """Returns the minima [N, MINIMA], uint32, of N texts."""
    rensa = library("rensa", "dedup", "near-duplicates", key="near_duplicates")
    contents = [
        f" {' '.join(text[:COMPARED_CHARACTERS].lower().split())} ".encode().ljust(WINDOW) for text in texts
    ]
    content = b"".join([*contents, bytes(WINDOW)])
    windows: UInt64 = np.ndarray(len(content) - WINDOW, dtype="<u8", buffer=content, strides=(1,))
    sizes = np.array([len(content) for content in contents], dtype=np.int64)
    is_inside = np.ones(len(windows), dtype=bool)
    for offset in range(1, WINDOW):  # windows that reach into the next text do not count
        is_inside[np.cumsum(sizes) - offset] = False
    offsets = np.concatenate([[0], np.cumsum(sizes - WINDOW + 1)]).astype(np.uint64)
    matrix = rensa.RMinHash.digest_matrix_from_flat_token_hashes(
        seeds.mix(windows[is_inside]), offsets, MINIMA, _SEED
    )
    return np.array(matrix.to_rows(), dtype=np.uint32).reshape(len(texts), MINIMA)
