"""Sorted runs of 64-bit numbers, such as hashes of documents, in bounded memory.

New numbers are added as a sorted run. Each run is more than twice as long as the next, or the two are merged,
so there are few. Long runs are mapped files, whose pages the system can evict. The content does not depend on
the bound.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

Run = npt.NDArray[np.uint64]
MEMORY = 1_000_000_000  # bytes
_BLOCK = 1 << 17  # numbers merged at a time


class Runs(list[memoryview]):
    """Sorted runs, longest first, as `memoryview`s of uint64, which bisect and NumPy read without a copy."""

    def __init__(self, folder: Path | None = None, memory: int = MEMORY) -> None:
        """Makes an empty list of runs.

        Args:
            folder: for the files of long runs (None: the system's temporary folder).
            memory: the largest number of bytes in memory. Runs up to a quarter of it stay in memory, so that
                all of them take less than half, and a merge another quarter.
        """
        super().__init__()
        self._folder, self._in_memory = folder, memory // 4 // 8

    def add(self, run: Run) -> None:
        """Adds a sorted run, merged with existing runs that are at most twice as long."""
        while self and len(self[-1]) <= 2 * len(run):
            run = self._joined(np.asarray(self.pop()), run)
        self.append(run.data)

    def _joined(self, left: Run, right: Run) -> Run:
        """Merges two runs, in memory or in a file that is removed after its last use."""
        size = len(left) + len(right)
        joined: Run
        if size <= self._in_memory:
            joined = np.empty(size, dtype=np.uint64)
        else:
            with tempfile.TemporaryFile(dir=self._folder) as file:
                joined = np.memmap(file, dtype=np.uint64, mode="w+", shape=(size,))
        # By blocks, so that no copy of the whole is in memory.
        start = placed = 0
        for first in range(0, len(left), _BLOCK):
            block = left[first : first + _BLOCK]
            end = len(right) if first + _BLOCK >= len(left) else int(np.searchsorted(right, block[-1]))
            piece = np.concatenate([block, right[start:end]])
            piece.sort(kind="stable")
            joined[placed : placed + len(piece)] = piece
            placed, start = placed + len(piece), end
        return joined
