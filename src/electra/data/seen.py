"""Which documents have been seen, in 8 bytes each: sorted runs of 64-bit digests, the large ones on disk.

Two different documents among n share a digest with a probability of n^2 / 2^65: of 570 million, one is taken
for another's copy with 0.9 %.
"""

from __future__ import annotations

import tempfile
from bisect import bisect_left
from pathlib import Path

import numpy as np
import numpy.typing as npt

RECENT = 1 << 17  # digests that wait for a run, in a set
IN_MEMORY = 1 << 25  # digests of a run that stays in memory: 256 MiB; longer ones are files, mapped


class Seen:
    """A set of digests that only grows. Runs are merged when they are of one size, so there are few."""

    def __init__(self, folder: Path | None = None) -> None:
        """folder: for the files of long runs (None: the system's temporary folder)."""
        self._folder = folder
        self._recent: set[int] = set()
        self._runs: list[memoryview] = []  # of uint64, the longest first

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
            self._settle()
        return True

    def _settle(self) -> None:
        """The recent ones become a run, joined with those that are no longer than it."""
        run = np.fromiter(self._recent, dtype=np.uint64, count=len(self._recent))
        run.sort()
        self._recent = set()
        while self._runs and len(self._runs[-1]) <= len(run):
            run = self._joined(np.asarray(self._runs.pop()), run)
        self._runs.append(run.data)

    def _joined(self, one: npt.NDArray[np.uint64], other: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Two sorted runs as one: in memory, or in a file that goes with the last use of it."""
        size = len(one) + len(other)
        joined: npt.NDArray[np.uint64]
        if size <= IN_MEMORY:
            joined = np.empty(size, dtype=np.uint64)
        else:
            with tempfile.TemporaryFile(dir=self._folder) as file:
                joined = np.memmap(file, dtype=np.uint64, mode="w+", shape=(size,))
        # block by block, so that neither the places nor a copy of all lie in memory
        start = placed = 0
        for first in range(0, len(one), RECENT):
            block = one[first : first + RECENT]
            end = len(other) if first + RECENT >= len(one) else int(np.searchsorted(other, block[-1]))
            piece = np.concatenate([block, other[start:end]])
            piece.sort(kind="stable")
            joined[placed : placed + len(piece)] = piece
            placed, start = placed + len(piece), end
        return joined
