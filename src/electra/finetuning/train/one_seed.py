"""Trains one seed: the training loop and its checkpoints.

The order of examples, dropout and the head's initial weights are drawn from keys of (seed, step), so a run
that was killed and resumed is bit-identical to one that was not. The optimizer is AdamW with bias correction,
without which fine-tuning on few examples is unstable (Mosbach et al. 2021).
"""

import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn

from electra.artifacts import checkpoints
from electra.finetuning.finetuned_model import FinetunedModel, build_head
from electra.finetuning.heads import load_head
from electra.finetuning.heads.parts.contract import HeadShape
from electra.finetuning.score.evaluate import describe_scores, evaluate
from electra.finetuning.train.prepared import Finetuning
from electra.finetuning.windows.features import Ids, collate, epoch_order
from electra.foundation import durable
from electra.foundation.errors import Interrupted, RunFailed
from electra.foundation.extensions import HEADS, explained
from electra.foundation.progress import Say, doing
from electra.foundation.seeds import key
from electra.model.pair import build_encoder, initialise
from electra.model.precision import autocast
from electra.model.token_table import UsedRows
from electra.training.checkpoint import on_host
from electra.training.optimizer import GroupedOptimizer
from electra.training.recipe import OptimizerSection
from electra.training.schedule import multiplier

LOG_LINES = 20  # per seed
Weights = dict[str, Tensor]


@dataclass
class SeedState:
    """The progress of a seed, as stored in checkpoints."""

    step: int = 0
    seconds: float = 0.0
    losses: list[tuple[int, float]] = field(default_factory=list)  # (step, mean loss since the last entry)
    since: list[float] = field(default_factory=list)  # the losses after the last entry
    epochs: list[dict[str, Any]] = field(default_factory=list)  # dev scores of each, if the best is kept
    best_score: float | None = None  # dev score of the best epoch so far, if its weights are to be kept


def build_model(prepared: Finetuning, seed: int) -> FinetunedModel:
    """Returns a new head on the pre-trained encoder; if `init` is "random", on one with random weights."""
    settings, start, task = prepared.settings, prepared.start, prepared.task
    config = replace(start.config, dropout=settings.dropout, attention_dropout=settings.dropout)
    encoder = build_encoder(config)
    if settings.init == "random":
        initialise(nn.ModuleDict({"encoder": encoder}), key(seed, "init/encoder"), "fan_in")
    else:
        encoder.load_state_dict(start.encoder.state_dict())
    shape = HeadShape(task.head, config, task.num_outputs, settings.pooling, settings.separate_texts)
    head = build_head(settings.head, shape, key(seed, "init/head"))
    return FinetunedModel(encoder, head).to(prepared.device)


@torch.no_grad()
def check_head(prepared: Finetuning) -> None:
    """Raises ConfigError if a head of the user's own gives no logits, or not those that the task needs."""
    model = build_model(prepared, prepared.settings.seed).eval()
    batch = collate(prepared.train, np.arange(1), prepared.pad, prepared.device, "fp32")
    expected = (*batch.input_ids.shape[: 1 + model.per_token], prepared.task.num_outputs)
    with explained(HEADS, prepared.settings.head, "forward"):
        found = tuple(model(batch).shape)
        if found != expected:
            raise ValueError(f"logits of shape {list(found)}, not {list(expected)}")


def parameter_groups(
    model: FinetunedModel, learning_rate: float, layer_decay: float, weight_decay: float
) -> list[dict[str, Any]]:
    """Returns the optimizer's groups: for each depth, one with and one without weight decay (vectors).

    `learning_rate` is the head's peak.
    """
    head_depth = model.encoder.config.num_layers + 1
    groups: dict[tuple[int, bool], dict[str, Any]] = {}
    for name, parameter in model.named_parameters():
        module, _, encoder_name = name.partition(".")
        depth = head_depth if module == "head" else model.encoder.depth_of(encoder_name)
        is_decayed = parameter.dim() >= 2
        peak = learning_rate * layer_decay ** (head_depth - depth)
        group = {"params": [], "peak": peak, "weight_decay": weight_decay if is_decayed else 0.0}
        groups.setdefault((depth, is_decayed), group)["params"].append(parameter)
    return list(groups.values())


def log_interval(total: int) -> int:
    """Returns the number of steps between log lines, for `total` steps."""
    return max(10, total // LOG_LINES)


def train_seed(prepared: Finetuning, seed: int, folder: Path | None) -> tuple[FinetunedModel, SeedState]:
    """Trains one seed from its newest checkpoint in `folder`, or the start; returns it and its state.

    Without a folder there are no checkpoints. With `keep_epoch` "best", the model has the weights of the best
    epoch.
    """
    settings, total_steps, steps_per_epoch = prepared.settings, prepared.total_steps, prepared.steps_per_epoch
    model = build_model(prepared, seed)
    load_head(settings.head).start(model.head, model.encoder, prepared.training_data)
    if total_steps and type(words := model.encoder.words) is nn.Embedding:  # no variant of it
        ids = np.unique(np.concatenate([*prepared.train.input_ids, [prepared.pad]]))
        model.encoder.set_words(UsedRows(words, torch.from_numpy(ids)))
    rates = settings.learning_rate, settings.layer_decay, settings.weight_decay
    groups = parameter_groups(model, *rates)
    optimizer = GroupedOptimizer(dict(model.named_parameters()), groups, OptimizerSection(clip=settings.clip))
    best_weights: Weights = {}
    state = restore(folder, model, optimizer, best_weights, prepared.say) if folder else SeedState()
    losses, batches = list(torch.tensor(state.since).to(prepared.device)), list[Ids]()
    start_time = time.monotonic() - state.seconds
    model.train()
    for step in range(state.step, total_steps):
        epoch, position = divmod(step, steps_per_epoch)
        if position == 0 or not batches:
            batches = epoch_order(prepared.train.lengths(), settings.batch_size, seed, epoch)
        losses.append(update(prepared, model, optimizer, batches[position], seed, step))
        state.step, state.seconds = step + 1, time.monotonic() - start_time
        is_last_step, stop_requested = state.step == total_steps, prepared.stopping()
        if state.step % log_interval(total_steps) == 0 or is_last_step:
            _log(prepared, seed, state, losses)
            losses.clear()
        if settings.keep_epoch == "best" and (is_last_step or state.step % steps_per_epoch == 0):
            doing(f"seed {seed}: scoring dev after epoch {epoch + 1}")
            scores = evaluate(prepared, model, prepared.splits["dev"]).scores
            model.train()
            values = {name: score.value for name, score in scores.items()}
            state.epochs.append({"epoch": epoch + 1, **values})
            prepared.say(f"seed {seed}  after epoch {epoch + 1}: {describe_scores(scores)}")
            score = values[prepared.task.metrics[0]]
            # Until an epoch has a score, the weights of the latest epoch are kept.
            if state.best_score is None or (score is not None and score > state.best_score):
                state.best_score = score
                best_weights |= {name: value.clone() for name, value in model.state_dict().items()}
        if not is_last_step and (stop_requested or state.step % settings.checkpoint_every == 0):
            state.since = _finite(losses, seed, state.step)
            if folder is not None:
                save_checkpoint(folder, model, optimizer, state, best_weights)
            if stop_requested:
                raise Interrupted(folder or settings.out)
    model.zero_grad()  # frees what scoring and saving need
    if still_falls([loss for _, loss in state.losses]):
        note = "the loss was still falling when training ended; train longer with"
        prepared.say(f"seed {seed}  {note} --epochs {2 * settings.epochs:g}")
    if best_weights:
        model.load_state_dict(best_weights)
    if isinstance(words := model.encoder.words, UsedRows):
        model.encoder.set_words(words.whole())
    return model, state


def update(  # noqa: PLR0917
    prepared: Finetuning,
    model: FinetunedModel,
    optimizer: GroupedOptimizer,
    windows: Ids,
    seed: int,
    step: int,
) -> Tensor:
    """Runs one optimizer step on a batch of windows, given by their indices, and returns the mean loss."""
    batch = collate(prepared.train, windows, prepared.pad, prepared.device, prepared.precision)
    assert batch.targets is not None, "training data has answers"
    torch.manual_seed(key(seed, "dropout", step))
    with autocast(prepared.device, prepared.precision):
        logits = model(batch)
    loss_sum, count = prepared.task.loss(logits, batch.targets)
    loss = loss_sum / count
    optimizer.zero_grad()
    torch.autograd.backward(loss)
    optimizer.clip()
    optimizer.step(multiplier(step, prepared.total_steps, prepared.settings.warmup, "linear"))
    return loss.detach()


def _log(prepared: Finetuning, seed: int, state: SeedState, losses: list[Tensor]) -> None:
    """Records and reports the mean loss since the last entry."""
    values = _finite(losses, seed, state.step)
    mean = sum(values) / len(values)
    state.losses.append((state.step, mean))
    epoch = state.step / prepared.steps_per_epoch
    examples_per_second = state.step * prepared.settings.batch_size / max(state.seconds, 1e-9)
    progress = f"seed {seed}  epoch {epoch:.2f}  step {state.step}/{prepared.total_steps}"
    line = f"{progress}  loss {mean:.4f}  {examples_per_second:.0f} examples/s"
    if len(state.losses) == 1 and seed == prepared.settings.seed:
        prepared.say(line)
    doing(line, state.step / prepared.total_steps)


def still_falls(losses: Sequence[float]) -> bool:
    """Whether the last quarter is 5 % below the one before it, and above half of the first loss."""
    size = len(losses) // 4
    if size < 2:  # too few to tell
        return False
    before, last = fmean(losses[-2 * size : -size]), fmean(losses[-size:])
    return last < 0.95 * before and last > losses[0] / 2


def _finite(losses: list[Tensor], seed: int, step: int) -> list[float]:
    """Returns the losses as numbers. Raises RunFailed if any is not finite."""
    values: list[float] = torch.stack(losses).tolist() if losses else []
    if not all(map(math.isfinite, values)):
        fix = "Lower `learning_rate`, or use `precision=fp32`"
        raise RunFailed("the training loss is not finite", where=f"seed {seed}, step {step}", fix=fix)
    return values


def save_checkpoint(
    folder: Path, model: FinetunedModel, optimizer: GroupedOptimizer, state: SeedState, best: Weights
) -> None:
    """Writes a checkpoint, and removes older ones; `best` has the best epoch's weights ({}: not kept)."""
    checkpoint = checkpoints.at_step(folder, state.step)
    files: dict[str, durable.Content] = {
        checkpoint.weights.name: save(on_host(model.state_dict())),
        checkpoint.optimizer.name: save(on_host(optimizer.tensors())),
        checkpoint.state.name: json.dumps(asdict(state)).encode(),
        **({checkpoint.best.name: save(on_host(best))} if best else {}),
    }
    durable.commit_directory(checkpoint.path, files)
    for older in checkpoints.list_checkpoints(folder)[1:]:
        durable.remove_directory(older.path)


def restore(folder: Path, model: FinetunedModel, optimizer: GroupedOptimizer, best: Weights, say: Say) -> SeedState:
    """Loads the newest intact checkpoint, if there is one, and returns its state, or that of step 0."""
    durable.remove_leftovers(folder)
    checkpoint, damage_lines = checkpoints.newest_checkpoint(folder)
    for line in damage_lines:
        say(line)
    if checkpoint is None:
        return SeedState()
    model.load_state_dict(_of_used_rows(model, load_file(checkpoint.weights)))
    optimizer.load_tensors(_of_used_rows(model, load_file(checkpoint.optimizer)), checkpoint.step)
    if checkpoint.best.exists():
        best |= _of_used_rows(model, load_file(checkpoint.best))
    record = checkpoint.record
    say(f"resuming from step {checkpoint.step}")
    return SeedState(**{**record, "losses": [tuple(entry) for entry in record["losses"]]})


def _of_used_rows(model: FinetunedModel, tensors: Weights) -> Weights:
    """Returns a checkpoint's tensors; of older versions, which trained whole tables, the used rows."""
    words = model.encoder.words
    if not isinstance(words, UsedRows):
        return tensors
    [now] = [name for name, parameter in model.named_parameters() if parameter is words.rows]
    before = now.removesuffix("rows") + "weight"
    renamed = {name: name.replace(before, now) for name in tensors if name.partition(":")[0] == before}
    return {
        renamed.get(name, name): tensor[words.used] if name in renamed and tensor.dim() else tensor
        for name, tensor in tensors.items()
    }
