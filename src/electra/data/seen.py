"""Which documents have been seen, in 8 bytes each: a set of 64-bit digests.

Two different documents among n share a digest with a probability of n^2 / 2^65: of 570 million, one is taken
for another's copy with 0.9 %.
"""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path

import numpy as np

from electra.data.runs import MEMORY, Runs

RECENT = 1 << 17  # digests that wait for a run, in a set


class Seen:
    """A set of digests that only grows."""

    def __init__(self, folder: Path | None = None, memory: int = MEMORY) -> None:
        """folder, memory: see `Runs`."""
        self._recent: set[int] = set()
        self._runs = Runs(folder, memory)

    def __len__(self) -> int:
        return len(self._recent) + sum(map(len, self._runs))

    def add(self, digest: int) -> bool:
        """Whether the digest, of 64 bits, is new; from now on it is not."""
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
