"""The disk space that a run will need, computed before its first step."""

from __future__ import annotations

import shutil
from pathlib import Path

from electra.artifacts.run import RunFolder
from electra.foundation import durable
from electra.foundation.errors import FullDisk
from electra.training.run import Run

OTHER_BYTES = 8 << 20  # for the ledger, the report and the examples


def checkpoint_bytes(run: Run) -> int:
    """Returns the size of a checkpoint in bytes: weights and optimizer state."""
    weights = sum(parameter.nbytes for parameter in run.pair.parameters())
    return weights + run.optimizer.bytes


def disk_bytes(run: Run) -> int:
    """Returns the peak size of the run folder in bytes, without its store.

    It includes the checkpoints that are kept, the next one, and the exported networks.
    """
    network_bytes = sum(
        4 * parameter.numel() for net in run.pair.named.values() for parameter in net.parameters()
    )
    return (max(1, run.upkeep.keep) + 1) * checkpoint_bytes(run) + network_bytes + OTHER_BYTES


def refuse_full_disk(run: Run) -> None:
    """Checks that the disk has room for the whole run.

    Raises:
        FullDisk: if it does not; the message says how much is needed.
    """
    existing_bytes = sum(
        file.stat().st_size
        for saved in RunFolder(run.folder).saved_checkpoints()
        for file in saved.path.glob("*.safetensors")
    )
    needed_bytes = disk_bytes(run) - existing_bytes
    free_bytes = shutil.disk_usage(durable.nearest_existing(run.folder)).free
    if free_bytes < needed_bytes:
        raise FullDisk(
            f"this run needs {durable.mebibytes(needed_bytes)} of disk space;"
            f" {durable.mebibytes(free_bytes)} are free",
            where=Path(run.folder),
            fix="Free some space, choose another `out`, or lower `training.keep`",
        )
