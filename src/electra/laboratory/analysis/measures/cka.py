"""Centred kernel alignment with linear kernels: how alike two representations of the same words are, whatever
their axes and scale.

CKA (Kornblith et al. 2019) is HSIC(X, Y) / sqrt(HSIC(X, X) HSIC(Y, Y)); 1 for representations that are equal
up to rotation and one scale. With the biased estimate of HSIC, features that have nothing in common still
seem alike when words are few and features many; the unbiased estimate (Song et al. 2012; used so by Nguyen et
al. 2021) is 0 for them on average, and is what "debiased" means. Both are computed from the features: the
words-by-words kernel matrices never exist. Shapes: n words, D and E features.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from electra.foundation.arrays import Floats


class Features:
    """One representation [n, D], centred, with what every comparison needs of it."""

    def __init__(self, values: npt.NDArray[np.floating]) -> None:
        centred = values.astype(np.float64) - values.mean(0, dtype=np.float64)
        self.x: Floats = (
            centred / max(float(np.linalg.norm(centred)), np.finfo(float).tiny) * math.sqrt(len(centred))
        )  # CKA knows no scale
        self.norms: Floats = (self.x**2).sum(1)  # the kernel's diagonal
        self._own: dict[bool, float] = {}

    def hsic(self, other: Features) -> float:
        """The biased estimate, up to a factor that cancels: the squared norm of the cross-covariance."""
        return float(((self.x.T @ other.x) ** 2).sum())

    def hsic_unbiased(self, other: Features) -> float:
        """Song et al. 2012, equation 4, for kernels without their diagonals; needs four words at least.

        The kernels' rows sum to zero over all words (centred features), so without the diagonal they sum to
        minus the diagonal.
        """
        n = len(self.x)
        assert n > 3
        trace = self.hsic(other) - float(self.norms @ other.norms)
        sums = float(self.norms.sum() * other.norms.sum()) / ((n - 1) * (n - 2))
        products = 2.0 / (n - 2) * float(self.norms @ other.norms)
        return (trace + sums - products) / (n * (n - 3))

    def own(self, debiased: bool) -> float:
        """Of the kernel with itself, which every comparison asks for."""
        if debiased not in self._own:
            self._own[debiased] = self.hsic_unbiased(self) if debiased else self.hsic(self)
        return self._own[debiased]


def cka(x: Features, y: Features, *, debiased: bool = True) -> float:
    """From 0 (nothing in common; debiased it may fall below) to 1. nan where one side is constant."""
    within = x.own(debiased) * y.own(debiased)
    return (x.hsic_unbiased(y) if debiased else x.hsic(y)) / math.sqrt(within) if within > 0 else math.nan


def cka_matrix(xs: Sequence[Features], ys: Sequence[Features], *, debiased: bool = True) -> Floats:
    """[len(xs), len(ys)]"""
    return np.array([[cka(x, y, debiased=debiased) for y in ys] for x in xs])
