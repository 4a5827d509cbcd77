"""Fits a regularised linear model to blocks of features, dense ones and sparse ones, at once.

Logistic regression for classes (softmax) and labels (sigmoid), ridge regression for numbers, by L-BFGS:
scikit-learn's would take a dense block as a sparse one, and is several times slower. The penalty, and the
scale of each block, are chosen by the loss of held-out rows.

Shapes: N rows, X features of a block, O outputs.
"""

from __future__ import annotations

import math
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

Scales = tuple[float, ...]  # one for each block
SELECTION_FOLDS, SELECTION_ROWS = 3, 2_000  # a random sample of the rows, and of the folds, chooses
STRENGTHS = (0.5, 5.0, 30.0, 200.0, 2000.0)  # candidates for the inverse of the penalty on squared weights
ITERATIONS = 60
TOLERANCE = 1e-4  # of the mean loss
CURVATURE = 0.1  # of the loss, about, by an output
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
class Choice:
    """The inverse of the penalty, and what multiplies each block once its mean squared norm is 1."""

    strength: float
    scales: Scales


@dataclass(frozen=True)
class Problem:
    """Rows with their answers: 1 for the class, 0 or 1 for each label, or numbers."""

    kind: Literal["classes", "labels", "numbers"]
    blocks: list[Any]  # [N, X] each, float32
    answers: Vectors  # [N, O]
    importance: Vectors  # what multiplies the losses: [N, O], or [N, 1]

    @classmethod
    def of(cls, task: Task, blocks: list[Any], targets: npt.NDArray[Any], balanced: bool = False) -> Problem:
        """Returns the problem of rows with these targets: classes [N], labels [N, O] or numbers [N].

        If `balanced`, or the task says so, all classes have the same total weight.
        """
        importance = np.ones((len(targets), 1), np.float32)
        balanced |= task.balanced
        if targets.ndim > 1:
            counts = targets.sum(0)
            of_label = (len(targets) - counts) / np.maximum(counts, 1)
            importance = np.where(targets > 0, of_label, 1.0) if balanced else importance
            return cls("labels", blocks, targets.astype(np.float32), importance.astype(np.float32))
        if targets.dtype.kind == "f":
            return cls("numbers", blocks, targets.astype(np.float32)[:, None], importance)
        answers = np.eye(task.num_outputs, dtype=np.float32)[targets]
        if balanced:
            counts = answers.sum(0)
            importance = (len(targets) / (np.count_nonzero(counts) * counts[targets]))[:, None]
        return cls("classes", blocks, answers, importance.astype(np.float32))

    def part(self, rows: Ints) -> Problem:
        """Returns the problem of some rows."""
        blocks = [block[rows] for block in self.blocks]
        return Problem(self.kind, blocks, self.answers[rows], self.importance[rows])

    def loss(self, outputs: Vectors) -> tuple[float, Vectors]:
        """Returns the sum of the rows' losses, and its derivative by the outputs [N, O]."""
        slopes = outputs - self.answers
        losses = 0.5 * np.square(slopes)
        if self.kind == "classes":
            logs = log_softmax(outputs, axis=1)
            losses, slopes = -self.answers * logs, np.exp(logs) - self.answers
        elif self.kind == "labels":
            losses = np.logaddexp(0, outputs) - self.answers * outputs
            slopes = expit(outputs) - self.answers
        return float((losses * self.importance).sum(dtype=np.float64)), slopes * self.importance


def standardised(block: Any, scale: float, penalty: float) -> tuple[Any, Any, Vectors, Vectors, Vectors]:
    """Returns a block with mean 0 if it is dense, and a mean squared norm of `scale` squared.

    Its columns are further divided by a bound on the curvature of the loss, so that the solver needs 20 steps
    and not 150. Also returned: the columns that are not empty, what was subtracted [X], what they were
    multiplied by, and the penalty of each.
    """
    columns, mean = slice(None), np.zeros(block.shape[1], np.float32)
    if isinstance(block, np.ndarray):
        mean = block.mean(0, dtype=np.float64).astype(np.float32)
        block = block - mean
    else:
        columns = np.unique(block.indices)
        block = block[:, columns]
    squares = np.asarray((block * block).mean(0), np.float64)
    factor = scale / max(math.sqrt(squares.sum()), 1e-12)
    curvature = penalty + CURVATURE * factor**2 * squares
    factors = (factor / np.sqrt(curvature)).astype(np.float32)
    block = block * factors if isinstance(block, np.ndarray) else block.multiply(factors[None]).tocsr()
    return block, columns, mean, factors, (penalty / curvature).astype(np.float32)


def fit(problem: Problem, choice: Choice) -> Fit:
    """Returns the linear model with the lowest sum of losses, times the strength, and squared weights."""
    total = float(problem.importance.mean()) * len(problem.answers)
    penalty = 1 / (choice.strength * total)
    scaled = [standardised(*each, penalty) for each in zip(problem.blocks, choice.scales, strict=True)]
    blocks = [block for block, *_ in scaled]
    turned = [block.T if isinstance(block, np.ndarray) else block.T.tocsr() for block in blocks]
    spans = list(pairwise(np.cumsum([0, *(block.shape[1] for block in blocks)])))
    penalties = np.concatenate([*(each[-1] for each in scaled), [np.float32(BIAS_PENALTY * penalty)]])[
        :, None
    ]
    shape = (len(penalties), problem.answers.shape[1])  # the biases are the last row
    values = torch.nn.Parameter(torch.zeros(shape))
    values.grad = torch.zeros(shape)
    flat, gradient = values.detach().numpy(), values.grad.numpy()
    options: dict[str, Any] = {"max_iter": ITERATIONS, "history_size": 5, "tolerance_change": TOLERANCE}
    solver = torch.optim.LBFGS([values], line_search_fn="strong_wolfe", **options)

    def objective() -> Tensor:
        outputs = sum(
            (block @ flat[a:b] for block, (a, b) in zip(blocks, spans, strict=True)), start=flat[-1]
        )
        loss, slopes = problem.loss(outputs)
        for block, (a, b) in zip(turned, spans, strict=True):
            gradient[a:b] = block @ slopes
        gradient[-1] = slopes.sum(0)
        gradient[:] = gradient / np.float32(total) + penalties * flat
        squares = (penalties * np.square(flat)).sum(dtype=np.float64)
        return torch.tensor(loss / total + 0.5 * float(squares))

    with torch.enable_grad():
        solver.step(objective)  # type: ignore[no-untyped-call]
    weights, bias = [], flat[-1].copy()
    for (_, columns, mean, factors, _), (a, b) in zip(scaled, spans, strict=True):
        weights.append(np.zeros((len(mean), shape[1]), np.float32))
        weights[-1][columns] = flat[a:b] * factors[:, None]
        bias -= mean @ weights[-1]
    return Fit(weights, bias)


def choose(problem: Problem, folds: Ints, scales: Sequence[Scales]) -> Choice:
    """Returns the strength with the lowest loss of held-out rows and, with that, the best of the scales.

    Both are lists in order: from the middle on, those next to the best are tried. `folds` [N] are those of
    the rows: a fold is held out as a whole.
    """
    rows = np.sort(np.random.default_rng(0).permutation(len(folds))[:SELECTION_ROWS])
    sample, fold_of = problem.part(rows), folds[rows]
    known = np.unique(fold_of)
    best = Choice(STRENGTHS[len(STRENGTHS) // 2], scales[len(scales) // 2])
    if len(known) < 2:
        return best
    parts = [[sample.part(np.flatnonzero(is_in)) for is_in in (fold_of != k, fold_of == k)] for k in known]
    losses = dict[Choice, float]()

    def try_out(choice: Choice) -> float:
        if choice in losses:
            return losses[choice]
        pairs = ((fit(train, choice), held_out) for train, held_out in parts[:SELECTION_FOLDS])
        losses[choice] = sum(held_out.loss(found(held_out.blocks))[0] for found, held_out in pairs)
        return losses[choice]

    def climb(candidates: Sequence[Choice]) -> Choice:
        middle = len(candidates) // 2
        for way in (candidates[middle:], candidates[:middle][::-1]):
            for choice in way:
                if try_out(choice) > min(losses.values()):
                    break
        return min(losses, key=losses.__getitem__)

    best = climb([replace(best, strength=strength) for strength in STRENGTHS])
    return climb([replace(best, scales=each) for each in scales])


def out_of_fold(problem: Problem, folds: Ints, choice: Choice) -> Vectors:
    """Returns the outputs [N, O] for each row of a model that has not seen its fold."""
    outputs = np.zeros_like(problem.answers)
    for fold in np.unique(folds):
        held_out = np.flatnonzero(folds == fold)
        fitted = fit(problem.part(np.flatnonzero(folds != fold)), choice)
        outputs[held_out] = fitted(problem.part(held_out).blocks)
    return outputs


def fit_by_folds(problem: Problem, folds: Ints, scales: Sequence[Scales] = ((1.0,),)) -> Fit:
    """Returns the model of all rows with what `choose` chooses."""
    return fit(problem, choose(problem, folds, scales))
