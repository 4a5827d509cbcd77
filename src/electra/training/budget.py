"""What a budget buys: time, FLOPs, tokens or steps, as a fixed number of steps."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from electra.foundation.errors import ConfigError

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SCALES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}
TENTH = 0.1  # of a budget of time: until then the number of steps is set again
LARGEST = 1e30  # more than anyone has spent
_PATTERN = re.compile(
    r"(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(?P<scale>[kMGBT]?)(?P<unit>s|m|min|h|d|flops|tokens|steps)",
    re.ASCII,
)


@dataclass
class Clock:
    """A budget of time, of a run in its first tenth."""

    seconds: float
    began: float
    """When, by this process's clock; earlier where updates were done by another."""
    _first: tuple[int, float] | None = field(default=None, init=False)

    def due(self, step: int, seconds: float, total: int) -> bool:
        """Whether the number of steps is to be set again before the next update, after `step` of `total`
        updates that took `seconds`.
        """
        if self._first is None and seconds:
            self._first = step, seconds  # the first updates of a process take longer
        return step > 0 and (self.past_a_tenth or step >= TENTH * total)

    @property
    def gone(self) -> float:
        return time.monotonic() - self.began

    @property
    def past_a_tenth(self) -> bool:
        return self.gone >= TENTH * self.seconds

    def update(self, step: int, seconds: float) -> float:
        """Mean seconds of an update so far."""
        before, spent = self._first or (0, 0.0)
        return seconds / step if step == before else (seconds - spent) / (step - before)


def parse(text: str) -> tuple[float, str]:
    """(amount, unit), unit one of seconds, flops, tokens, steps."""
    match = _PATTERN.fullmatch(text.strip())
    if (
        match is None
        or not 0 < float(match["number"]) < LARGEST
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
    """The number of updates a budget pays for, at least one. Only a budget of time measures anything."""
    amount, unit = parse(text)
    if unit == "seconds":
        steps = int(steps_in_seconds(amount))
    else:
        steps = int(amount / {"flops": flops_per_step, "tokens": float(tokens_per_step), "steps": 1.0}[unit])
    if steps < 1:
        raise ConfigError(
            f"{text} is less than one step", key="budget", fix="Give more, or train a smaller size"
        )
    return steps
