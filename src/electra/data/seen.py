"""A set of 64-bit digests of documents, in 8 bytes each.

The probability that any two of n different documents share a digest is about n^2 / 2^65: 0.9 % for 570
million.
"""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path

import numpy as np

from electra.data.runs import MEMORY, Runs

RECENT = 1 << 17  # digests in a Python set before they become a run


class DigestSet:
    """A set of digests to which digests can only be added; see `Runs` for `folder` and `memory`."""

    def __init__(self, folder: Path | None = None, memory: int = MEMORY) -> None:
        self._recent: set[int] = set()
        self._runs = Runs(folder, memory)

    def __len__(self) -> int:
        return len(self._recent) + sum(map(len, self._runs))

    def add(self, digest: int) -> bool:
        """Adds a 64-bit digest. Returns whether it was new."""
        if digest in self._recent:
            return False
        for run in self._runs:
            place = bisect_left(run, digest)
            if place < len(run) and run[place] == digest:
                return False
        self._recent.add(digest)
        if len(self._recent) >= RECENT:
            self._runs.add(np.sort(np.fromiter(self._recent, dtype=np.uint64, count=len(self._recent))))
            self._recent = set()
        return True
