"""The linear answers that a head starts from, fitted by the loss of the task in double precision.

Most words of a text say nothing of its class, and a penalty that is the same for all takes as much from the
few that do. So a fit may be told to divide a term's penalty by how far, in training, the answers to the texts
with it lie from the mean (Wang & Manning 2012 scale terms by the ratio of their counts in two classes).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from electra.arrays import Bools, Floats

ITERATIONS = 100
FOLDS = 5
CHOSEN_ON = 20_000  # examples by which the strength is chosen, where there are more
SHRUNK = 1.0  # more texts that each term is taken to be in, which have the mean answer
LEAST_TELLING = 0.01  # of a term that tells nothing, where the mean is 1
Loss = Callable[[Tensor, Tensor], tuple[Tensor, float]]  # of a task: the sum, and what divides it
Matrix = Any  # [N, K] a numpy array, a CSR array of scipy, or a Beside


@dataclass(frozen=True)
class Beside:
    """Dense columns [N, D] and, after them, sparse ones in CSR form, as one matrix [N, K].

    adaptive: whether a sparse column's penalty is divided by what it tells.
    """

    dense: Floats
    sparse: Any
    adaptive: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.dense), self.dense.shape[1] + self.sparse.shape[1]

    def __getitem__(self, rows: Any) -> Beside:
        return replace(self, dense=self.dense[rows], sparse=self.sparse[rows])

    def __matmul__(self, weight_KO: Floats) -> Floats:
        D = self.dense.shape[1]
        product: Floats = self.dense @ weight_KO[:D] + self.sparse @ weight_KO[D:]
        return product

    @property
    def T(self) -> _Below:
        return _Below(np.ascontiguousarray(self.dense.T), self.sparse.T.tocsr())


@dataclass(frozen=True)
class _Below:
    """A transposed Beside."""

    dense: Floats
    sparse: Any

    def __matmul__(self, slope_NO: Floats) -> Floats:
        return np.vstack([self.dense @ slope_NO, self.sparse @ slope_NO])


def fit_linear(x_NK: Matrix, targets: Tensor, loss: Loss, penalty: float, start: Floats) -> Floats:
    """Weights and, in the last column, the bias [outputs, K + 1] of least mean loss, with `penalty` on the
    squared weights.

    start: where the search begins, which a convex loss leaves behind.
    """
    if not (isinstance(x_NK, Beside) and x_NK.adaptive):
        return _minimise(x_NK, targets, loss, penalty, start)
    scale_K = np.sqrt(_telling(x_NK.sparse, targets, loss, len(start)))
    sparse = x_NK.sparse.copy()
    sparse.data *= scale_K[sparse.indices]
    scale_K = np.concatenate([np.ones(x_NK.dense.shape[1]), scale_K, [1.0]])
    scaled = Beside(x_NK.dense, sparse)
    return scale_K * _minimise(scaled, targets, loss, penalty, start / scale_K)


def _telling(terms_NK: Any, targets: Tensor, loss: Loss, outputs: int) -> Floats:
    """How far the answers to the texts with a term lie from the mean [K]; 1 for the mean of all occurrences.

    An answer is the slope of its loss where nothing but the best constant is known: of cross-entropy, the
    class less the share of each class; of a squared error, the distance from the mean.
    """
    constant = _minimise(
        np.zeros((terms_NK.shape[0], 0)), targets, loss, penalty=0.0, start=np.zeros((outputs, 1))
    )
    _, slope_NO = _slope(loss, np.repeat(constant.T, terms_NK.shape[0], axis=0), targets)
    there = terms_NK.copy()
    there.data = np.ones_like(there.data)
    among = there.sum(0)
    far = np.linalg.norm(there.T @ slope_NO, axis=1) / (among + SHRUNK)
    mean = (far * among).sum() / max(among.sum(), 1)
    telling: Floats = far / mean if mean > 0 else np.ones_like(far)
    return (telling + LEAST_TELLING) / (1 + LEAST_TELLING)


def _slope(loss: Loss, logits_NO: Floats, targets: Tensor) -> tuple[float, Floats]:
    """The mean loss and its slope [N, O]."""
    with torch.enable_grad():
        logits = torch.from_numpy(logits_NO).requires_grad_()
        total, count = loss(logits, targets)
        value = total / count
        [slope] = torch.autograd.grad(value, [logits])
    return float(value.detach()), slope.numpy()


def _minimise(x_NK: Matrix, targets: Tensor, loss: Loss, penalty: float, start: Floats) -> Floats:
    """As `fit_linear`, with the same penalty on all columns."""
    from scipy.optimize import minimize

    x_KN = x_NK.T.tocsr() if hasattr(x_NK, "tocsr") else x_NK.T

    def penalised(flat: Floats) -> tuple[float, Floats]:
        answer = flat.reshape(start.shape)
        value, slope_NO = _slope(loss, x_NK @ answer[:, :-1].T + answer[:, -1], targets)
        gradient = np.column_stack([(x_KN @ slope_NO).T + 2 * penalty * answer[:, :-1], slope_NO.sum(0)])
        return value + penalty * float(np.square(answer[:, :-1]).sum()), gradient.ravel()

    options = {"maxiter": ITERATIONS, "gtol": 1e-6}
    found: Floats = minimize(penalised, start.ravel(), jac=True, method="L-BFGS-B", options=options).x
    return found.reshape(start.shape)


def fit_by_folds(
    x_NK: Matrix,
    targets: Tensor,
    loss: Loss,
    outputs: int,
    strengths: Sequence[float],
    *,
    groups: npt.NDArray[np.int64],
) -> tuple[Floats, Floats]:
    """The fit of the strength that cross-validation finds best, as of `fit_linear`; and the answers
    [N, outputs] to each row of the fit to the folds that it is not in.

    strengths: ascending; the inverse of the penalty on squared weights, of the sum of losses.
    groups: [N] rows of one number are in one fold (a pair in both orders).
    """
    rows, columns = x_NK.shape
    targets = targets.cpu()
    order_N = np.random.default_rng(0).permutation(groups.max() + 1)[groups]
    fold_N, some_N = order_N % FOLDS, order_N < CHOSEN_ON

    def by_folds(strength: float, used_N: Bools, starts: Sequence[Floats]) -> tuple[Floats, list[Floats]]:
        """The answers to the rows used, 0 to others, and the fits without each fold."""
        answers, fits = np.zeros((rows, outputs)), list(starts)
        for fold in range(min(FOLDS, rows)):
            inside, outside = used_N & (fold_N != fold), used_N & (fold_N == fold)
            if inside.any():
                penalty = 1 / (2 * strength * inside.sum())
                fits[fold] = fit_linear(
                    x_NK[inside], targets[torch.from_numpy(inside)], loss, penalty, starts[fold]
                )
            answers[outside] = x_NK[outside] @ fits[fold][:, :-1].T + fits[fold][:, -1]
        return answers, fits

    fits = [np.zeros((outputs, columns + 1))] * FOLDS
    best, chosen, held_out, from_these = np.inf, strengths[0], np.zeros((rows, outputs)), fits
    where = torch.from_numpy(some_N)
    for strength in strengths:  # weaker penalties start where the stronger one ended
        answers, fits = by_folds(strength, some_N, fits)
        total, count = loss(torch.from_numpy(answers)[where], targets[where])
        if float(total) / count < best:
            best, chosen, held_out, from_these = float(total) / count, strength, answers, fits
    if not some_N.all():
        held_out, _ = by_folds(chosen, np.ones(rows, bool), from_these)
    nothing = np.zeros((outputs, columns + 1))
    return fit_linear(x_NK, targets, loss, 1 / (2 * chosen * rows), nothing), held_out
