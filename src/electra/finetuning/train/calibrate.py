"""The temperature of a classifier or tagger, fitted on dev (Guo et al. 2017, section 4.2).

The weights of the last layer are divided by it, so that the saved model gives calibrated probabilities
everywhere: in `electra predict`, transformers and ONNX.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from electra.finetuning.finetuned_model import FinetunedModel
from electra.finetuning.heads.parts.contract import HeadModule
from electra.finetuning.train.prepared import Finetuning
from electra.finetuning.windows.features import NO_TARGET

MIN_ANSWERS = 100  # labelled texts or words in dev; fewer do not determine a temperature
RANGE = 0.5, 8.0  # the range of temperatures; without it, a model without errors on dev would get 0
TOLERANCE = 1e-3  # in the logarithm of the temperature


@torch.no_grad()
def calibrate(
    prepared: Finetuning, model: FinetunedModel, outputs: list[npt.NDArray[np.float32]], loss: float | None
) -> tuple[float | None, float | None]:
    """Divides the model's logits by the temperature with the lowest loss on dev; returns it and that loss.

    `outputs` and `loss` are the model's on dev. Returns None and `loss`, with the model unchanged, if the
    task's outputs are not logits of labels, the head cannot be rescaled, or dev has too few answers.
    """
    task, dev = prepared.task, prepared.splits["dev"].windows
    cannot_rescale = type(model.head).rescale is HeadModule.rescale
    if cannot_rescale or not task.outputs_are_logits or dev.targets is None:
        return None, loss
    join = np.concatenate if dev.token_targets else np.stack
    logits, targets = join(outputs), join(dev.targets)
    if targets.ndim == 1:
        logits, targets = logits[targets != NO_TARGET], targets[targets != NO_TARGET]
    if len(targets) < MIN_ANSWERS:
        return None, loss
    temperature = fit_temperature(replace(task, weights=()), logits, targets)  # class weights are a bias
    model.head.rescale(1 / temperature, 0.0)
    total, count = loss_at(temperature, task, logits, targets)
    return temperature, total / count


def loss_at(
    temperature: float, task: Any, logits: np.ndarray[Any, Any], targets: np.ndarray[Any, Any]
) -> tuple[float, float]:
    """Returns the sum of the task's losses of logits divided by a temperature, and what divides it."""
    outputs, answers = torch.from_numpy(logits).double() / temperature, torch.from_numpy(targets)
    if task.head == "tagger":
        outputs, answers = outputs[None], answers[None]
    total, count = task.loss(outputs, answers)
    return float(total), count


def fit_temperature(task: Any, logits: np.ndarray[Any, Any], targets: np.ndarray[Any, Any]) -> float:
    """Returns the temperature within RANGE that minimises the task's loss, which has one minimum.

    `logits` are [N, labels], `targets` classes [N], or 0 and 1 for each label [N, labels].
    """
    from scipy.optimize import minimize_scalar

    def loss(log_temperature: float) -> float:
        return loss_at(math.exp(log_temperature), task, logits, targets)[0]

    bounds = [math.log(limit) for limit in RANGE]
    return math.exp(minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": TOLERANCE}).x)
