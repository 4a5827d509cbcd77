"""One seed: the loop, its checkpoints, its evaluation.

Order, dropout and the head's first weights are drawn from keys of (seed, step), so a run that was killed and
continued ends in the same bits as one that was not. AdamW with bias correction (without it few-sample
fine-tuning is unstable: Mosbach et al. 2021).
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn

from electra import durable
from electra.artifacts import checkpoints
from electra.errors import RunFailed
from electra.finetuning.features import Windows, collate, epoch_order, evaluation_order
from electra.finetuning.heads import FineTuned, build_head
from electra.finetuning.metrics import Score
from electra.finetuning.settings import Settings
from electra.finetuning.tasks import Task
from electra.labelled.examples import Example
from electra.model.pair import build_encoder, initialise
from electra.model.passes import positions_at_once
from electra.model.precision import autocast
from electra.model.sizes import EncoderConfig
from electra.seeds import key
from electra.training.optimizer import AdamW
from electra.training.schedule import multiplier

LOGS = 20  # log lines a seed
Weights = dict[str, Tensor]


@dataclass(frozen=True)
class Job:
    """All that the seeds of a fine-tuning share."""

    settings: Settings  # resolved: nothing left open
    task: Task
    config: EncoderConfig
    encoder_weights: dict[str, Tensor]
    pad: int
    train: Windows
    dev: Windows
    dev_examples: tuple[Example, ...]
    others: dict[str, tuple[Windows, tuple[Example, ...]]]  # test, and further files
    device: torch.device
    precision: str
    say: Callable[[str], None]
    stop: Callable[[], bool] = lambda: False  # asked after each step


class Stopped(Exception):
    """A stop was asked for; the state is in a checkpoint."""


@dataclass
class Progress:
    """What a checkpoint remembers beside weights and moments."""

    step: int = 0
    seconds: float = 0.0
    losses: list[tuple[int, float]] = field(
        default_factory=list
    )  # (step, mean training loss since the last entry)
    since: list[float] = field(
        default_factory=list
    )  # the losses after the last entry: a stop does not change what is averaged
    epochs: list[dict[str, Any]] = field(default_factory=list)  # dev scores after each epoch, where asked for
    best_score: float | None = None  # of the best epoch so far, where the best is kept


@dataclass(frozen=True)
class Evaluation:
    predictions: list[Any]
    loss: float | None
    scores: dict[str, Score]


def build_model(job: Job, seed: int) -> FineTuned:
    """The pre-trained encoder (or, as a baseline, a fresh one) under a fresh head."""
    config = replace(job.config, dropout=job.settings.dropout, attention_dropout=job.settings.dropout)
    encoder = build_encoder(config)
    if job.settings.init == "random":
        initialise(nn.ModuleDict({"encoder": encoder}), key(seed, "init/encoder"), "fan_in")
    else:
        encoder.load_state_dict(job.encoder_weights)
    settings = job.settings
    assert settings.pooling is not None
    head = build_head(
        job.task.head, settings.head, config, job.task.num_outputs, key(seed, "init/head"), settings.pooling
    )
    return FineTuned(encoder, head).to(job.device)


def parameter_groups(
    model: FineTuned,
    learning_rate: float,
    layer_decay: float,
    weight_decay: float,
    reference_decay: bool = False,
) -> list[dict[str, Any]]:
    """One group for each (depth, decayed or not): the head learns at `learning_rate`, each layer below by
    `layer_decay` slower.
    """
    top = model.encoder.config.num_layers + (2 if reference_decay else 1)
    groups: dict[tuple[int, bool], dict[str, Any]] = {}
    for name, parameter in model.named_parameters():
        part, _, rest = name.partition(".")
        depth = top if part == "head" else model.encoder.depth_of(rest)
        decayed = parameter.dim() >= 2
        peak = learning_rate * layer_decay ** (top - depth)
        group = {"params": [], "peak": peak, "weight_decay": weight_decay if decayed else 0.0}
        groups.setdefault((depth, decayed), group)["params"].append(parameter)
    return list(groups.values())


def steps_of(job: Job) -> tuple[int, int]:
    """(steps in an epoch, steps in all)."""
    per_epoch = math.ceil(len(job.train) / job.settings.batch_size)
    assert job.settings.epochs is not None
    return per_epoch, max(1, round(job.settings.epochs * per_epoch))


def logged_every(total: int) -> int:
    """Steps that a log line averages over: the same whatever is saved or stopped in between."""
    return max(10, total // LOGS)


def train_seed(job: Job, seed: int, checkpoints: Path) -> tuple[FineTuned, Progress]:
    """Train to the end, from the newest checkpoint of this seed if there is one."""
    settings = job.settings
    assert settings.learning_rate is not None and settings.layer_decay is not None
    model = build_model(job, seed)
    groups = parameter_groups(
        model, settings.learning_rate, settings.layer_decay, settings.weight_decay, settings.reference_decay
    )
    optimizer = AdamW(groups, lr=0.0, betas=(0.9, 0.999), eps=1e-6, fused=True)
    best: Weights = {}
    progress = restore(checkpoints, model, optimizer, best, job.say)
    per_epoch, total = steps_of(job)
    lengths = job.train.lengths()
    order: list[npt.NDArray[np.int64]] = []
    losses = list(torch.tensor(progress.since).to(job.device))
    started = time.monotonic() - progress.seconds
    model.train()
    for step in range(progress.step, total):
        epoch, position = divmod(step, per_epoch)
        if position == 0 or not order:
            order = epoch_order(lengths, settings.batch_size, seed, epoch)
        batch = collate(job.train, order[position], job.pad, job.device)
        assert batch.targets is not None
        torch.manual_seed(key(seed, "dropout", step))
        with autocast(job.device, job.precision):
            logits = model(batch)
        loss_sum, count = job.task.loss(logits, batch.targets)
        loss = loss_sum / count
        for parameter in model.parameters():
            parameter.grad = None
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * multiplier(step, total, settings.warmup, "linear")
        optimizer.step()
        losses.append(loss.detach())
        progress.step, progress.seconds = step + 1, time.monotonic() - started
        stopping = job.stop()
        saving = stopping or progress.step % settings.checkpoint_every == 0
        if progress.step % logged_every(total) == 0 or progress.step == total:
            _log(job, seed, progress, losses)
            losses.clear()
        ended = progress.step == total
        if settings.keep_epoch == "best" and (ended or progress.step % per_epoch == 0):
            score = _evaluate_epoch(job, seed, model, progress, epoch)
            # while no epoch has a score, the latest stands
            if progress.best_score is None or (score is not None and score > progress.best_score):
                progress.best_score = score
                best |= {name: value.clone() for name, value in model.state_dict().items()}
        elif settings.evaluate_every_epoch and progress.step % per_epoch == 0 and not ended:
            _evaluate_epoch(job, seed, model, progress, epoch)
        if saving and not ended:
            progress.since = _numbers(losses, seed, progress.step)
            save_checkpoint(checkpoints, model, optimizer, progress, best)
        if stopping and not ended:
            raise Stopped
    if best:
        model.load_state_dict(best)
    return model, progress


def _log(job: Job, seed: int, progress: Progress, losses: list[Tensor]) -> None:
    """Record the mean loss since the last entry."""
    values = _numbers(losses, seed, progress.step)
    mean = sum(values) / len(values)
    progress.losses.append((progress.step, mean))
    per_epoch, total = steps_of(job)
    rate = progress.step * job.settings.batch_size / max(progress.seconds, 1e-9)
    job.say(
        f"seed {seed}  epoch {progress.step / per_epoch:.2f}  step {progress.step}/{total}  loss {mean:.4f} "
        f" {rate:.0f} examples/s"
    )


def _numbers(losses: list[Tensor], seed: int, step: int) -> list[float]:
    """The losses; a run where one is not a number stops before it is saved."""
    values: list[float] = torch.stack(losses).tolist() if losses else []
    if not all(map(math.isfinite, values)):
        fix = "Lower --learning-rate, or use --precision fp32"
        raise RunFailed("the training loss is not a number", where=f"seed {seed}, step {step}", fix=fix)
    return values


def _evaluate_epoch(job: Job, seed: int, model: FineTuned, progress: Progress, epoch: int) -> float | None:
    """The primary metric on dev."""
    evaluation = evaluate(job, model, job.dev, job.dev_examples)
    progress.epochs.append(
        {"epoch": epoch + 1, **{name: score.value for name, score in evaluation.scores.items()}}
    )
    job.say(f"seed {seed}  after epoch {epoch + 1}: {describe(evaluation.scores)}")
    model.train()
    return evaluation.scores[job.task.metrics[0]].value


def evaluate(job: Job, model: FineTuned, windows: Windows, examples: tuple[Example, ...]) -> Evaluation:
    """Predictions for every example; loss and scores where the answers are known."""
    outputs, loss = run_model(model, windows, job.task, pad=job.pad, device=job.device)
    predictions = job.task.predict(outputs, windows, examples)
    scores = job.task.score(predictions, examples) if windows.targets is not None else {}
    return Evaluation(predictions, loss, scores)


@torch.inference_mode()
def run_model(
    model: FineTuned, windows: Windows, task: Task, *, pad: int, device: torch.device
) -> tuple[list[npt.NDArray[np.float32]], float | None]:
    """The head's output for each window, in the windows' order, and the mean loss where there are targets.

    Always in fp32, so that the numbers told are those of the saved model, wherever it is loaded.
    """
    model.eval()
    outputs: list[npt.NDArray[np.float32]] = [np.empty(0, np.float32)] * len(windows)
    loss_sum, count = 0.0, 0.0
    for index in evaluation_order(windows.lengths(), positions_at_once(device)):
        batch = collate(windows, index, pad, device)
        logits = model(batch)
        if batch.targets is not None:
            batch_sum, batch_count = task.loss(logits, batch.targets)
            loss_sum, count = loss_sum + float(batch_sum), count + batch_count
        for i, row in zip(index, logits.cpu().numpy(), strict=True):
            outputs[i] = row[: len(windows.input_ids[i])] if model.head.per_token else row
    if not all(np.isfinite(row).all() for row in outputs):
        raise RunFailed(
            "the model's outputs are not numbers",
            fix="Its weights are damaged, or --learning-rate is too high",
        )
    return outputs, loss_sum / count if count else None


def describe(scores: dict[str, Score]) -> str:
    told = {
        name: f"{score.value:.4f}" if score.value is not None else f"not defined ({score.reason})"
        for name, score in scores.items()
    }
    return "  ".join(f"{name} {number}" for name, number in told.items())


def save_checkpoint(
    folder: Path, model: FineTuned, optimizer: torch.optim.Optimizer, progress: Progress, best: Weights
) -> None:
    """Commit the state; the checkpoint before it goes when this one is whole."""
    moments = {
        f"{name}:{moment}": value.detach().cpu().contiguous()
        for name, parameter in model.named_parameters()
        for moment, value in optimizer.state[parameter].items()
    }
    made = checkpoints.at_step(folder, progress.step)
    files: dict[str, durable.Content] = {
        made.weights.name: save(_on_host(model.state_dict())),
        made.optimizer.name: save(moments),
        made.state.name: json.dumps(asdict(progress)).encode(),
        **({made.best.name: save(_on_host(best))} if best else {}),
    }
    durable.commit_directory(made.path, files)
    for old in checkpoints.listing(folder)[1:]:
        durable.remove_directory(old.path)


def _on_host(weights: Weights) -> Weights:
    return {name: value.detach().cpu().contiguous() for name, value in weights.items()}


def restore(
    folder: Path,
    model: FineTuned,
    optimizer: torch.optim.Optimizer,
    best: Weights,
    say: Callable[[str], None],
) -> Progress:
    """Fill model, optimizer and the weights of the best epoch from the newest checkpoint that verifies."""
    durable.sweep(folder)
    found, damaged = checkpoints.newest(folder)
    for line in damaged:
        say(line)
    if found is None:
        return Progress()
    model.load_state_dict(load_file(found.weights))
    moments = load_file(found.optimizer)
    for name, parameter in model.named_parameters():
        state = {moment: moments[f"{name}:{moment}"] for moment in ("step", "exp_avg", "exp_avg_sq")}
        optimizer.state[parameter] = {moment: value.to(parameter.device) for moment, value in state.items()}
    if found.best.exists():
        best |= load_file(found.best)
    values = found.record
    say(f"continuing from step {found.step}")
    return Progress(**{**values, "losses": [tuple(entry) for entry in values["losses"]]})
