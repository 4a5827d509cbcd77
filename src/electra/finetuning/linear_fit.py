"""The linear answers that a head starts from, fitted by the loss of the task in double precision."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

ITERATIONS = 100
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
