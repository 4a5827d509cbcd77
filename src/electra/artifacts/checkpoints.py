"""The finder of checkpoints: directories `step-00001000/`, committed whole, found without a pointer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from electra.artifacts.folder import File, Sealed
from electra.foundation import durable
from electra.foundation.errors import CheckpointError, ConfigError

_NAME = re.compile(r"step-(\d{8,})")


class Checkpoint(Sealed):
    """The state of a training after `step` updates."""

    KIND = "checkpoint"
    RECORD = "state.json"
    ERROR = CheckpointError

    weights = File("model.safetensors")
    optimizer = File("optimizer.safetensors")
    best = File("best.safetensors")  # the weights of the best epoch so far (of a fine-tuning that keeps it)
    state = File(RECORD)

    @classmethod
    def is_at(cls, path: Path) -> bool:
        return (path / cls.RECORD).is_file() or (bool(_NAME.fullmatch(path.name)) and path.is_dir())

    @property
    def step(self) -> int:
        match = _NAME.fullmatch(self.path.name)
        return int(match[1] if match else self.record["step"])

    def facts(self) -> Sequence[tuple[str, Any]]:
        return (("step", f"{self.step:,}"),)


def at_step(folder: Path, step: int) -> Checkpoint:
    """The checkpoint of `step` in `folder`, whether or not it exists yet."""
    return Checkpoint(folder / f"step-{step:08d}")


def listing(folder: Path) -> list[Checkpoint]:
    """The checkpoints in `folder`, damaged ones included, newest first."""
    found = [
        Checkpoint(path) for path in folder.glob("step-*") if path.is_dir() and _NAME.fullmatch(path.name)
    ]
    found = [one for one in found if one.path == at_step(folder, one.step).path]  # copies under longer names
    return sorted(found, key=lambda checkpoint: checkpoint.step, reverse=True)


def newest(folder: Path) -> tuple[Checkpoint | None, tuple[str, ...]]:
    """The newest checkpoint that verifies, and a line on each damaged one passed over.

    Damaged ones are never deleted. A folder whose every checkpoint is damaged is refused: to start over in
    silence would throw the user's training away.
    """
    damaged: list[tuple[str, str]] = []
    for checkpoint in listing(folder):
        problem = durable.verify_directory(checkpoint.path)
        if problem is None:
            lines = (
                f"{folder / name} is damaged ({what}): using the one before it" for name, what in damaged
            )
            return checkpoint, tuple(lines)
        damaged.append((checkpoint.path.name, problem))
    if damaged:
        listed = "; ".join(f"{name}: {what}" for name, what in damaged)
        fix = "Restore one of them, or choose another `out` to start over"
        raise CheckpointError(f"no checkpoint is whole ({listed})", where=folder, fix=fix)
    return None, ()


def last(folder: Path, count: int, step: int | None = None) -> tuple[tuple[Checkpoint, ...], tuple[str, ...]]:
    """The newest `count` checkpoints that verify, that of `step` and older ones where it is given, oldest
    first; and a line on each damaged one passed over.
    """
    if not isinstance(count, int) or count < 1:
        raise ConfigError(f"must be a whole number, at least 1, not {count!r}", key="average")
    if step is not None:
        chosen(folder, step)  # refused where it is missing or damaged
    found: list[Checkpoint] = []
    damaged: list[str] = []
    for checkpoint in listing(folder):
        if len(found) == count:
            break
        if step is not None and checkpoint.step > step:
            continue
        problem = durable.verify_directory(checkpoint.path)
        if problem is None:
            found.append(checkpoint)
        else:
            damaged.append(f"{checkpoint.path} is damaged ({problem}): left out")
    if len(found) < count:
        until = "" if step is None else f" up to step {step}"
        lost = f" ({len(damaged)} damaged)" if damaged else ""
        raise CheckpointError(
            f"cannot average {count} checkpoints: there {'is' if len(found) == 1 else 'are'}"
            f" {len(found) or 'none'}{until}{lost}",
            where=folder,
            fix=f"Lower `average`, or save and keep more while training: `training.checkpoint_every`,"
            f" `training.keep={count}`",
        )
    return tuple(reversed(found)), tuple(damaged)


def chosen(folder: Path, step: int) -> Checkpoint:
    """The checkpoint of `step`, verified."""
    found = {checkpoint.step: checkpoint for checkpoint in reversed(listing(folder))}
    if step not in found:
        steps = ", ".join(map(str, found)) or "none"
        raise CheckpointError(f"no checkpoint of step {step}", where=folder, fix=f"There are: {steps}")
    problem = durable.verify_directory(found[step].path)
    if problem is not None:
        raise CheckpointError(f"damaged: {problem}", where=found[step].path, fix="Choose another `step`")
    return found[step]
