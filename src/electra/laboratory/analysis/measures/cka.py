"""Debiased centred kernel alignment (CKA): the similarity of two representations of the same words.

CKA (Kornblith et al. 2019) is HSIC(X, Y) / sqrt(HSIC(X, X) HSIC(Y, Y)) with linear kernels: 1 for
representations that are equal up to rotation and scaling. With the usual estimate of HSIC, unrelated features
seem similar if there are few words and many features, so HSIC is estimated without bias (Song et al. 2012;
used by Nguyen et al. 2021): unrelated features get 0 on average. It is computed from the features, without
the words-by-words kernel matrices. Shapes: n words, D and E features.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
import numpy.typing as npt

from electra.foundation.arrays import Floats


class Features:
    """One representation [n, D], centred, with the terms that every comparison needs."""

    def __init__(self, values: npt.NDArray[np.floating]) -> None:
        centred = values.astype(np.float64) - values.mean(0, dtype=np.float64)
        norm = max(float(np.linalg.norm(centred)), np.finfo(float).tiny)
        self.x: Floats = centred / norm * math.sqrt(len(centred))  # CKA does not depend on scale
        self.norms: Floats = (self.x**2).sum(1)  # the diagonal of the kernel matrix

    def hsic(self, other: Features) -> float:
        """Returns the unbiased estimate of HSIC (Song et al. 2012, equation 4); needs at least four words.

        The kernels are taken without their diagonals. Their rows sum to zero over all words, because the
        features are centred; so without the diagonal they sum to minus the diagonal.
        """
        n = len(self.x)
        assert n > 3
        trace = float(((self.x.T @ other.x) ** 2).sum()) - float(self.norms @ other.norms)
        sums = float(self.norms.sum() * other.norms.sum()) / ((n - 1) * (n - 2))
        products = 2.0 / (n - 2) * float(self.norms @ other.norms)
        return (trace + sums - products) / (n * (n - 3))

    @cached_property
    def self_hsic(self) -> float:
        """HSIC of the representation with itself."""
        return self.hsic(self)


def cka(x: Features, y: Features) -> float:
    """Returns CKA: 1 if equal, about 0 (possibly negative) if unrelated, NaN if one is constant."""
    product = x.self_hsic * y.self_hsic
    return x.hsic(y) / math.sqrt(product) if product > 0 else math.nan
