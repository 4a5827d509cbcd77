"""The learning rate at a step, as a multiple of its peak."""

from __future__ import annotations


def multiplier(step: int, total: int, warmup: float, kind: str) -> float:
    """`step` counts finished updates: the first update uses multiplier(0).

    linear:    rises over warmup x total steps to 1, then falls in a straight line to 0 at the end.
    reference: the published code's product of the two, so the peak is a little below 1 and the first update
        has rate 0.
    """
    rise = max(1, round(warmup * total)) if warmup > 0 else 0
    if kind == "reference":
        return min(1.0, step / rise if rise else 1.0) * max(0.0, 1.0 - step / total)
    if step < rise:
        return (step + 1) / rise
    return max(0.0, (total - step) / max(1, total - rise))
