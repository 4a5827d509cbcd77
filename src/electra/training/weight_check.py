"""Detects processes whose weights have drifted apart.

Every process adds the same gradients to the same weights, so the weights stay equal. If a bit flips in the
memory of one process, the difference persists and spreads through the gradients, unnoticed in the losses.
"""

from __future__ import annotations

import hashlib

import torch

from electra.foundation.errors import RunFailed
from electra.training.run import Run


def digest(run: Run) -> int:
    """Returns a 52-bit digest of weights and optimizer state, which a float64 can represent exactly."""
    tensors = {**dict(run.pair.named_parameters()), **run.optimizer.tensors()}
    checksums = [tensors[name].detach().view(torch.int32).sum(dtype=torch.int64) for name in sorted(tensors)]
    sums = torch.stack([checksum.cpu() for checksum in checksums]).numpy().astype("<i8")
    return int.from_bytes(hashlib.blake2b(sums.tobytes(), digest_size=8).digest(), "little") >> 12


def check_weights(run: Run) -> None:
    """Compares the weights and optimizer state of all processes.

    Raises:
        RunFailed: in every process, if any process differs from the main one.
    """
    world = run.world
    if world.size == 1:
        return
    own_digest = float(digest(run))
    digests = world.sum([own_digest if rank == world.rank else 0.0 for rank in range(world.size)])
    differing = [str(rank) for rank, other_digest in enumerate(digests) if other_digest != digests[0]]
    if differing:
        names = f"processes {', '.join(differing)}" if len(differing) > 1 else f"process {differing[0]}"
        verb = "have" if len(differing) > 1 else "has"
        raise RunFailed(
            f"{names} {verb} other weights than process 0 at step {run.step}; nothing was saved",
            where=run.folder,
            fix="Rerun to resume from the previous checkpoint. If it happens again, test the memory, and use"
            " identical machines, because different ones round differently",
        )
