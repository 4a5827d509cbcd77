"""Keys of run.toml that change what is written, when, or how fast, but not what is learned.

A run may be resumed with a recipe if all other keys agree: those that change any bit of the weights,
including the seed and the device (a GPU sums in another order). Held-out scores may come from other rows.
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


def without_harmless(
    keys: Iterable[str], differences: Iterable[tuple[str, Any, Any]]
) -> list[tuple[str, Any, Any]]:
    """Returns the differences (as from `config.differences`), without those in `keys`."""
    harmless = set(keys)
    return [entry for entry in differences if entry[0] not in harmless]
