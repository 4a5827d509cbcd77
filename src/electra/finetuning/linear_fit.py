"""Fits a regularised linear model to blocks of features, some dense and some sparse, at once.

Logistic regression for classes (softmax) and labels (sigmoid), ridge regression for numbers, all by L-BFGS.
scikit-learn's would take the dense block as a sparse one, and is several times slower. The strength, and the
scale of each block, are chosen by folds.

Shapes: N rows, X features of a block, O outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import expit, log_softmax
from torch import Tensor

from electra.finetuning.task import Task
from electra.foundation.arrays import Ints, Vectors

FOLDS = 3
SELECTION_ROWS = 2_000  # about as many rows, of a random sample of groups, decide on strength and scales
STRENGTHS = (5.0, 30.0, 200.0)  # candidates for the inverse of the penalty on squared weights
ITERATIONS = 100
TOLERANCE = 2e-5  # of the mean loss
BIAS_PENALTY = 1e-3  # so that an output that no row has gets a finite bias


@dataclass(frozen=True)
class Fit:
    """The weights of each block [X, O], and the biases [O]."""

    weights: list[Vectors]
    bias: Vectors

    def __call__(self, blocks: Sequence[Any]) -> Vectors:
        """Returns the outputs [N, O] of rows: logits, or numbers."""
        pairs = zip(blocks, self.weights, strict=True)
        outputs: Vectors = sum((block @ weight for block, weight in pairs), start=self.bias)
        return outputs


@dataclass(frozen=True)
class Problem:
    """Rows with their answers: 1 for the class, 0 or 1 for each label, or numbers."""

    kind: Literal["classes", "labels", "numbers"]
    blocks: list[Any]  # [N, X] each, float32
    answers: Vectors  # [N, O]
    row_weights: Vectors  # [N]

    def part(self, rows: Ints) -> Problem:
        """Returns the problem of some rows."""
        blocks = [block[rows] for block in self.blocks]
        return Problem(self.kind, blocks, self.answers[rows], self.row_weights[rows])

    def scaled(self, scales: Sequence[float]) -> Problem:
        """Returns the problem with each block multiplied by a number."""
        pairs = zip(self.blocks, scales, strict=True)
        return replace(self, blocks=[block * np.float32(scale) for block, scale in pairs])

    def without_empty_columns(self) -> Problem:
        """Returns the problem without the columns of sparse blocks that have only zeros."""
        blocks = [
            block[:, np.unique(block.indices)] if hasattr(block, "tocsr") else block for block in self.blocks
        ]
        return replace(self, blocks=blocks)

    def loss(self, outputs: Vectors) -> tuple[Vectors, Vectors]:
        """Returns each row's loss [N], and its derivative by the outputs [N, O]."""
        if self.kind == "classes":
            logs = log_softmax(outputs, axis=1)
            return -(self.answers * logs).sum(1), np.exp(logs) - self.answers
        if self.kind == "labels":
            losses = np.logaddexp(0, outputs) - self.answers * outputs
            return losses.sum(1), expit(outputs) - self.answers
        return 0.5 * np.square(outputs - self.answers).sum(1), outputs - self.answers


def standardised(block: Any) -> tuple[Any, Vectors, np.float32]:
    """Returns a block with a mean squared norm of 1, and what was subtracted and divided by."""
    is_sparse = hasattr(block, "tocsr")
    mean = np.zeros(block.shape[1], np.float32) if is_sparse else block.mean(0, dtype=np.float32)
    centred = block if is_sparse else block - mean
    scale = np.float32(max(float(np.sqrt((centred * centred).sum() / block.shape[0])), 1e-12))
    return (centred / scale).astype(np.float32), mean, scale


def problem_of(task: Task, blocks: list[Any], targets: npt.NDArray[Any]) -> Problem:
    """Returns the problem of rows with these targets: classes [N], labels [N, O] or numbers [N]."""
    row_weights = np.ones(len(targets), np.float32)
    if targets.ndim > 1:
        return Problem("labels", blocks, targets.astype(np.float32), row_weights)
    if targets.dtype.kind == "f":
        return Problem("numbers", blocks, targets.astype(np.float32)[:, None], row_weights)
    if task.balanced and task.weights:
        row_weights = np.array(task.weights, np.float32)[targets]
    return Problem("classes", blocks, np.eye(task.num_outputs, dtype=np.float32)[targets], row_weights)


def fit(problem: Problem, strength: float, start: Fit | None = None) -> Fit:
    """Returns the linear model with the lowest sum of losses, times `strength`, and squared weights."""
    num_outputs = problem.answers.shape[1]
    cuts = np.cumsum([0, *(block.shape[1] for block in problem.blocks)])
    spans = list(pairwise(cuts))
    turned = [block.T.tocsr() if hasattr(block, "tocsr") else block.T for block in problem.blocks]
    first = np.zeros((cuts[-1] + 1, num_outputs), np.float32)
    if start is not None:
        first[:] = np.concatenate([*start.weights, start.bias[None]])
    row_weights = problem.row_weights / problem.row_weights.sum()  # the mean loss, for the tolerance
    penalty = 1 / (strength * float(problem.row_weights.sum()))
    values = torch.nn.Parameter(torch.from_numpy(first))
    values.grad = torch.zeros_like(values)
    options: dict[str, Any] = {"max_iter": ITERATIONS, "history_size": 5, "tolerance_change": TOLERANCE}
    solver = torch.optim.LBFGS([values], line_search_fn="strong_wolfe", **options)
    flat, gradient = values.detach().numpy(), values.grad.numpy()

    def objective() -> Tensor:
        blocks = zip(problem.blocks, spans, strict=True)
        losses, slopes = problem.loss(sum((block @ flat[a:b] for block, (a, b) in blocks), start=flat[-1]))
        slopes *= row_weights[:, None]
        gradient[:] = penalty * flat
        for block, (a, b) in zip(turned, spans, strict=True):
            gradient[a:b] += block @ slopes
        gradient[-1] = slopes.sum(0) + BIAS_PENALTY * penalty * flat[-1]
        squares = np.square(flat).sum(1, dtype=np.float64)
        total = row_weights @ losses + 0.5 * penalty * (squares[:-1].sum() + BIAS_PENALTY * squares[-1])
        return torch.tensor(float(total))

    with torch.enable_grad():
        solver.step(objective)  # type: ignore[no-untyped-call]
    return Fit([flat[a:b] for a, b in spans], flat[-1])


def fit_by_folds(
    problem: Problem,
    groups: Ints,
    scales: Sequence[Sequence[float]] = ((1.0,),),
    strengths: Sequence[float] = STRENGTHS,
) -> Fit:
    """Returns the model of all rows with the best of the strengths and, with that, of the blocks' scales.

    They are compared by the loss of held-out rows; rows of a group [N] are held out together.
    """
    rng = np.random.default_rng(0)
    count, of_row = len(set(groups.tolist())), np.unique(groups, return_inverse=True)[1]
    fold_of_group = rng.permutation(count) % FOLDS
    rows = np.flatnonzero((rng.permutation(count) < count * SELECTION_ROWS / len(groups))[of_row])
    folds, sample = fold_of_group[of_row[rows]], problem.part(rows).without_empty_columns()
    scale, strength = scales[0], strengths[len(strengths) // 2]
    if len(set(folds.tolist())) == FOLDS:
        losses = held_out_losses(sample.scaled(scale), folds, strengths)
        strength = strengths[int(np.argmin(losses))]
        of_scales = [held_out_losses(sample.scaled(each), folds, [strength])[0] for each in scales[1:]]
        scale = scales[int(np.argmin([min(losses), *of_scales]))]
    found = fit(problem.scaled(scale), strength)
    weights = [weight * np.float32(each) for weight, each in zip(found.weights, scale, strict=True)]
    return Fit(weights, found.bias)


def held_out_losses(problem: Problem, folds: Ints, strengths: Sequence[float]) -> list[float]:
    """Returns the sum of the losses of held-out rows for each strength; `folds` are the rows' folds [N]."""
    totals = [0.0] * len(strengths)
    for fold in range(FOLDS):
        train, held_out = (
            problem.part(np.flatnonzero(folds != fold)),
            problem.part(np.flatnonzero(folds == fold)),
        )
        found = None
        for place, strength in enumerate(strengths):
            found = fit(train, strength, found)
            totals[place] += float(held_out.row_weights @ held_out.loss(found(held_out.blocks))[0])
    return totals
