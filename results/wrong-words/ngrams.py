"""Interpolated modified Kneser-Ney n-gram models of symbols, of any order (Chen and Goodman 1999, section 3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class KneserNey:
    """log p(symbol | the `order - 1` symbols before it), trained on one long sequence of ids below `size`."""

    def __init__(self, sequence: Ints, order: int, size: int) -> None:
        self.order, self.size = order, size
        assert size**order < 2**63
        grams = np.zeros(len(sequence) - order + 1, np.int64)
        for i in range(order):
            grams *= size
            grams += sequence[i : len(sequence) - order + 1 + i]
        self.tables = []  # by length: n-grams, their counts; contexts, their totals and back-off weights
        keys, counts = np.unique(grams, return_counts=True)
        for length in range(order, 0, -1):
            self.tables.append(self._table(keys, counts))
            if length > 1:  # lower orders count the different symbols before an n-gram
                keys, counts = np.unique(keys % size ** (length - 1), return_counts=True)
        self.tables.reverse()

    def _table(self, keys: Ints, counts: Ints) -> tuple[Ints, Floats, Ints, Floats, Floats]:
        n = [max(1, int((counts == k).sum())) for k in (1, 2, 3, 4)]
        y = n[0] / (n[0] + 2 * n[1])
        discounts = np.clip([k - (k + 1) * y * n[k] / n[k - 1] for k in (1, 2, 3)], 0.1, [0.95, 1.9, 2.9])
        discount = discounts[np.minimum(counts, 3) - 1]
        contexts, start = np.unique(keys // self.size, return_index=True)  # keys are sorted: groups are runs
        totals = np.add.reduceat(counts, start).astype(float)
        return keys, counts - discount, contexts, totals, np.add.reduceat(discount, start) / totals

    def log_p(self, grams: Ints) -> Floats:
        """Returns log p of the last symbol of each row [N, order]."""
        p = np.full(len(grams), 1 / self.size)
        key = np.zeros(len(grams), np.int64)
        for length, (keys, counts, contexts, totals, backoff) in enumerate(self.tables, 1):
            key = key + grams[:, self.order - length] * self.size ** (length - 1)
            at = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
            found = np.where(keys[at] == key, counts[at], 0.0)
            context = key // self.size
            at = np.minimum(np.searchsorted(contexts, context), len(contexts) - 1)
            seen = contexts[at] == context
            p = np.where(seen, found / totals[at] + backoff[at] * p, p)
        logs: Floats = np.log(p)
        return logs

    def windows(self, sequence: Ints) -> Ints:
        """Returns, for each symbol after the first order - 1, it and those before it [N, order]."""
        return np.lib.stride_tricks.sliding_window_view(sequence, self.order)
