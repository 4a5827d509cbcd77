"""Fits a regularised linear model to blocks of features, dense ones and sparse ones, at once.

The task's own loss is minimised by L-BFGS: logistic regression for labels, ridge regression for numbers.
scikit-learn would take a dense block as a sparse one, and is several times slower. Blocks get a mean norm,
which is their share, and the penalty is chosen by the loss of held-out rows.

Shapes: N rows, X features of a block, O outputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from electra.finetuning.task import Task
from electra.foundation.arrays import Floats, Ints, Vectors

SELECTION_FOLDS, SELECTION_ROWS = 3, 2_000  # a random sample of the rows, and of the folds, chooses
STRENGTHS = (0.5, 10.0, 50.0, 250.0, 2000.0)  # the inverse of the penalty on squared weights: candidates
SHARES = (0.7, 0.35, 0.0)  # of states beside counted features: candidates; of words, the first
ITERATIONS, TOLERANCE = 60, 2e-5  # of the solver; of the mean loss
CURVATURE = 0.1  # of the loss, about, by an output
BIAS_PENALTY = 1e-3  # so that an output that no row has gets a finite bias


@dataclass(frozen=True)
class Fit:
    """The weights of each block [X, O], and the biases [O]."""

    weights: list[Vectors]
    bias: Vectors

    def __call__(self, blocks: Sequence[Any]) -> Vectors:
        """Returns the outputs [N, O] of rows, as of a head."""
        pairs = zip(blocks, self.weights, strict=True)
        outputs: Vectors = sum((block @ weight for block, weight in pairs), start=self.bias)
        return outputs


@dataclass(frozen=True)
class Problem:
    """The features of rows, and the targets that a task's windows have of them."""

    task: Task
    blocks: list[Any]  # [N, X] each, float32: arrays, or scipy's sparse ones
    targets: npt.NDArray[Any]  # [N], or [N, O] with several labels
    strength: float = STRENGTHS[2]  # of the sum of losses beside the squared weights
    share: float = (
        1.0  # the root of the mean squared norm that rows of the first block get; of others it is 1
    )

    def part(self, rows: Ints) -> Problem:
        """Returns the problem of some rows."""
        return replace(self, blocks=[block[rows] for block in self.blocks], targets=self.targets[rows])

    def loss(self, outputs: Vectors) -> tuple[float, Vectors]:
        """Returns the sum of the rows' losses, and its derivative by the outputs [N, O]."""
        logits, targets = torch.from_numpy(outputs).requires_grad_(), torch.from_numpy(self.targets)
        words = self.task.head == "tagger"
        with torch.enable_grad():
            loss, _ = self.task.loss(logits[None] if words else logits, targets[None] if words else targets)
            (slopes,) = torch.autograd.grad(loss, logits)
        return float(loss.detach()), slopes.numpy()


def fit(problem: Problem) -> Fit:
    """Returns the linear model with the lowest sum of losses, times the strength, and squared weights.

    These are the weights of blocks whose rows have the mean norms that the problem says.
    """
    blocks, count = problem.blocks, len(problem.targets)
    shares = [problem.share, *[1.0] * (len(blocks) - 1)]
    parts = [_moments(block, share) for block, share in zip(blocks, shares, strict=True)]
    mean_X, square_X, scale_X = (np.concatenate(each) for each in zip(*parts, strict=True))
    penalty = 1 / (problem.strength * count)
    # The solver's unknowns have the same curvature in all directions, about: 20 steps instead of 150.
    curvature_X = penalty + CURVATURE * square_X * scale_X**2
    factor_X1 = (scale_X / np.sqrt(curvature_X)).astype(np.float32)[:, None]
    penalties = np.append(penalty / curvature_X, BIAS_PENALTY * penalty).astype(np.float32)[:, None]
    turned = [block.T if isinstance(block, np.ndarray) else block.T.tocsr() for block in blocks]
    values = torch.nn.Parameter(torch.zeros(len(penalties), problem.task.num_outputs))
    values.grad = torch.zeros_like(values)
    flat, gradient = values.detach().numpy(), values.grad.numpy()
    ends = np.cumsum([block.shape[1] for block in blocks])[:-1]

    def model() -> Fit:
        weights_XO = flat[:-1] * factor_X1
        return Fit(np.split(weights_XO, ends), flat[-1] - mean_X @ weights_XO)

    def objective() -> Tensor:
        loss, slopes_NO = problem.loss(model()(blocks))
        total_O = slopes_NO.sum(0)
        gradient[:-1] = np.concatenate([block @ slopes_NO for block in turned]) - np.outer(mean_X, total_O)
        gradient[:-1] *= factor_X1
        gradient[-1] = total_O
        gradient[:] = gradient / np.float32(count) + penalties * flat
        squares = (penalties * np.square(flat)).sum(dtype=np.float64)
        return torch.tensor(loss / count + 0.5 * float(squares))

    options: dict[str, Any] = {"max_iter": ITERATIONS, "history_size": 5, "tolerance_change": TOLERANCE}
    solver = torch.optim.LBFGS([values], line_search_fn="strong_wolfe", **options)
    with torch.enable_grad():
        solver.step(objective)  # type: ignore[no-untyped-call]
    return model()


def _moments(block: Any, share: float) -> tuple[Vectors, Floats, Floats]:
    """Returns what to subtract from a block [X], the mean squares then, and the factor to its share."""
    mean = np.zeros(block.shape[1], np.float32)
    if isinstance(block, np.ndarray):
        mean = block.mean(0)
        block = block - mean
    squares = np.asarray((block * block).mean(0), np.float64)
    return mean, squares, np.full(len(mean), share / max(math.sqrt(squares.sum()), 1e-12))


def tuned(problem: Problem, folds: Ints) -> Problem:
    """Returns the problem with the strength and the share at which held-out rows lose least.

    `folds` [N] are those of the rows: a fold is held out as a whole. Of two blocks, the first may be left
    out (share 0): where words decide, the states of a small encoder distract.
    """
    shares = SHARES[: 1 if problem.task.head == "tagger" else None] if len(problem.blocks) > 1 else [1.0]
    tried = [_with_strength(replace(problem, share=share), folds) for share in shares]
    return min(tried, key=itemgetter(0))[1]


def _with_strength(problem: Problem, folds: Ints) -> tuple[float, Problem]:
    """Returns the loss of held-out rows at the best strength: from the middle one on, the next are tried."""
    rows = np.sort(np.random.default_rng(0).permutation(len(folds))[:SELECTION_ROWS])
    sample, of_row, middle = problem.part(rows), folds[rows], len(STRENGTHS) // 2
    if len(known := np.unique(of_row)) < 2:
        return 0.0, problem
    blocks = [
        each if isinstance(each, np.ndarray) else each[:, np.unique(each.indices)] for each in sample.blocks
    ]
    sample = replace(sample, blocks=blocks)
    losses = dict[float, float]()
    for way in (STRENGTHS[middle:], STRENGTHS[:middle][::-1]):
        for strength in way:
            losses[strength] = 0.0
            for fold in known[:SELECTION_FOLDS]:
                train, held_out = (
                    sample.part(np.flatnonzero(is_in)) for is_in in (of_row != fold, of_row == fold)
                )
                fitted = fit(replace(train, strength=strength))
                losses[strength] += held_out.loss(fitted(held_out.blocks))[0]
            if losses[strength] > min(losses.values()):
                break
    best = min(losses, key=losses.__getitem__)
    return losses[best], replace(problem, strength=best)


def out_of_fold(problem: Problem, folds: Ints) -> Vectors:
    """Returns the outputs [N, O] for each row of a model that has not seen its fold."""
    outputs = np.zeros((len(folds), problem.task.num_outputs), np.float32)
    for fold in np.unique(folds):
        held_out = np.flatnonzero(folds == fold)
        fitted = fit(problem.part(np.flatnonzero(folds != fold)))
        outputs[held_out] = fitted(problem.part(held_out).blocks)
    return outputs
