"""What the seeds of a fine-tuning share, and what a model makes of examples."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from electra.exchange.load import Loaded
from electra.finetuning.labelled.examples import Examples
from electra.finetuning.metrics.scores import Score
from electra.finetuning.runner.tuned_model import TunedModel
from electra.finetuning.settings import ResolvedSettings
from electra.finetuning.tasks.parts.task import Task
from electra.finetuning.windows.features import Windows, batch_of
from electra.foundation.errors import RunFailed
from electra.foundation.progress import Say, quiet
from electra.model.passes import PaddedBatch, map_rows


@dataclass(frozen=True)
class ReadSplit:
    """The examples of a split, as the encoder reads them."""

    windows: Windows
    examples: Examples


def steps_of(settings: ResolvedSettings, train: Windows) -> int:
    if not settings.epochs:
        return 0
    return max(1, round(settings.epochs * math.ceil(train.num_groups / settings.batch_size)))


@dataclass(frozen=True)
class Tuning:
    settings: ResolvedSettings
    task: Task  # fitted
    start: Loaded  # what each seed begins with
    train: Windows
    splits: dict[str, ReadSplit]  # dev, and others to predict and, where they have answers, to score
    total_steps: int
    device: torch.device
    precision: str
    say: Say = quiet
    stopping: Callable[[], bool] = lambda: False  # asked after each step

    @property
    def pad(self) -> int:
        return self.start.tokenizer.specials.pad

    @property
    def steps_per_epoch(self) -> int:
        return math.ceil(self.train.num_groups / self.settings.batch_size)

    def with_settings(self, **changes: Any) -> Self:
        """The same data, trained on otherwise."""
        settings = replace(self.settings, **changes)
        return replace(self, settings=settings, total_steps=steps_of(settings, self.train))


@dataclass(frozen=True)
class Scored:
    """A model's predictions of a split; loss and scores where the answers are known."""

    predictions: list[Any]
    loss: float | None
    scores: dict[str, Score]

    def told(self) -> str:
        return describe(self.scores)

    def record(self) -> dict[str, Any]:
        values = {name: score.value for name, score in self.scores.items()}
        reasons = {name: score.reason for name, score in self.scores.items() if score.value is None}
        return {"loss": self.loss, **values, "reasons": reasons}


def evaluate(tuning: Tuning, model: TunedModel, split: ReadSplit) -> Scored:
    outputs, loss = run_model(model, split.windows, tuning.task, pad=tuning.pad, device=tuning.device)
    predictions = tuning.task.predict(outputs, split.windows, split.examples)
    labelled = split.windows.targets is not None
    return Scored(predictions, loss, tuning.task.score(predictions, split.examples) if labelled else {})


def run_model(
    model: TunedModel, windows: Windows, task: Task, *, pad: int, device: torch.device
) -> tuple[list[npt.NDArray[np.float32]], float | None]:
    """The head's output for each window, in their order, and the mean loss where there are targets.

    Always in fp32, so that the scores are those of the saved model, wherever it is loaded.
    """
    model.eval()
    losses: list[tuple[Tensor, float]] = []

    def network(rows: PaddedBatch) -> Sequence[npt.NDArray[np.float32]]:
        batch = batch_of(windows, rows)
        logits = model(batch)
        if batch.targets is not None and not task.loss_of_batch:
            losses.append(task.loss(logits, batch.targets))
        return rows.unpadded(logits) if model.per_token else list(logits.cpu().numpy())

    outputs = list(map_rows(windows.input_ids, network, device, pad=pad))
    if not all(np.isfinite(row).all() for row in outputs):
        fix = "Its weights are damaged, or `learning_rate` is too high"
        raise RunFailed("the model's outputs are not finite", fix=fix)
    count = sum(count for _, count in losses)
    return outputs, sum(float(total) for total, _ in losses) / count if count else None


def describe(scores: dict[str, Score]) -> str:
    """Scores in one line."""
    return "  ".join(
        f"{name} {score.value:.4f}" if score.value is not None else f"{name} undefined ({score.reason})"
        for name, score in scores.items()
    )
