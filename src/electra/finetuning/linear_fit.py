"""The linear answers that a head starts from, fitted by the loss of the task in double precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from electra.arrays import Floats

ITERATIONS = 100
FOLDS = 5
Loss = Callable[[Tensor, Tensor], tuple[Tensor, float]]  # of a task: the sum, and what divides it
Matrix = Any  # [N, K] a numpy array, or a CSR array of scipy


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
    fold_N = np.random.default_rng(0).permutation(groups.max() + 1)[groups] % FOLDS
    starts = [np.zeros((outputs, columns + 1))] * FOLDS
    best, chosen, held_out = np.inf, strengths[0], np.zeros((rows, outputs))
    for strength in strengths:  # weaker penalties start where the stronger one ended
        answers = np.zeros((rows, outputs))
        for fold in range(min(FOLDS, rows)):
            inside, outside = fold_N != fold, fold_N == fold
            if inside.any():
                penalty = 1 / (2 * strength * inside.sum())
                starts[fold] = fit_linear(
                    x_NK[inside], targets[torch.from_numpy(inside)], loss, penalty, starts[fold]
                )
            answers[outside] = x_NK[outside] @ starts[fold][:, :-1].T + starts[fold][:, -1]
        total, count = loss(torch.from_numpy(answers), targets)
        if float(total) / count < best:
            best, chosen, held_out = float(total) / count, strength, answers
    nothing = np.zeros((outputs, columns + 1))
    return fit_linear(x_NK, targets, loss, 1 / (2 * chosen * rows), nothing), held_out
