"""Checkpoints: directories of safetensors and JSON, written atomically and verified by SHA-256; resuming."""

import json
import shutil
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save
from torch import Tensor

from electra.artifacts.checkpoints import Checkpoint, at_step, list_checkpoints, newest_checkpoint
from electra.artifacts.run_files import RunFolder
from electra.exchange.run_folder import fill
from electra.foundation import durable
from electra.foundation.durable import mebibytes
from electra.foundation.errors import CheckpointError, FullDisk
from electra.model.pair import Pair
from electra.training.optimizer import Optimizer
from electra.training.record import refuse_foreign_checkpoint
from electra.training.run import RunState


def write(
    folder: Path,
    pair: Pair,
    optimizer: Optimizer,
    state: dict[str, Any],
    *,
    keep: int,
    protect: int | None = None,
) -> Path:
    """Writes and verifies a checkpoint, then removes all but the newest `keep` of those up to its step.

    Returns its directory.

    `state` is JSON with a `step`; the checkpoint of the step `protect` is kept, too. Raises CheckpointError
    if the checkpoint just written is damaged, in which case no older ones are removed.
    """
    target = at_step(folder, int(state["step"]))
    files: dict[str, durable.Content] = {
        target.weights.name: save(on_host(dict(pair.named_parameters()))),
        target.optimizer.name: save(on_host(optimizer.tensors())),
        target.state.name: json.dumps(state, indent=2).encode(),
    }
    durable.commit_directory(target.path, files)
    problem = durable.verify_directory(target.path)
    if problem is not None:
        raise CheckpointError(
            f"the checkpoint just written failed verification ({problem})",
            where=target.path,
            fix="Check the disk",
        )
    removable = [old for old in list_checkpoints(folder) if old.step <= target.step and old.step != protect]
    for old in removable[max(1, keep) :]:
        durable.remove_directory(old.path)
    return target.path


def on_host(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns the tensors, detached, contiguous and in main memory; they may share the originals' storage."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def read_weights(path: Path, pair: Pair) -> None:
    """Loads the pair's weights from a checkpoint; CheckpointError if names or shapes differ."""
    saved_weights = load_file(Checkpoint(path).weights)
    if unmatched := sorted(saved_weights.keys() ^ dict(pair.named_parameters()).keys()):
        raise CheckpointError(f"contains another model's weights ({unmatched[0]} is not in both)", where=path)
    fill(pair, saved_weights, path)


def restore(path: Path, pair: Pair, optimizer: Optimizer) -> dict[str, Any]:
    """Loads weights and optimizer; returns the checkpoint's state. CheckpointError of another model."""
    saved = Checkpoint(path)
    state = saved.record
    read_weights(path, pair)
    try:
        optimizer.load_tensors(load_file(saved.optimizer), int(state["step"]))
    except KeyError as missing:
        raise CheckpointError(f"{missing} is missing", where=saved.optimizer) from None
    return state


def resume(run: RunState) -> list[str]:
    """Restores the newest intact checkpoint, if any; returns warnings about damaged ones."""
    folder = RunFolder(run.folder).checkpoints
    newest, damaged = None, tuple[str, ...]()
    if run.world.is_main:
        for place in (folder, run.folder):  # files that a killed process left half-written or half-deleted
            durable.remove_leftovers(place)
        newest, damaged = newest_checkpoint(folder)
    path = run.world.broadcast(str(newest.path) if newest else None)
    if path is not None:
        refuse_foreign_checkpoint(Checkpoint(Path(path)), run)
        state = restore(Path(path), run.pair, run.optimizer)
        run.step = run.saved_step = int(state["step"])
        run.seconds = float(state["seconds"])
        run.spent = float(state.get("spent", run.seconds))
        run.logged = run.step, run.seconds
    return list(damaged)


def refuse_full_disk(run: RunState) -> None:
    """Raises FullDisk if the disk has no room for the whole run; the message says how much is needed."""
    existing_bytes = sum(
        file.stat().st_size
        for saved in RunFolder(run.folder).saved_checkpoints()
        for file in saved.path.glob("*.safetensors")
    )
    needed_bytes = run.disk_bytes - existing_bytes
    free_bytes = shutil.disk_usage(durable.nearest_existing(run.folder)).free
    if free_bytes < needed_bytes:
        raise FullDisk(
            f"this run needs {mebibytes(needed_bytes)} of disk space; {mebibytes(free_bytes)} are free",
            where=run.folder,
            fix="Free some space, choose another `out`, or lower `training.keep`",
        )
