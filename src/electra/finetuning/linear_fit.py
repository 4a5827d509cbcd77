"""The linear answers that a head starts from, fitted by the loss of the task in double precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

ITERATIONS = 100
FOLDS = 5
Loss = Callable[[Tensor, Tensor], tuple[Tensor, float]]  # of a task: the sum, and what divides it


def fit_linear(
    x_NK: Tensor, targets: Tensor, loss: Loss, penalty: float, start: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Weights [outputs, K] and bias [outputs] of least mean loss, with `penalty` on the squared weights.

    x_NK: dense or sparse, double. start: where the search begins, which a convex loss leaves behind.
    """
    weight, bias = (value.clone().requires_grad_() for value in start)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def penalised() -> Tensor:
        optimizer.zero_grad()
        total, count = loss(x_NK @ weight.T + bias, targets)
        value = total / count + penalty * weight.square().sum()
        torch.autograd.backward(value)
        return value

    with torch.enable_grad():
        optimizer.step(penalised)  # type: ignore[no-untyped-call]
    return weight.detach(), bias.detach()


def fit_by_folds(
    x_NK: Tensor, targets: Tensor, loss: Loss, outputs: int, strengths: Sequence[float]
) -> tuple[Tensor, Tensor, Tensor]:
    """The fit of the strength that cross-validation finds best: weights, bias, and the answers [N, outputs]
    to each row of the fit to the folds that it is not in.

    strengths: ascending; the inverse of the penalty on squared weights, of the sum of losses.
    """
    rows, columns = x_NK.shape
    fold_N = torch.from_numpy(np.random.default_rng(0).permutation(rows) % FOLDS).to(x_NK.device)
    nothing = x_NK.new_zeros(outputs, columns).to_dense(), x_NK.new_zeros(outputs).to_dense()
    starts = [nothing] * FOLDS
    best = np.inf
    for strength in strengths:  # weaker penalties start where the stronger one ended
        answers = torch.zeros(rows, outputs, dtype=x_NK.dtype, device=x_NK.device)
        for fold in range(FOLDS):
            inside, outside = (fold_N != fold).nonzero()[:, 0], (fold_N == fold).nonzero()[:, 0]
            if not len(inside):
                continue
            some = x_NK.index_select(0, inside)
            penalty = 1 / (2 * strength * len(inside))
            starts[fold] = fit_linear(some, targets[inside], loss, penalty, starts[fold])
            answers[outside] = x_NK.index_select(0, outside) @ starts[fold][0].T + starts[fold][1]
        total, count = loss(answers, targets)
        if float(total) / count < best:
            best, held_out, chosen = float(total) / count, answers, strength
    return *fit_linear(x_NK, targets, loss, 1 / (2 * chosen * rows), nothing), held_out
