"""Checkpoints: directories of safetensors and JSON, committed whole, verified by SHA-256."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save
from torch import Tensor

from electra.artifacts.checkpoints import Checkpoint, at_step, list_checkpoints
from electra.foundation import durable
from electra.foundation.errors import CheckpointError
from electra.model.pair import Pair
from electra.training.optimizer import Optimizer


def write(
    folder: Path,
    pair: Pair,
    optimizer: Optimizer,
    state: dict[str, Any],
    *,
    keep: int,
    also: int | None = None,
    ops: durable.Ops = durable.OPS,
) -> Path:
    """Commit a checkpoint, verify it, and then remove the oldest beyond `keep`, never that of step `also`."""
    made = at_step(folder, int(state["step"]))
    files: dict[str, durable.Content] = {
        made.weights.name: save(on_host(dict(pair.named_parameters()))),
        made.optimizer.name: save(on_host(optimizer.tensors())),
        made.state.name: json.dumps(state, indent=2).encode(),
    }
    durable.commit_directory(made.path, files, ops)
    problem = durable.verify_directory(made.path)
    if problem is not None:
        raise CheckpointError(
            f"was written but does not read back ({problem})", where=made, fix="Check the disk"
        )
    verified = [old for old in list_checkpoints(folder) if old.step <= made.step and old.step != also]
    for old in verified[max(1, keep) :]:
        durable.remove_directory(old.path, ops)
    return made.path


def on_host(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def read_weights(path: Path, pair: Pair) -> None:
    """Fill the pair from a checkpoint; raises CheckpointError when names or shapes are not its own."""
    saved = load_file(Checkpoint(path).weights)
    own = dict(pair.named_parameters())
    if set(saved) != set(own):
        stray = sorted(set(saved) ^ set(own))[0]
        raise CheckpointError(f"holds another model's weights ({stray} is not in both)", where=path)
    for name, parameter in own.items():
        if saved[name].shape != parameter.shape:
            raise CheckpointError(
                f"{name} has shape {tuple(saved[name].shape)}, not {tuple(parameter.shape)}", where=path
            )
        parameter.data.copy_(saved[name])


def restore(path: Path, pair: Pair, optimizer: Optimizer) -> dict[str, Any]:
    """Weights, moments and state."""
    found = Checkpoint(path)
    state = found.record
    read_weights(path, pair)
    try:
        optimizer.load_tensors(load_file(found.optimizer), int(state["step"]))
    except KeyError as missing:
        raise CheckpointError(f"has no {missing}", where=found.optimizer) from None
    return state
