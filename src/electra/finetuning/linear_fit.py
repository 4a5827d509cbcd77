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
from electra.foundation.threads import one_thread

FEW_ROWS, SELECTION_FOLDS = 1_200, 3  # so many rows, drawn at random, and so many folds of them, choose
STRENGTHS = (0.5, 10.0, 50.0, 250.0, 2000.0)  # the inverse of the penalty on squared weights: candidates
SHARES = {"classifier": (0.7, 0.35, 0.0), "tagger": (0.7, 1.0)}  # candidates: of states beside counts
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
    share: float = 1.0  # root of the mean squared norm that rows of the first block get; of others it is 1
    is_centred: tuple[bool, ...] = ()  # of each block, whether its mean is subtracted; (): of arrays

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


@one_thread()
def fit(problem: Problem) -> Fit:
    """Returns the linear model with the lowest sum of losses, times the strength, and squared weights.

    These are the weights of blocks whose rows have the mean norms that the problem says.
    """
    blocks, count = problem.blocks, len(problem.targets)
    shares = [problem.share, *[1.0] * (len(blocks) - 1)]
    is_centred = problem.is_centred or [isinstance(block, np.ndarray) for block in blocks]
    parts = [*map(_moments, blocks, is_centred, shares)]
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


def _moments(block: Any, is_centred: bool, share: float) -> tuple[Vectors, Floats, Floats]:
    """Returns what to subtract from a block [X], the mean squares then, and the factor to its share."""
    mean = np.zeros(block.shape[1], np.float32)
    if is_centred:
        mean = block.mean(0)
        block = block - mean
    squares = np.asarray((block * block).mean(0), np.float64)
    return mean, squares, np.full(len(mean), share / max(math.sqrt(squares.sum()), 1e-12))


@one_thread()
def tuned(problem: Problem, folds: Ints) -> Problem:
    """Returns the problem with the strength and the share at which held-out rows lose least.

    `folds` [N] are those of the rows: a fold is held out as a whole. Of two blocks of texts, the
    first may be left out (share 0): where words decide, the states of a small encoder distract.
    """
    rows = np.sort(np.random.default_rng(0).permutation(len(folds))[:FEW_ROWS])
    sample = _with_few_columns(replace(problem.part(rows), task=problem.task.penalty_task))
    shares = SHARES[problem.task.head] if len(problem.blocks) > 1 else (1.0,)
    best = min((_best_strength(replace(sample, share=share), folds[rows]) for share in shares), key=itemgetter(0))
    return replace(problem, strength=best[1], share=best[2])


def _with_few_columns(problem: Problem) -> Problem:
    """Returns the problem with a column for each row, if rows are few: other axes, the same outputs."""

    def turned(block: Any) -> Any:
        if isinstance(block, np.ndarray) or block.shape[0] > min(FEW_ROWS, block.shape[1]):
            return block
        values, axes = np.linalg.eigh((block @ block.T).toarray().astype(np.float64))
        return (axes * np.sqrt(values.clip(0))).astype(np.float32)

    is_centred = tuple(isinstance(block, np.ndarray) for block in problem.blocks)
    return replace(problem, blocks=[*map(turned, problem.blocks)], is_centred=is_centred)


def _best_strength(sample: Problem, folds: Ints) -> tuple[float, float, float]:
    """Returns the loss of held-out rows at the best strength: from the middle one on, the next are tried."""
    middle, known = len(STRENGTHS) // 2, np.unique(folds)
    if len(known) < 2:
        return 0.0, STRENGTHS[middle], sample.share
    losses = dict[float, float]()
    for way in (STRENGTHS[middle:], STRENGTHS[:middle][::-1]):
        for strength in way:
            losses[strength] = 0.0
            for fold in known[:SELECTION_FOLDS]:
                train, held_out = (sample.part(np.flatnonzero(each)) for each in (folds != fold, folds == fold))
                fitted = fit(replace(train, strength=strength))
                losses[strength] += held_out.loss(fitted(held_out.blocks))[0]
            if losses[strength] > min(losses.values()):
                break
    best = min(losses, key=losses.__getitem__)
    return losses[best], best, sample.share


@one_thread()
def out_of_fold(problem: Problem, folds: Ints) -> Vectors:
    """Returns the outputs [N, O] for each row of a model that has not seen its fold."""
    problem = _with_few_columns(problem)
    outputs = np.zeros((len(folds), problem.task.num_outputs), np.float32)
    for fold in np.unique(folds):
        held_out = np.flatnonzero(folds == fold)
        fitted = fit(problem.part(np.flatnonzero(folds != fold)))
        outputs[held_out] = fitted(problem.part(held_out).blocks)
    return outputs
