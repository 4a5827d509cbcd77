"""Centred kernel alignment with linear kernels: the similarity of two representations of the same words.

It does not depend on axes or scale. CKA (Kornblith et al. 2019) is HSIC(X, Y) / sqrt(HSIC(X, X) HSIC(Y, Y)),
1 for representations that are equal up to rotation and one scale. With the biased estimate of HSIC, unrelated
features seem similar when words are few and features many. The unbiased estimate (Song et al. 2012; used by
Nguyen et al. 2021) is 0 for them on average; results with it are called debiased. Both are computed from the
features, without the words-by-words kernel matrices. Shapes: n words, D and E features.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from electra.foundation.arrays import Floats


class Features:
    """One representation [n, D], centred, with the terms that every comparison needs."""

    def __init__(self, values: npt.NDArray[np.floating]) -> None:
        centred = values.astype(np.float64) - values.mean(0, dtype=np.float64)
        self.x: Floats = (
            centred / max(float(np.linalg.norm(centred)), np.finfo(float).tiny) * math.sqrt(len(centred))
        )  # CKA does not depend on scale
        self.norms: Floats = (self.x**2).sum(1)  # the diagonal of the kernel matrix
        self._self_hsic: dict[bool, float] = {}

    def hsic(self, other: Features) -> float:
        """The biased estimate up to a factor that cancels: the squared norm of the cross-covariance."""
        return float(((self.x.T @ other.x) ** 2).sum())

    def hsic_unbiased(self, other: Features) -> float:
        """Song et al. 2012, equation 4, for kernels without their diagonals; needs at least four words.

        The kernels' rows sum to zero over all words (centred features), so without the diagonal they sum to
        minus the diagonal.
        """
        n = len(self.x)
        assert n > 3
        trace = self.hsic(other) - float(self.norms @ other.norms)
        sums = float(self.norms.sum() * other.norms.sum()) / ((n - 1) * (n - 2))
        products = 2.0 / (n - 2) * float(self.norms @ other.norms)
        return (trace + sums - products) / (n * (n - 3))

    def self_hsic(self, debiased: bool) -> float:
        """HSIC of the representation with itself, cached."""
        if debiased not in self._self_hsic:
            self._self_hsic[debiased] = self.hsic_unbiased(self) if debiased else self.hsic(self)
        return self._self_hsic[debiased]


def cka(x: Features, y: Features, *, debiased: bool = True) -> float:
    """CKA from 0 (nothing in common; debiased it may be negative) to 1. NaN where one side is constant."""
    within = x.self_hsic(debiased) * y.self_hsic(debiased)
    return (x.hsic_unbiased(y) if debiased else x.hsic(y)) / math.sqrt(within) if within > 0 else math.nan


def cka_matrix(xs: Sequence[Features], ys: Sequence[Features], *, debiased: bool = True) -> Floats:
    """CKA of each of `xs` with each of `ys`: [len(xs), len(ys)]."""
    return np.array([[cka(x, y, debiased=debiased) for y in ys] for x in xs])
