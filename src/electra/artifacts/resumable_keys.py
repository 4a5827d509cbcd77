"""Keys of run.toml that change what is written, when, or how fast, but not what is learned.

Two questions about two recipes need different lists:

    May this run be resumed with that recipe?   Keys that change any bit of the weights must agree, including
        the seed and the device (a GPU sums in another order). Held-out scores may come from other rows.
    Are these two runs the same training?       Keys that change what is learned must agree. With another
        seed, a run is a replicate; on another device, it is the same training.
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
    """Returns the differences (as from `config.differences`), without those in `keys`."""
    harmless = set(keys)
    return [entry for entry in differences if entry[0] not in harmless]
