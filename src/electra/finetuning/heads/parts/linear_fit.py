"""The linear answers that a head starts from, fitted by the loss of the task in double precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from electra.foundation.arrays import Bools, Floats

ITERATIONS = 100
FOLDS = 5
CHOSEN_ON = 20_000  # examples by which the strength is chosen, where there are more
Loss = Callable[[Tensor, Tensor], tuple[Tensor, float]]  # of a task: the sum, and what divides it
Matrix = Any  # [N, K] a numpy array, a CSR array of scipy, or a Beside


@dataclass(frozen=True)
class Beside:
    """Dense columns [N, D] and, after them, sparse ones in CSR form, as one matrix [N, K]."""

    dense: Floats
    sparse: Any

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.dense), self.dense.shape[1] + self.sparse.shape[1]

    def __getitem__(self, rows: Any) -> Beside:
        return Beside(self.dense[rows], self.sparse[rows])

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
    from scipy.optimize import minimize

    x_KN = x_NK.T.tocsr() if hasattr(x_NK, "tocsr") else x_NK.T

    def penalised(flat: Floats) -> tuple[float, Floats]:
        answer = flat.reshape(start.shape)
        with torch.enable_grad():
            logits = torch.from_numpy(x_NK @ answer[:, :-1].T + answer[:, -1]).requires_grad_()
            total, count = loss(logits, targets)
            value = total / count
            [slope] = torch.autograd.grad(value, [logits])
        slope_NO = slope.numpy()
        gradient = np.column_stack([(x_KN @ slope_NO).T + 2 * penalty * answer[:, :-1], slope_NO.sum(0)])
        return float(value.detach()) + penalty * float(np.square(answer[:, :-1]).sum()), gradient.ravel()

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

    def penalty(strength: float, theirs: Tensor) -> float:
        """Beside the mean loss, whose divisor is the loss's own: for labels of a text, one for each label."""
        _, count = loss(torch.zeros(len(theirs), outputs, dtype=torch.float64), theirs)
        return 1 / (2 * strength * count)

    def by_folds(strength: float, used_N: Bools, starts: Sequence[Floats]) -> tuple[Floats, list[Floats]]:
        """The answers to the rows used, 0 to others, and the fits without each fold."""
        answers, fits = np.zeros((rows, outputs)), list(starts)
        for fold in range(min(FOLDS, rows)):
            inside, outside = used_N & (fold_N != fold), used_N & (fold_N == fold)
            if inside.any():
                theirs = targets[torch.from_numpy(inside)]
                fits[fold] = fit_linear(x_NK[inside], theirs, loss, penalty(strength, theirs), starts[fold])
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
    return fit_linear(x_NK, targets, loss, penalty(chosen, targets), nothing), held_out
