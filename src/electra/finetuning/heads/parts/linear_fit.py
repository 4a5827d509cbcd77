"""Fits scikit-learn's linear models, with the strength that predicts held-out examples best.

Both the head `frozen` and the baselines use this.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

FOLDS = 3
SELECTION_ROWS = 3000  # a random sample of at most this many rows decides on the strength; the fit uses all


def fit_best(  # noqa: PLR0917
    model: Any,
    candidates: Sequence[Mapping[str, Any]],
    x: Any,
    targets: npt.NDArray[Any],
    goodness: Callable[[npt.NDArray[Any], npt.NDArray[Any]], float],
    groups: npt.NDArray[np.int64] | None = None,
) -> Any:
    """Returns the model, fitted to all rows with the best of the candidate parameters.

    They are compared by the mean `goodness` of held-out predictions (numbers, or probabilities of the classes
    that occur) in fixed folds; rows of a group are held out together. If there are too few rows of all
    classes but one, the middle candidate is used. `x` is [N, K], dense or sparse, or any N objects that a
    pipeline reads; targets are numbers or classes [N], or 0 and 1 for each label [N, labels].
    """
    from sklearn.base import clone
    from sklearn.model_selection import KFold, StratifiedGroupKFold, StratifiedKFold, cross_val_predict

    rows = np.sort(np.random.default_rng(0).permutation(len(targets))[:SELECTION_ROWS])
    some_x, some = [x[row] for row in rows] if isinstance(x, list) else x[rows], targets[rows]
    some_groups = None if groups is None else groups[rows]
    folds: Any = KFold
    if some.ndim == 1 and some.dtype.kind == "i":
        is_grouped = some_groups is not None and len(np.unique(some_groups)) < len(rows)
        folds = StratifiedGroupKFold if is_grouped else StratifiedKFold
    options = {"cv": folds(FOLDS, shuffle=True, random_state=0), "groups": some_groups}
    options["method"] = "predict" if some.dtype.kind == "f" else "predict_proba"
    scores = []
    with warnings.catch_warnings():  # few rows of a class, or a fit that has not quite converged
        warnings.simplefilter("ignore")
        try:
            for each in candidates if len(candidates) > 1 else ():
                held_out = cross_val_predict(clone(model).set_params(**each), some_x, some, **options)
                scores.append(goodness(some, held_out))
            best = candidates[int(np.argmax(scores))] if scores else candidates[0]
        except ValueError:  # a fold with one class alone, or fewer rows than folds
            best = candidates[len(candidates) // 2]
        return clone(model).set_params(**best).fit(x, targets)


def log_likelihood(targets: npt.NDArray[Any], probabilities: npt.NDArray[Any]) -> float:
    """Returns the mean log-likelihood of classes [N], or of 0 and 1 for each label [N, labels]."""
    if targets.ndim > 1:
        chosen = np.where(targets, probabilities, 1 - probabilities)
    else:
        chosen = probabilities[np.arange(len(targets)), np.unique(targets, return_inverse=True)[1]]
    return float(np.log(np.maximum(chosen, 1e-9)).mean())


def negative_error(targets: npt.NDArray[Any], numbers: npt.NDArray[Any]) -> float:
    """Returns the mean squared error with a minus sign."""
    return -float(np.square(targets - numbers).mean())
