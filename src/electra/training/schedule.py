"""The learning rate schedules, and the course of a run that they and other schedules follow."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self


@dataclass
class Course:
    """How far a run has come at each step, from estimates of its total number of updates.

    A time budget is estimated again and again. Each estimate spreads what is left of the course evenly over
    the updates that are left, so that neither the learning rate nor a mask fraction jumps. Positions are in
    updates of the first estimate: with only one, they are steps.
    """

    estimates: list[tuple[int, int]]
    """(first step, total number of updates from then on)"""

    @classmethod
    def recorded(cls, environment: Mapping[str, Any], steps: Any) -> Self:
        """Returns the recorded course of a run of `steps` updates."""
        entries = environment.get("lengths") or [(0, steps or 0)]
        return cls([(int(begin), int(total)) for begin, total in entries])

    @property
    def whole(self) -> int:
        """The position of the end."""
        return self.estimates[0][1]

    def total(self, step: int) -> int:
        """Returns the total number of updates as known at `step`; 0 while a budget is unresolved."""
        return next((total for begin, total in reversed(self.estimates) if begin <= step), 0)

    def position(self, step: int) -> float:
        """Returns the position after `step` updates: from 0 to `whole`."""
        known = [estimate for estimate in self.estimates if estimate[0] <= step]
        if len(known) == 1:
            return step
        begin, end = known[0]
        left = whole = float(end)
        for next_begin, next_end in known[1:]:
            left, begin, end = left * (end - next_begin) / (end - begin), next_begin, next_end
        return whole - left * (end - step) / (end - begin)

    def progress(self, step: int) -> float:
        """Returns the fraction of the run that is done after `step` updates."""
        return self.position(step) / max(1, self.whole)

    def first(self, position: float) -> int:
        """Returns the first step at `position` or beyond; the estimates to come may change it."""
        return bisect_left(range(self.estimates[-1][1]), position, key=self.position)

    def cooldown_start(self, decay: float) -> int:
        """Returns the step at which the rate of a wsd schedule begins to fall."""
        return self.first(plateau_end(self.whole, decay))


def multiplier(step: float, total: int, warmup: float, kind: str, decay: float = 0.0) -> float:
    """Returns the learning rate, relative to its peak, of the update after `step` finished ones.

    `linear` rises over warmup x total steps to 1, then falls linearly to 0. `reference` is the published
    code's product of warm-up and decay: its peak is slightly below 1, and its first update has rate 0. `wsd`
    rises, stays at 1, and falls to 0 over the last decay x total steps (Hu et al. 2024, MiniCPM).

    `step` may also be the position on a course; `warmup` and `decay` are fractions of `total`.
    """
    rise_steps = warmup_updates(total, warmup)
    if kind == "reference":
        return min(1.0, step / rise_steps if rise_steps else 1.0) * max(0.0, 1.0 - step / total)
    if step < rise_steps:
        return min(1.0, (step + 1) / rise_steps)
    fall_start = max(rise_steps, plateau_end(total, decay)) if kind == "wsd" else rise_steps
    return min(1.0, max(0.0, (total - step) / max(1, total - fall_start)))


def warmup_updates(total: int, warmup: float) -> int:
    """Returns the number of updates in which the rate rises, of the fraction `warmup`."""
    return max(1, round(warmup * total)) if warmup > 0 else 0


def plateau_end(total: int, decay: float) -> int:
    """Returns the number of updates before the rate of wsd falls, which it does for at least one."""
    return total - max(1, round(decay * total))


def progress(step: float, total: int, kind: str, decay: float) -> float:
    """Returns the fraction of a training that is done, for schedules of mask rates and the like.

    Under wsd it stays 0 until the learning rate falls, so a longer training is identical up to there.
    """
    begin = plateau_end(total, decay) if kind == "wsd" else 0
    return max(0.0, (step - begin) / (total - begin))


def part(position: float, whole: int, shares: Sequence[float]) -> tuple[int, int, int]:
    """Returns the number (from 0), begin and end of the part of a training that contains `position`.

    `shares` are the fractions of the training at which further parts begin.
    """
    steps = range(whole)
    starts = [bisect_left(steps, True, key=lambda step: step / whole >= share) for share in shares]
    bounds, index = [0, *starts, whole], sum(position / whole >= share for share in shares)
    return index, bounds[index], bounds[index + 1]
