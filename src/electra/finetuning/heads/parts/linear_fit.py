"""Fits the linear models of heads with the task's loss, in double precision.

Shapes: N rows (texts or tokens), K features, O outputs, D dense features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from electra.foundation.arrays import Bools, Floats

ITERATIONS = 100  # maximum number of L-BFGS iterations
FOLDS = 5
CLEARLY_WORSE = 1.1  # times the best held-out loss
SELECTION_ROWS = 20_000  # maximum number of rows to choose the strength on
Loss = Callable[[Tensor, Tensor], tuple[Tensor, float]]  # a task's loss: the sum and its divisor
Matrix = Any  # [N, K]: a numpy array, a scipy CSR array, or an HStack


@dataclass(frozen=True)
class HStack:
    """A matrix [N, K] of dense columns [N, D] followed by sparse columns in CSR form."""

    dense: Floats
    sparse: Any

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (N, K)."""
        return len(self.dense), self.dense.shape[1] + self.sparse.shape[1]

    def __getitem__(self, rows: Any) -> HStack:
        return HStack(self.dense[rows], self.sparse[rows])

    def __matmul__(self, weight_KO: Floats) -> Floats:
        D = self.dense.shape[1]
        product: Floats = self.dense @ weight_KO[:D] + self.sparse @ weight_KO[D:]
        return product

    @property
    def T(self) -> _Transposed:
        """The transpose, which supports only multiplication."""
        return _Transposed(np.ascontiguousarray(self.dense.T), self.sparse.T.tocsr())


@dataclass(frozen=True)
class _Transposed:
    """A transposed HStack."""

    dense: Floats
    sparse: Any

    def __matmul__(self, gradient_NO: Floats) -> Floats:
        return np.vstack([self.dense @ gradient_NO, self.sparse @ gradient_NO])


def fit_linear(x_NK: Matrix, targets: Tensor, loss: Loss, penalty: float, start: Floats) -> Floats:
    """Minimises the mean loss plus `penalty` times the squared weights, with L-BFGS.

    Args:
        x_NK: the features.
        targets: the targets of `loss`.
        loss: the task's loss.
        penalty: the factor of the squared weights; the bias is not penalised.
        start: the initial weights [outputs, K + 1].

    Returns:
        The weights and, in the last column, the bias [outputs, K + 1].
    """
    from scipy.optimize import minimize

    x_KN = x_NK.T.tocsr() if hasattr(x_NK, "tocsr") else x_NK.T

    def objective(flat_weights: Floats) -> tuple[float, Floats]:
        weights = flat_weights.reshape(start.shape)
        with torch.enable_grad():
            logits = torch.from_numpy(x_NK @ weights[:, :-1].T + weights[:, -1]).requires_grad_()
            total, count = loss(logits, targets)
            value = total / count
            [logit_gradient] = torch.autograd.grad(value, [logits])
        gradient_NO = logit_gradient.numpy()
        gradient = np.column_stack(
            [(x_KN @ gradient_NO).T + 2 * penalty * weights[:, :-1], gradient_NO.sum(0)]
        )
        return float(value.detach()) + penalty * float(np.square(weights[:, :-1]).sum()), gradient.ravel()

    options = {"maxiter": ITERATIONS, "gtol": 1e-6}
    solution: Floats = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options=options).x
    return solution.reshape(start.shape)


def fit_by_folds(
    x_NK: Matrix,
    targets: Tensor,
    loss: Loss,
    outputs: int,
    strengths: Sequence[float],
    *,
    groups: npt.NDArray[np.int64],
) -> tuple[Floats, Floats]:
    """Fits a linear model with the strength that scores best in cross-validation.

    Args:
        x_NK: the features.
        targets: the targets of `loss`.
        loss: the task's loss.
        outputs: the number of logits.
        strengths: candidates in ascending order for the inverse of the penalty on squared weights, relative
            to the sum of losses. The search ends after two that score clearly worse than the best.
        groups: the index of each row's group [N]; rows of a group (a pair in both orders) share a fold.

    Returns:
        The weights and bias [outputs, K + 1], and the held-out logits [N, outputs]: each row's come from the
        fit without its fold.
    """
    rows, columns = x_NK.shape
    targets = targets.cpu()
    order_N = np.random.default_rng(0).permutation(groups.max() + 1)[groups]
    fold_N, selection_N = order_N % FOLDS, order_N < SELECTION_ROWS

    def penalty(strength: float, fold_targets: Tensor) -> float:
        """Returns the penalty relative to the mean loss, whose divisor `loss` defines."""
        _, count = loss(torch.zeros(len(fold_targets), outputs, dtype=torch.float64), fold_targets)
        return 1 / (2 * strength * count)

    def cross_fit(strength: float, used_N: Bools, starts: Sequence[Floats]) -> tuple[Floats, list[Floats]]:
        """Returns the held-out logits of the rows `used_N` (0 for others), and the fit without each fold."""
        logits, fits = np.zeros((rows, outputs)), list(starts)
        for fold in range(min(FOLDS, rows)):
            in_fit, in_fold = used_N & (fold_N != fold), used_N & (fold_N == fold)
            if in_fit.any():
                fold_targets = targets[torch.from_numpy(in_fit)]
                fold_penalty = penalty(strength, fold_targets)
                fits[fold] = fit_linear(x_NK[in_fit], fold_targets, loss, fold_penalty, starts[fold])
            logits[in_fold] = x_NK[in_fold] @ fits[fold][:, :-1].T + fits[fold][:, -1]
        return logits, fits

    fits = [np.zeros((outputs, columns + 1))] * FOLDS
    best_loss, best_strength, held_out, best_fits = np.inf, strengths[0], np.zeros((rows, outputs)), fits
    selection = torch.from_numpy(selection_N)
    num_worse = 0
    for strength in strengths:  # each fit starts from the one with the next stronger penalty
        logits, fits = cross_fit(strength, selection_N, fits)
        total, count = loss(torch.from_numpy(logits)[selection], targets[selection])
        if float(total) / count < best_loss:
            best_loss, best_strength, held_out, best_fits = float(total) / count, strength, logits, fits
            num_worse = 0
        elif float(total) / count > CLEARLY_WORSE * best_loss and (num_worse := num_worse + 1) == 2:
            break  # weaker penalties overfit more, and their fits take longest
    if not selection_N.all():
        held_out, _ = cross_fit(best_strength, np.ones(rows, bool), best_fits)
    zeros = np.zeros((outputs, columns + 1))
    return fit_linear(x_NK, targets, loss, penalty(best_strength, targets), zeros), held_out
