"""What a run will take of the disk, known before its first step."""

from __future__ import annotations

import shutil
from pathlib import Path

from electra.artifacts.run import RunFolder
from electra.foundation import durable
from electra.foundation.errors import FullDisk
from electra.training.run import Run

MARGIN = 8 << 20  # ledger, report, examples


def checkpoint_bytes(run: Run) -> int:
    """Of one checkpoint: weights, and the moments that the optimizer keeps of them."""
    weights = sum(parameter.nbytes for parameter in run.pair.parameters())
    return weights + run.optimizer.bytes


def disk_bytes(run: Run) -> int:
    """At the worst moment: the checkpoints that are kept, the next one, and the exported networks."""
    networks = sum(4 * parameter.numel() for net in run.pair.named.values() for parameter in net.parameters())
    return (max(1, run.upkeep.keep) + 1) * checkpoint_bytes(run) + networks + MARGIN


def refuse_full_disk(run: Run) -> None:
    """Refuse a run that would die of a full disk hours later; FullDisk says what it needs."""
    there = sum(
        file.stat().st_size
        for saved in RunFolder(run.folder).saved()
        for file in saved.path.glob("*.safetensors")
    )
    needed = disk_bytes(run) - there
    free = shutil.disk_usage(durable.nearest_existing(run.folder)).free
    if free < needed:
        wanted, found = durable.mebibytes(needed), durable.mebibytes(free)
        raise FullDisk(
            f"this run needs {wanted}, and {found} are free on this volume",
            where=Path(run.folder),
            fix="Free some space, choose another `out`, or lower `training.keep`",
        )
