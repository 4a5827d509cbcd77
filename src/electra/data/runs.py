"""Sorted runs of 64-bit numbers: what must be remembered of each document, within a bound of memory.

New numbers come as a sorted run of their own. Each run is more than twice as long as the next, or the two are
merged, so there are few; the long ones are files, mapped, whose pages the system may take back. What is
found in them does not depend on the bound.
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
    """Sorted runs, the longest first. A `memoryview` of uint64 is what both bisect and NumPy read at once."""

    def __init__(self, folder: Path | None = None, memory: int = MEMORY) -> None:
        """folder: for the files of long runs (None: the system's temporary folder).
        memory: bytes at most. Runs of a quarter stay in memory: all together take less than a half, and a
        merge takes another quarter.
        """
        super().__init__()
        self._folder, self._in_memory = folder, memory // 4 // 8

    def add(self, run: Run) -> None:
        """Add a sorted run, joined with those that are not much longer than it."""
        while self and len(self[-1]) <= 2 * len(run):
            run = self._joined(np.asarray(self.pop()), run)
        self.append(run.data)

    def _joined(self, one: Run, other: Run) -> Run:
        """Two runs as one: in memory, or in a file that goes with the last use of it."""
        size = len(one) + len(other)
        joined: Run
        if size <= self._in_memory:
            joined = np.empty(size, dtype=np.uint64)
        else:
            with tempfile.TemporaryFile(dir=self._folder) as file:
                joined = np.memmap(file, dtype=np.uint64, mode="w+", shape=(size,))
        # block by block, so that neither the places nor a copy of all lie in memory
        start = placed = 0
        for first in range(0, len(one), _BLOCK):
            block = one[first : first + _BLOCK]
            end = len(other) if first + _BLOCK >= len(one) else int(np.searchsorted(other, block[-1]))
            piece = np.concatenate([block, other[start:end]])
            piece.sort(kind="stable")
            joined[placed : placed + len(piece)] = piece
            placed, start = placed + len(piece), end
        return joined
