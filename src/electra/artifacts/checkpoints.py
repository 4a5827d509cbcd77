"""Finds checkpoints: directories `step-00001000/`, committed whole, without a pointer to the latest."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from typing_extensions import override

from electra.artifacts.folder import File, SealedFolder
from electra.foundation import durable
from electra.foundation.errors import CheckpointError, ConfigError

_NAME = re.compile(r"step-(\d{8,})")


class Checkpoint(SealedFolder):
    """The state of a training after `step` updates."""

    KIND = "checkpoint"
    RECORD = "state.json"
    ERROR = CheckpointError

    weights = File("model.safetensors")
    optimizer = File("optimizer.safetensors")
    best = File("best.safetensors")  # weights of the best epoch so far, in a fine-tuning that keeps them
    state = File(RECORD)

    @classmethod
    @override
    def is_at(cls, path: Path) -> bool:
        return (path / cls.RECORD).is_file() or (bool(_NAME.fullmatch(path.name)) and path.is_dir())

    @property
    def step(self) -> int:
        """The number of updates, from the name of the folder or, if it was renamed, from its record."""
        match = _NAME.fullmatch(self.path.name)
        return int(match[1] if match else self.record["step"])

    @override
    def facts(self) -> Sequence[tuple[str, Any]]:
        return (("step", f"{self.step:,}"),)


def at_step(folder: Path, step: int) -> Checkpoint:
    """Returns the checkpoint of `step` in `folder`, whether or not it exists."""
    return Checkpoint(folder / f"step-{step:08d}")


def list_checkpoints(folder: Path) -> list[Checkpoint]:
    """Returns the checkpoints in `folder`, including damaged ones, newest first."""
    paths = (path for path in folder.glob("step-*") if path.is_dir() and _NAME.fullmatch(path.name))
    # A number with more zeros than ours is a copy.
    checkpoints = [each for each in map(Checkpoint, paths) if each.path == at_step(folder, each.step).path]
    return sorted(checkpoints, key=lambda checkpoint: checkpoint.step, reverse=True)


def newest_checkpoint(folder: Path) -> tuple[Checkpoint | None, tuple[str, ...]]:
    """Returns the newest checkpoint that verifies (None: there are none), and a line on each damaged one.

    Damaged checkpoints are never deleted.

    Raises:
        CheckpointError: all are damaged. Starting over silently would discard the user's training.
    """
    damaged: list[tuple[str, str]] = []
    for checkpoint in list_checkpoints(folder):
        problem = durable.verify_directory(checkpoint.path)
        if problem is None:
            lines = (
                f"{folder / name} is damaged ({damage}): using the one before it" for name, damage in damaged
            )
            return checkpoint, tuple(lines)
        damaged.append((checkpoint.path.name, problem))
    if damaged:
        listed = "; ".join(f"{name}: {damage}" for name, damage in damaged)
        fix = "Restore one of them, or choose another `out` to start over"
        raise CheckpointError(f"every checkpoint is damaged ({listed})", where=folder, fix=fix)
    return None, ()


def last_checkpoints(
    folder: Path, count: int, step: int | None = None
) -> tuple[tuple[Checkpoint, ...], tuple[str, ...]]:
    """Returns the newest `count` checkpoints that verify, oldest first, and a line on each damaged one.

    Args:
        folder: the folder of checkpoints.
        count: how many.
        step: the last one to use (None: the newest).

    Raises:
        CheckpointError: there are fewer, or the one of `step` is missing or damaged.
    """
    if not isinstance(count, int) or count < 1:
        raise ConfigError(f"must be a whole number, at least 1, not {count!r}", key="average")
    if step is not None:
        verified_checkpoint(folder, step)
    usable: list[Checkpoint] = []
    damaged: list[str] = []
    for checkpoint in list_checkpoints(folder):
        if len(usable) == count:
            break
        if step is not None and checkpoint.step > step:
            continue
        problem = durable.verify_directory(checkpoint.path)
        if problem is None:
            usable.append(checkpoint)
        else:
            damaged.append(f"{checkpoint.path} is damaged ({problem}): left out")
    if len(usable) < count:
        until = "" if step is None else f" up to step {step}"
        lost = f" ({len(damaged)} damaged)" if damaged else ""
        raise CheckpointError(
            f"cannot average {count} checkpoints: there {'is' if len(usable) == 1 else 'are'}"
            f" {len(usable) or 'none'}{until}{lost}",
            where=folder,
            fix=f"Lower `average`, or keep more checkpoints in training: `training.checkpoint_every`,"
            f" `training.keep={count}`",
        )
    return tuple(reversed(usable)), tuple(damaged)


def verified_checkpoint(folder: Path, step: int) -> Checkpoint:
    """Returns the checkpoint of `step`. Raises CheckpointError if it is missing or damaged."""
    by_step = {checkpoint.step: checkpoint for checkpoint in reversed(list_checkpoints(folder))}
    if step not in by_step:
        steps = ", ".join(map(str, by_step)) or "none"
        raise CheckpointError(f"no checkpoint of step {step}", where=folder, fix=f"Available: {steps}")
    problem = durable.verify_directory(by_step[step].path)
    if problem is not None:
        raise CheckpointError(f"damaged: {problem}", where=by_step[step].path, fix="Choose another `step`")
    return by_step[step]
