"""Sets of 64-bit integers, such as hashes of documents, in 8 bytes each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Run = npt.NDArray[np.uint64]
RECENT = 1 << 17  # integers collected in a Python set before they become a run


class SortedRuns(list[Run]):
    """Sorted arrays, longest first. Each is more than twice as long as the next one, so there are few."""

    def add(self, run: Run) -> None:
        """Adds a sorted array, merged with those that are at most twice as long."""
        while self and len(self[-1]) <= 2 * len(run):
            run = np.sort(np.concatenate([self.pop(), run]), kind="stable")
        self.append(run)


class DigestSet:
    """A set of 64-bit digests, to which digests can only be added.

    The probability that any two of n different documents share a digest is about n^2 / 2^65: 0.9 % for 570
    million.
    """

    def __init__(self) -> None:
        self._recent: set[int] = set()
        self._runs = SortedRuns()

    def __len__(self) -> int:
        return len(self._recent) + sum(map(len, self._runs))

    def add(self, digest: int) -> bool:
        """Adds a 64-bit digest. Returns whether it was new."""
        if digest in self._recent:
            return False
        for run in self._runs:
            index = run.searchsorted(np.uint64(digest))
            if index < len(run) and run[index] == digest:
                return False
        self._recent.add(digest)
        if len(self._recent) >= RECENT:
            self._runs.add(np.sort(np.fromiter(self._recent, dtype=np.uint64, count=len(self._recent))))
            self._recent = set()
        return True
