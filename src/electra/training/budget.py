"""Converts a budget of time, FLOPs, tokens or steps into a number of steps.

How many steps fit into a time is estimated from a few timed updates before a run starts. That may be far off,
for example because the machine was busy. So in the first tenth of the run the number of steps is estimated
again from the actual times, and the learning-rate schedule follows. Each estimate is recorded with the step
from which it holds, so resumed and replayed runs use the same numbers.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from electra.foundation.errors import ConfigError

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SCALES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}
ESTIMATING_FRACTION = 0.1  # of a time budget, in which the number of steps is re-estimated
MAX_AMOUNT = 1e30  # more than any real budget
_PATTERN = re.compile(
    r"(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(?P<scale>[kMGBT]?)(?P<unit>s|m|min|h|d|flops|tokens|steps)",
    re.ASCII,
)


def parse(text: str) -> tuple[float, str]:
    """Returns (amount, unit) of a budget; the unit is seconds, flops, tokens or steps.

    Raises:
        ConfigError: if the text is not a budget.
    """
    match = _PATTERN.fullmatch(text.strip())
    if (
        match is None
        or not 0 < float(match["number"]) < MAX_AMOUNT
        or (match["scale"] and match["unit"] in {"s", "m", "min", "h", "d"})
    ):
        raise ConfigError(
            f"invalid budget {text!r}", key="budget", fix="Use 30m, 2h, 2e16flops, 50Mtokens or 5000steps"
        )
    amount, unit = float(match["number"]) * _SCALES[match["scale"]], match["unit"]
    if unit in ("flops", "tokens", "steps"):
        return amount, unit
    return amount * _UNITS[unit[0]], "seconds"


def steps_for(
    text: str, *, tokens_per_step: int, flops_per_step: float, seconds_per_step: Callable[[], float]
) -> int:
    """Returns the number of updates that a budget pays for; only a time budget calls `seconds_per_step`.

    Raises:
        ConfigError: if the text is not a budget, or pays for less than one update.
    """
    amount, unit = parse(text)
    costs = {"flops": flops_per_step, "tokens": tokens_per_step, "steps": 1.0}
    if (steps := int(amount / (costs[unit] if unit in costs else seconds_per_step()))) < 1:
        raise ConfigError(
            f"{text} is less than one update", key="budget", fix="Use a larger budget or a smaller model"
        )
    return steps


@dataclass
class TimeBudget:
    """A time budget whose number of steps is not final yet: the first tenth of the run."""

    seconds: float
    began: float
    """When the run began, by the monotonic clock: this process's start minus the seconds spent in updates
    before the run was resumed.
    """
    _first_update: tuple[int, float] | None = field(default=None, init=False)

    @property
    def elapsed(self) -> float:
        """Seconds of the budget that have passed."""
        return time.monotonic() - self.began

    @property
    def past_a_tenth(self) -> bool:
        """Whether a tenth of the budget has passed."""
        return self.elapsed >= ESTIMATING_FRACTION * self.seconds

    def due(self, step: int, seconds: float, total: int) -> bool:
        """Whether to estimate the number of steps again; call it before every update.

        `step` updates are finished, `seconds` were spent in them, of `total` as estimated so far.
        """
        if self._first_update is None and seconds:
            self._first_update = step, seconds  # a process's first updates are slower than the others
        return step > 0 and (self.past_a_tenth or step >= ESTIMATING_FRACTION * total)

    def steps(self, step: int, seconds: float, evaluations: float) -> int:
        """Returns the new number of steps; `evaluations` are the seconds that all those to come will take.

        Half of the budget is reserved for updates: a short one on a slow machine is exceeded instead.
        """
        first, first_seconds = self._first_update or (0, 0.0)
        per_update = seconds / step if step == first else (seconds - first_seconds) / (step - first)
        remaining = self.seconds - self.elapsed - evaluations * max(0.0, 1 - self.elapsed / self.seconds)
        left = max(remaining, self.seconds / 2 - seconds, 0.0)
        return step + max(1, int(left / per_update))
