"""Finds checkpoints: directories `step-00001000/`, committed atomically. No file points to the latest."""

import re
from pathlib import Path

from typing_extensions import override

from electra.artifacts.folder import ChildPath, SealedFolder
from electra.foundation import durable
from electra.foundation.errors import CheckpointError

_NAME = re.compile(r"step-(\d{8,})")


class Checkpoint(SealedFolder):
    """The state of a training run after `step` updates."""

    KIND = "checkpoint"
    RECORD = "state.json"
    ERROR = CheckpointError

    weights = ChildPath("model.safetensors")
    optimizer = ChildPath("optimizer.safetensors")
    best = ChildPath("best.safetensors")  # weights of the best epoch so far, in a fine-tuning that keeps them
    state = ChildPath(RECORD)

    @classmethod
    @override
    def is_at(cls, path: Path) -> bool:
        return (path / cls.RECORD).is_file() or (bool(_NAME.fullmatch(path.name)) and path.is_dir())

    @property
    def step(self) -> int:
        """The number of updates, from the folder's name or, if it was renamed, from its record."""
        match = _NAME.fullmatch(self.path.name)
        return int(match[1] if match else self.record["step"])


def at_step(folder: Path, step: int) -> Checkpoint:
    """Returns the checkpoint of `step` in `folder`, whether or not it exists."""
    return Checkpoint(folder / f"step-{step:08d}")


def list_checkpoints(folder: Path) -> list[Checkpoint]:
    """Returns the checkpoints in `folder`, including damaged ones, newest first."""
    paths = (path for path in folder.glob("step-*") if path.is_dir() and _NAME.fullmatch(path.name))
    # A directory whose number has more leading zeros than we write is a copy.
    checkpoints = [each for each in map(Checkpoint, paths) if each.path == at_step(folder, each.step).path]
    return sorted(checkpoints, key=lambda checkpoint: checkpoint.step, reverse=True)


def newest_checkpoint(folder: Path) -> tuple[Checkpoint | None, tuple[str, ...]]:
    """Returns the newest intact checkpoint and a line about each damaged newer one.

    Returns (None, ()) if there are no checkpoints. Damaged ones are never deleted. Raises CheckpointError if
    all are damaged: starting over silently would discard the user's training.
    """
    damaged: dict[Path, str] = {}
    for checkpoint in list_checkpoints(folder):
        problem = durable.verify_directory(checkpoint.path)
        if problem is None:
            notes = (f"{path} is damaged ({why}): using the one before it" for path, why in damaged.items())
            return checkpoint, tuple(notes)
        damaged[checkpoint.path] = problem
    if damaged:
        listed = "; ".join(f"{path.name}: {damage}" for path, damage in damaged.items())
        fix = "Restore one of them, or choose another `out` to start over"
        raise CheckpointError(f"every checkpoint is damaged ({listed})", where=folder, fix=fix)
    return None, ()


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
