"""The learning rate at a step, as a multiple of its peak, and how far a training has come."""

from __future__ import annotations


def multiplier(step: int, total: int, warmup: float, kind: str, decay: float = 0.0) -> float:
    """`step` counts finished updates: the first update uses multiplier(0).

    linear:    rises over warmup x total steps to 1, then falls in a straight line to 0 at the end.
    reference: the published code's product of the two, so the peak is a little below 1 and the first update
        has rate 0.
    wsd:       rises, stays at 1, and falls to 0 over the last decay x total steps (Hu et al. 2024, MiniCPM).
    """
    rise = max(1, round(warmup * total)) if warmup > 0 else 0
    if kind == "reference":
        return min(1.0, step / rise if rise else 1.0) * max(0.0, 1.0 - step / total)
    if step < rise:
        return (step + 1) / rise
    flat = max(rise, plateau_end(total, decay)) if kind == "wsd" else rise
    return min(1.0, max(0.0, (total - step) / max(1, total - flat)))


def plateau_end(total: int, decay: float) -> int:
    """The updates before the rate of a wsd schedule begins to fall; it falls for one update at least."""
    return total - max(1, round(decay * total))


def progress(step: int, total: int, kind: str, decay: float) -> float:
    """The share of a training that is over, for what moves with it (mask rates). Under wsd nothing moves
    before the rate falls: so a longer training is the same up to there.
    """
    begin = plateau_end(total, decay) if kind == "wsd" else 0
    return max(0.0, (step - begin) / (total - begin))


def mean_progress(kind: str, decay: float) -> float:
    """`progress`, averaged over the training."""
    return decay / 2 if kind == "wsd" else 0.5
