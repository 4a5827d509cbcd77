"""The shape of a cloud of vectors: whether it fills its space, or lies in a cone or a few directions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from electra.foundation.arrays import Ints


def mean_cosine(vectors: npt.NDArray[np.floating], groups: Ints) -> float:
    """Anisotropy (Ethayarajh 2019): the mean cosine of two vectors of different groups.

    Near 0 where all directions are used alike. Exact over all such pairs: the sum over pairs is the squared
    norm of the sum, less that of each group with itself. NaN with a single group.
    """
    lengths = np.linalg.norm(vectors, axis=1)
    unit = vectors.astype(np.float64) / np.maximum(lengths, np.finfo(np.float32).tiny)[:, None]
    numbers = np.unique(groups, return_inverse=True)[1]
    sums = np.zeros((int(numbers.max()) + 1, vectors.shape[1]))
    np.add.at(sums, numbers, unit)
    sizes = np.bincount(numbers).astype(np.float64)
    pairs = sizes.sum() ** 2 - (sizes**2).sum()
    return float(((sums.sum(0) ** 2).sum() - (sums**2).sum()) / pairs) if pairs else float("nan")


def effective_rank(vectors: npt.NDArray[np.floating]) -> float:
    """The number of directions in use (Roy and Vetterli 2007), from 1 to the dimension.

    It is exp of the entropy of the singular values as shares of their sum. The vectors are centred first: a
    common offset is measured by `mean_cosine`. NaN if all vectors are equal.
    """
    centred = vectors.astype(np.float64) - vectors.mean(0, dtype=np.float64)
    values = np.sqrt(np.clip(np.linalg.eigvalsh(centred.T @ centred), 0, None))
    if values.sum() <= 0:
        return float("nan")
    shares = values[values > 0] / values.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))
