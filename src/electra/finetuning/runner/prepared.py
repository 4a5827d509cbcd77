"""Prepares what the seeds of a fine-tuning share, and evaluates a model on a split."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from electra.exchange.load import Loaded
from electra.finetuning.labelled.examples import Examples
from electra.finetuning.metrics.scores import Score
from electra.finetuning.runner.dataset import Dataset
from electra.finetuning.runner.finetuned_model import FinetunedModel
from electra.finetuning.settings import ResolvedSettings
from electra.finetuning.tasks.parts.task import Task
from electra.finetuning.windows.features import Tokens, Windows, batch_of
from electra.foundation.errors import RunFailed
from electra.foundation.progress import Say, quiet
from electra.model.passes import PaddedBatch, map_rows
from electra.model.precision import pick_device, pick_precision


@dataclass(frozen=True)
class FeaturizedSplit:
    """The examples of a split and their windows."""

    windows: Windows
    examples: Examples


@dataclass(frozen=True)
class Finetuning:
    """Everything that the seeds of a fine-tuning share: settings, task, data, initial model and hardware."""

    settings: ResolvedSettings
    task: Task  # fitted
    start: Loaded  # the model that each seed starts from
    train: Windows
    splits: dict[str, FeaturizedSplit]  # dev and other files; those with answers are scored
    device: torch.device
    precision: str
    say: Say = quiet
    stopping: Callable[[], bool] = lambda: False  # called after each step; True stops the run

    @property
    def pad(self) -> int:
        """The id of the padding token."""
        return self.start.tokenizer.specials.pad

    @property
    def steps_per_epoch(self) -> int:
        """The number of updates in one pass over the training data."""
        return math.ceil(self.train.num_groups / self.settings.batch_size)

    @property
    def total_steps(self) -> int:
        """The number of updates, which is at least 1 unless there are 0 epochs."""
        return max(1, round(self.settings.epochs * self.steps_per_epoch)) if self.settings.epochs else 0


def prepare(settings: ResolvedSettings, dataset: Dataset, loaded: Loaded) -> tuple[Finetuning, list[str]]:
    """Tokenises the data once for all seeds; also returns notes on the data for the user."""
    tokens, task, notes = Tokens(loaded.tokenizer), dataset.task, list(dataset.notes)
    splits: dict[str, FeaturizedSplit] = {}
    for split, examples in dataset.splits.items():
        windows = task.featurize(examples, tokens, settings.max_length, train=split == "train")
        if windows.truncated:
            count_note = f"{windows.truncated} of {len(examples)} examples"
            notes.append(f"{split}: {count_note} truncated to {settings.max_length} tokens")
        notes += [f"{split}: {note}" for note in windows.notes]
        splits[split] = FeaturizedSplit(windows, examples)
    train, device = splits.pop("train").windows, pick_device(settings.device)
    precision = pick_precision(settings.precision, device)
    return Finetuning(settings, task, loaded, train, splits, device, precision), notes


@dataclass(frozen=True)
class Evaluation:
    """A model's predictions for a split; without answers the loss is None and the scores are {}."""

    predictions: list[Any]
    loss: float | None
    scores: dict[str, Score]

    def record(self) -> dict[str, Any]:
        """Returns the loss, the scores, and the reasons of undefined scores, for results.json."""
        values = {name: score.value for name, score in self.scores.items()}
        reasons = {name: score.reason for name, score in self.scores.items() if score.value is None}
        return {"loss": self.loss, **values, "reasons": reasons}


def evaluate(prepared: Finetuning, model: FinetunedModel, split: FeaturizedSplit) -> Evaluation:
    """Predicts a split, and scores it if it has answers."""
    outputs, loss = run_model(model, split.windows, prepared.task, pad=prepared.pad, device=prepared.device)
    predictions = prepared.task.predict(outputs, split.windows, split.examples)
    has_answers = split.windows.targets is not None
    return Evaluation(
        predictions, loss, prepared.task.score(predictions, split.examples) if has_answers else {}
    )


def run_model(
    model: FinetunedModel, windows: Windows, task: Task, *, pad: int, device: torch.device
) -> tuple[list[npt.NDArray[np.float32]], float | None]:
    """Returns the head's output for each window, [outputs] or [T, outputs], and the mean loss.

    The loss is None without targets. The model always runs in fp32, so that scores do not depend on the
    machine, and stays in evaluation mode.
    """
    model.eval()
    losses: list[tuple[Tensor, float]] = []

    def run_batch(rows: PaddedBatch) -> Sequence[npt.NDArray[np.float32]]:
        batch = batch_of(windows, rows)
        logits = model(batch)
        if batch.targets is not None:
            losses.append(task.loss(logits, batch.targets))
        return rows.unpadded(logits) if model.per_token else list(logits.cpu().numpy())

    outputs = list(map_rows(windows.input_ids, run_batch, device, pad=pad))
    if not all(np.isfinite(row).all() for row in outputs):
        fix = "Lower `learning_rate`, or restore the model if its weights are damaged"
        raise RunFailed("the model's outputs are not finite", fix=fix)
    count = sum(count for _, count in losses)
    return outputs, sum(float(loss_sum) for loss_sum, _ in losses) / count if count else None


def describe_scores(scores: dict[str, Score]) -> str:
    """Formats scores as one line."""
    return "  ".join(
        f"{name} {score.value:.4f}" if score.value is not None else f"{name} undefined ({score.reason})"
        for name, score in scores.items()
    )
