"""Checkpoints: a directory `step-00001000/` of safetensors and JSON, committed whole, verified by SHA-256,
found without a pointer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save
from torch import Tensor

from electra import durable
from electra.errors import CheckpointError
from electra.model.pair import Pair
from electra.training.optimizer import Optimizer

_NAME = re.compile(r"step-(\d{8,})")


@dataclass(frozen=True)
class Checkpoint:
    path: Path
    step: int


def listing(folder: Path) -> list[Checkpoint]:
    """Directories named like checkpoints, newest first."""
    matches = ((path, _NAME.fullmatch(path.name)) for path in folder.glob("step-*") if path.is_dir())
    found = [Checkpoint(path, int(match[1])) for path, match in matches if match]
    return sorted(found, key=lambda checkpoint: checkpoint.step, reverse=True)


def newest(folder: Path, warn: Callable[[str], None]) -> Checkpoint | None:
    """The newest checkpoint that verifies. Damaged ones are named and passed over, never deleted.

    A folder whose every checkpoint is damaged is refused: to start over in silence would throw the user's
    training away.
    """
    damaged: list[tuple[str, str]] = []
    for checkpoint in listing(folder):
        problem = durable.verify_directory(checkpoint.path)
        if problem is None:
            for name, what in damaged:
                warn(f"{folder / name} is damaged ({what}): using the one before it")
            return checkpoint
        damaged.append((checkpoint.path.name, problem))
    if damaged:
        listed = "; ".join(f"{name}: {what}" for name, what in damaged)
        raise CheckpointError(
            f"no checkpoint is whole ({listed})",
            where=folder,
            fix="Bring one back, or choose another --out to start over",
        )
    return None


def write(
    folder: Path,
    pair: Pair,
    optimizer: Optimizer,
    state: dict[str, Any],
    *,
    keep: int,
    ops: durable.Ops = durable.OPS,
) -> Path:
    """Commit a checkpoint, verify it, and only then remove the oldest ones beyond `keep`."""
    step = int(state["step"])
    path = folder / f"step-{step:08d}"
    files: dict[str, durable.Content] = {
        "model.safetensors": save(_plain(dict(pair.named_parameters()))),
        "optimizer.safetensors": save(_plain(optimizer.tensors())),
        "state.json": json.dumps(state, indent=2).encode(),
    }
    durable.commit_directory(path, files, ops)
    problem = durable.verify_directory(path)
    if problem is not None:
        raise CheckpointError(
            f"was written but does not read back ({problem})", where=path, fix="Check the disk"
        )
    verified = [old for old in listing(folder) if old.step <= step]
    for old in verified[max(1, keep) :]:
        durable.remove_directory(old.path, ops)
    return path


def _plain(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def read_state(path: Path) -> dict[str, Any]:
    state: dict[str, Any] = durable.read_json(path / "state.json", CheckpointError)
    return state


def read_weights(path: Path, pair: Pair) -> None:
    """Fill the pair from a checkpoint; raises CheckpointError when names or shapes are not its own."""
    saved = load_file(path / "model.safetensors")
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
    state = read_state(path)
    read_weights(path, pair)
    try:
        optimizer.load_tensors(load_file(path / "optimizer.safetensors"), int(state["step"]))
    except KeyError as missing:
        raise CheckpointError(f"has no {missing}", where=path / "optimizer.safetensors") from None
    return state
