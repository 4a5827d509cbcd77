"""Keys of run.toml that change what is written, when, or how fast, but not what is learned.

A run may be resumed with a recipe if all other keys agree: those that change any bit of the weights,
including the seed and the device (a GPU sums in another order). Held-out scores may come from other rows.
"""

from __future__ import annotations

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
