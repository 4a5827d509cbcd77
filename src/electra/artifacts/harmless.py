"""Keys of run.toml that change what is written, when, or how fast, but not what is learned.

Two questions are put to two recipes, and they need different lists, the second one longer:

    May this run be resumed with that recipe?   A key that moves the bits must not differ. So the seed must
        agree, and the device, because a GPU adds in another order. The held-out scores may be of other rows.
    Is that the same training?                  Runs are compared by what they were meant to learn. The seed
        is a difference of its own kind (a replicate), and the device is none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

WHEN_RESUMED = frozenset(
    {
        "training.checkpoint_every",
        "training.keep",
        "training.evaluate_every",
        "training.log_every",
        "training.on_collapse",
        "training.on_spike",  # moves bits where there is a spike, and the ledger says so there
        "training.threads",
        "training.compile",
        "training.micro_batch",
        "evaluation.rows",
    }
)
WHEN_COMPARED = WHEN_RESUMED | {"training.seed", "training.device"}


def without(keys: Iterable[str], differences: Iterable[tuple[str, Any, Any]]) -> list[tuple[str, Any, Any]]:
    """The differences (as `config.differences` gives them) that are not harmless."""
    harmless = set(keys)
    return [entry for entry in differences if entry[0] not in harmless]
