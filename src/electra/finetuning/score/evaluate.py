"""Applies a model to a split: its predictions, their loss and their scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from electra.finetuning.finetuned_model import FinetunedModel
from electra.finetuning.score.metrics import Score
from electra.finetuning.task import Task
from electra.finetuning.train.prepared import FeaturizedSplit, Finetuning
from electra.finetuning.windows.features import Windows, batch_of
from electra.foundation.progress import advance, expect
from electra.model.passes import PaddedBatch, map_rows
from electra.model.precision import finite


@dataclass(frozen=True)
class SplitResult:
    """A model's predictions for a split; without answers the loss is None and the scores are {}."""

    predictions: list[Any]
    loss: float | None
    scores: dict[str, Score]

    def record(self) -> dict[str, Any]:
        """Returns the loss, the scores, and the reasons of undefined scores, for results.json."""
        values = {name: score.value for name, score in self.scores.items()}
        reasons = {name: score.reason for name, score in self.scores.items() if score.value is None}
        return {"loss": self.loss, **values, "reasons": reasons}


def evaluate(
    prepared: Finetuning, model: FinetunedModel, split: FeaturizedSplit, precision: str = "fp32"
) -> SplitResult:
    """Predicts a split, and scores it if it has answers."""
    return score(prepared, split, *predict(prepared, model, split, precision))


def predict(
    prepared: Finetuning, model: FinetunedModel, split: FeaturizedSplit, precision: str = "fp32"
) -> tuple[list[npt.NDArray[np.float32]], float | None]:
    """Returns the model's outputs for a split, and their mean loss, like `run_model`."""
    options = {"pad": prepared.pad, "device": prepared.device, "precision": precision}
    return run_model(model, split.windows, prepared.task, **options)  # type: ignore[arg-type]


def score(
    prepared: Finetuning,
    split: FeaturizedSplit,
    outputs: list[npt.NDArray[np.float32]],
    loss: float | None,
) -> SplitResult:
    """Returns the predictions that a model's outputs mean, and their scores if the split has answers."""
    predictions = prepared.task.predict(outputs, split.windows, split.examples)
    has_answers = split.windows.targets is not None
    scores = prepared.task.score(predictions, split.examples) if has_answers else {}
    return SplitResult(predictions, loss, scores)


def run_model(
    model: FinetunedModel,
    windows: Windows,
    task: Task,
    *,
    pad: int,
    device: torch.device,
    precision: str = "fp32",
) -> tuple[list[npt.NDArray[np.float32]], float | None]:
    """Returns the head's output for each window, [outputs] or [T, outputs], and the mean loss with targets.

    By default in fp32, so that scores do not depend on the machine. The model stays in evaluation mode.
    """
    model.eval()
    losses: dict[int, tuple[Tensor, float]] = {}  # by a row of the batch: batches end in any order

    def run_batch(rows: PaddedBatch) -> Sequence[npt.NDArray[np.float32]]:
        batch = batch_of(windows, rows)
        logits = finite(model(batch).float())
        if batch.targets is not None:
            losses[int(rows.index[0])] = task.loss(logits, batch.targets)
        advance(len(rows.index))
        return rows.unpadded(logits) if model.per_token else list(logits.cpu().numpy())

    expect(len(windows.input_ids))
    outputs = list(map_rows(windows.input_ids, run_batch, device, pad=pad, precision=precision))
    count = sum(count for _, count in losses.values())
    total = sum(float(losses[row][0]) for row in sorted(losses))
    return outputs, total / count if count else None


def describe_scores(scores: dict[str, Score]) -> str:
    """Formats scores as one line."""
    return "  ".join(
        f"{name} {score.value:.4f}" if score.value is not None else f"{name} undefined ({score.reason})"
        for name, score in scores.items()
    )
