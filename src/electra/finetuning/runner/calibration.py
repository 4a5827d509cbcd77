"""Chooses the temperature of a classifier or tagger, and the threshold of a multi-label classifier.

The weights of the last layer are divided by the temperature (Guo et al. 2017, section 4.2), so that the saved
model gives calibrated probabilities everywhere: in `electra predict`, transformers and ONNX. The threshold is
added to the bias in the same way, so that one half remains the limit above which a label is predicted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from electra.finetuning.heads.parts.contract import HeadModule
from electra.finetuning.runner.finetuned_model import FinetunedModel
from electra.finetuning.runner.prepared import Finetuning, run_model
from electra.finetuning.windows.features import NO_TARGET

MIN_ANSWERS = 100  # labelled texts or words in dev; fewer do not determine a temperature
RANGE = 0.5, 8.0  # the range of temperatures; without it, a model without errors on dev would get 0
TOLERANCE = 1e-3  # in the logarithm of the temperature
LOWEST_THRESHOLD = 0.2  # a label less probable than this is never predicted


@dataclass(frozen=True)
class Calibration:
    """A temperature, the mean loss on dev before and after division by it, and a threshold.

    The threshold is None unless one was chosen, for a multi-label classifier.
    """

    temperature: float
    loss: float
    calibrated_loss: float
    threshold: float | None

    def describe(self) -> str:
        """Returns a line for the user."""
        line = f"temperature {self.temperature:.3f}, chosen on dev: the loss on dev falls from "
        line += f"{self.loss:.4f} to {self.calibrated_loss:.4f}"
        if self.threshold:
            line += f"; labels with a probability above {self.threshold:.3f} are predicted"
        return line


@torch.no_grad()
def calibrate(prepared: Finetuning, model: FinetunedModel) -> Calibration | None:
    """Divides the model's outputs by the temperature with the lowest loss on dev.

    The logits of a multi-label classifier are also shifted, so that one half is the threshold with the best
    F1. No threshold is chosen with class weights, which bias the probabilities, or with a teacher, whose
    logits may be shifted themselves.

    Returns:
        The calibration; None, with the model unchanged, if the task's outputs are not logits of labels, the
        head cannot be rescaled, or dev has fewer than MIN_ANSWERS answers.
    """
    task, dev = prepared.task, prepared.splits["dev"].windows
    cannot_rescale = type(model.head).rescale is HeadModule.rescale
    if cannot_rescale or not task.outputs_are_logits or dev.targets is None:
        return None
    outputs, loss = run_model(model, dev, task, pad=prepared.pad, device=prepared.device)
    join = np.concatenate if dev.token_targets else np.stack
    logits, targets = join(outputs), join(dev.targets)
    if targets.ndim == 1:
        logits, targets = logits[targets != NO_TARGET], targets[targets != NO_TARGET]
    if len(targets) < MIN_ANSWERS or loss is None:
        return None
    temperature = fit_temperature(replace(task, weights=()), logits, targets)
    scaled_logits = torch.from_numpy(logits / np.float32(temperature))
    answers, threshold, shift = torch.from_numpy(targets), None, 0.0
    is_biased = bool(task.weights) or prepared.settings.teacher is not None
    if task.metrics[0] == "f1_micro" and not is_biased:
        threshold = f1_threshold(scaled_logits.double().sigmoid().numpy())
        shift = math.log(1 / threshold - 1)
    model.head.rescale(1 / temperature, shift)
    loss_sum, count = _loss(task, scaled_logits, answers)
    return Calibration(temperature, loss, loss_sum / count, threshold)


def f1_threshold(probabilities: np.ndarray[Any, Any]) -> float:
    """Returns the threshold with the best expected micro-F1 if the probabilities [N, labels] are calibrated.

    It is half of the best F1 (Lipton et al. 2014), hence at most one half, and never below LOWEST_THRESHOLD.
    The threshold with the best F1 on the labels of dev would fit their noise: with 100 texts, its F1 is 2 to
    3 points too high on dev, and on other texts it is lower than with the threshold returned here.
    """
    sorted_probabilities = np.sort(probabilities, axis=None)[::-1]
    expected_f1 = (
        2
        * np.cumsum(sorted_probabilities)
        / (np.arange(1, sorted_probabilities.size + 1) + sorted_probabilities.sum())
    )
    return max(LOWEST_THRESHOLD, float(expected_f1.max()) / 2)


def _loss(task: Any, outputs: torch.Tensor, answers: torch.Tensor) -> tuple[float, float]:
    """Returns the sum of the losses and their number."""
    if task.head == "tagger":
        outputs, answers = outputs[None], answers[None]
    loss_sum, count = task.loss(outputs, answers)
    return float(loss_sum), count


def fit_temperature(task: Any, logits: np.ndarray[Any, Any], targets: np.ndarray[Any, Any]) -> float:
    """Returns the temperature within RANGE that minimises the task's loss.

    Cross-entropy is convex in the inverse temperature, so there is one minimum.

    Args:
        task: the task, without class weights, which would bias the probabilities.
        logits: the logits [N, labels].
        targets: classes [N], or 0 and 1 for each label [N, labels].
    """
    from scipy.optimize import minimize_scalar

    outputs, answers = torch.from_numpy(logits).double(), torch.from_numpy(targets)

    def loss(log_temperature: float) -> float:
        return _loss(task, outputs / math.exp(log_temperature), answers)[0]

    bounds = [math.log(limit) for limit in RANGE]
    return math.exp(minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": TOLERANCE}).x)
