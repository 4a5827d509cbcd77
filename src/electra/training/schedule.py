"""The learning rate schedules, and the progress that other schedules follow."""

from __future__ import annotations


def multiplier(step: int, total: int, warmup: float, kind: str, decay: float = 0.0) -> float:
    """Returns the learning rate, relative to its peak, of the update after `step` finished ones.

    `linear` rises over warmup x total steps to 1, then falls linearly to 0. `reference` is the published
    code's product of warm-up and decay: its peak is slightly below 1, and its first update has rate 0. `wsd`
    rises, stays at 1, and falls to 0 over the last decay x total steps (Hu et al. 2024, MiniCPM).

    Args:
        step: Finished updates.
        total: Total number of updates.
        warmup: Fraction of the updates in which the rate rises.
        kind: linear, reference or wsd.
        decay: Fraction of the updates in which the rate of `wsd` falls.
    """
    rise_steps = max(1, round(warmup * total)) if warmup > 0 else 0
    if kind == "reference":
        return min(1.0, step / rise_steps if rise_steps else 1.0) * max(0.0, 1.0 - step / total)
    if step < rise_steps:
        return (step + 1) / rise_steps
    fall_start = max(rise_steps, plateau_end(total, decay)) if kind == "wsd" else rise_steps
    return min(1.0, max(0.0, (total - step) / max(1, total - fall_start)))


def plateau_end(total: int, decay: float) -> int:
    """Returns the number of updates before the rate of a wsd schedule begins to fall.

    The rate falls for at least one update.
    """
    return total - max(1, round(decay * total))


def progress(step: int, total: int, kind: str, decay: float) -> float:
    """Returns the fraction of a training that is done, for schedules of mask rates and the like.

    Under wsd it stays 0 until the learning rate falls, so a longer training is identical up to there.
    """
    begin = plateau_end(total, decay) if kind == "wsd" else 0
    return max(0.0, (step - begin) / (total - begin))


def mean_progress(kind: str, decay: float) -> float:
    """Returns `progress` averaged over the training."""
    return decay / 2 if kind == "wsd" else 0.5
