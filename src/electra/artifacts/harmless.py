"""Keys of run.toml that change what is written, when, or how fast, but not what is learned.

Two questions about two recipes need different lists, the second one longer:

    May this run be resumed with that recipe?   Keys that change the bits must agree, including the seed and
        the device (a GPU adds in another order). The held-out scores may come from other rows.
    Is that the same training?                  Runs are compared by what they were meant to learn. Another
        seed makes a replicate, and the device does not matter.
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
        "training.on_spike",  # changes bits only at a spike, which the ledger records
        "training.threads",
        "training.compile",
        "training.micro_batch",
        "evaluation.rows",
    }
)
WHEN_COMPARED = WHEN_RESUMED | {"training.seed", "training.device"}


def without_harmless(
    keys: Iterable[str], differences: Iterable[tuple[str, Any, Any]]
) -> list[tuple[str, Any, Any]]:
    """Returns the differences (as from `config.differences`) in other keys than these."""
    harmless = set(keys)
    return [entry for entry in differences if entry[0] not in harmless]
