"""Sets of 64-bit integers, such as hashes of documents, in bounded memory.

They are stored as sorted runs. A new run is merged with the last one, unless the last one is more than twice
as long; so there are few runs. Long runs are memory-mapped files, whose pages the system can evict. The
memory limit does not affect the contents.
"""

from __future__ import annotations

import tempfile
from bisect import bisect_left
from pathlib import Path

import numpy as np
import numpy.typing as npt

Run = npt.NDArray[np.uint64]
DEFAULT_MEMORY_BYTES = 1_000_000_000  # bytes
RECENT = 1 << 17  # integers collected in a Python set before they become a run
_BLOCK = 1 << 17  # integers merged at a time


class SortedRuns(list[memoryview]):
    """Sorted runs, longest first, as `memoryview`s of uint64, which bisect and NumPy read without copying."""

    def __init__(self, folder: Path | None = None, memory: int = DEFAULT_MEMORY_BYTES) -> None:
        """Makes an empty list of runs.

        Args:
            folder: the folder for the files of long runs (None: the system's temporary folder).
            memory: the limit in bytes. Runs that take at most a quarter of it stay in memory; together
                they take less than half of it, and a merge takes another quarter.
        """
        super().__init__()
        self._folder, self._max_in_memory = folder, memory // 4 // 8

    def add(self, run: Run) -> None:
        """Adds a sorted run, merged with existing runs that are at most twice as long."""
        while self and len(self[-1]) <= 2 * len(run):
            run = self._merged(np.asarray(self.pop()), run)
        self.append(run.data)

    def _merged(self, left: Run, right: Run) -> Run:
        """Returns two runs merged, in memory or in a file that is removed after its last use."""
        size = len(left) + len(right)
        merged: Run
        if size <= self._max_in_memory:
            merged = np.empty(size, dtype=np.uint64)
        else:
            with tempfile.TemporaryFile(dir=self._folder) as file:
                merged = np.memmap(file, dtype=np.uint64, mode="w+", shape=(size,))
        # in blocks, so that no run is copied to memory as a whole
        start = position = 0
        for first in range(0, len(left), _BLOCK):
            block = left[first : first + _BLOCK]
            end = len(right) if first + _BLOCK >= len(left) else int(np.searchsorted(right, block[-1]))
            piece = np.concatenate([block, right[start:end]])
            piece.sort(kind="stable")
            merged[position : position + len(piece)] = piece
            position, start = position + len(piece), end
        return merged


class DigestSet:
    """A set of 64-bit digests, to which digests can only be added; see `SortedRuns` for the arguments.

    The probability that any two of n different documents share a digest is about n^2 / 2^65: 0.9 % for 570
    million.
    """

    def __init__(self, folder: Path | None = None, memory: int = DEFAULT_MEMORY_BYTES) -> None:
        self._recent: set[int] = set()
        self._runs = SortedRuns(folder, memory)

    def __len__(self) -> int:
        return len(self._recent) + sum(map(len, self._runs))

    def add(self, digest: int) -> bool:
        """Adds a 64-bit digest. Returns whether it was new."""
        if digest in self._recent:
            return False
        for run in self._runs:
            index = bisect_left(run, digest)
            if index < len(run) and run[index] == digest:
                return False
        self._recent.add(digest)
        if len(self._recent) >= RECENT:
            self._runs.add(np.sort(np.fromiter(self._recent, dtype=np.uint64, count=len(self._recent))))
            self._recent = set()
        return True
