"""Converts a budget of time, FLOPs, tokens or steps into a number of steps."""

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


@dataclass
class TimeBudget:
    """A time budget whose number of steps is not final yet: the first tenth of the run."""

    seconds: float
    began: float
    """When the run began, by the monotonic clock: this process's start minus the seconds spent in updates
    before the run was resumed.
    """
    _first_update: tuple[int, float] | None = field(default=None, init=False)

    def due(self, step: int, seconds: float, total: int) -> bool:
        """Whether to re-estimate the number of steps before the next update.

        Call it before every update: the first call after an update also marks where measuring begins.

        `step` updates are finished, `seconds` were spent in them, of `total` as estimated so far.
        """
        if self._first_update is None and seconds:
            self._first_update = step, seconds  # a process's first updates are slower than the others
        return step > 0 and (self.past_a_tenth or step >= ESTIMATING_FRACTION * total)

    @property
    def elapsed(self) -> float:
        """Seconds of the budget that have passed."""
        return time.monotonic() - self.began

    @property
    def past_a_tenth(self) -> bool:
        """Whether a tenth of the budget has passed."""
        return self.elapsed >= ESTIMATING_FRACTION * self.seconds

    def seconds_per_update(self, step: int, seconds: float) -> float:
        """Returns the mean seconds per update so far.

        The first updates of this process do not count, unless there are no others.
        """
        first_step, first_seconds = self._first_update or (0, 0.0)
        return seconds / step if step == first_step else (seconds - first_seconds) / (step - first_step)


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
    text: str, *, tokens_per_step: int, flops_per_step: float, steps_in_seconds: Callable[[float], float]
) -> int:
    """Returns the number of updates that a budget pays for.

    Args:
        text: The budget.
        tokens_per_step: Tokens per update.
        flops_per_step: FLOPs per update.
        steps_in_seconds: Returns how many updates fit into a number of seconds; called only for a time
            budget.

    Raises:
        ConfigError: if the text is not a budget, or pays for less than one update.
    """
    amount, unit = parse(text)
    if unit == "seconds":
        steps = int(steps_in_seconds(amount))
    else:
        steps = int(amount / {"flops": flops_per_step, "tokens": float(tokens_per_step), "steps": 1.0}[unit])
    if steps < 1:
        raise ConfigError(
            f"{text} is less than one update", key="budget", fix="Use a larger budget or a smaller model"
        )
    return steps
