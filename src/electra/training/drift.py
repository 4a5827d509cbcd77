"""Every process holds the same networks: cheap to compare, and nothing else would notice when they part.

Each adds the same gradients to the same weights, so a bit that flips in the memory of one process stays there
and spreads through the gradients, while the losses look as ever.
"""

from __future__ import annotations

import hashlib

import torch

from electra.foundation.errors import RunFailed
from electra.training.run import Run


def digest(run: Run) -> int:
    """52 bits over weights and moments, which a float64 holds: one flipped bit in them changes it."""
    tensors = {**dict(run.pair.named_parameters()), **run.optimizer.tensors()}
    words = [tensors[name].detach().view(torch.int32).sum(dtype=torch.int64) for name in sorted(tensors)]
    sums = torch.stack([word.cpu() for word in words]).numpy().astype("<i8")
    return int.from_bytes(hashlib.blake2b(sums.tobytes(), digest_size=8).digest(), "little") >> 12


def refuse_drift(run: Run) -> None:
    """Raises RunFailed, in every process, when one of them holds other weights or moments than the first."""
    world = run.world
    if world.size == 1:
        return
    mine = float(digest(run))
    all_of_them = world.sum([mine if rank == world.rank else 0.0 for rank in range(world.size)])
    apart = [str(rank) for rank, other in enumerate(all_of_them) if other != all_of_them[0]]
    if apart:
        raise RunFailed(
            f"process {', '.join(apart)} and process 0 no longer hold the same weights at step {run.step}:"
            " nothing was saved",
            where=run.folder,
            fix="Rerun to resume from the checkpoint before; if it happens again, test the memory, and use"
            " machines of one kind, because others round differently",
        )
