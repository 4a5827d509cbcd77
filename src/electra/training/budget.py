"""Converts a budget of time, FLOPs, tokens or steps into a number of updates.

How many updates fit into a time is measured before a run starts, and again through the whole run, because a
machine may become slower or faster at any time: see `Clock`. Each estimate is recorded with the step from
which it holds, so that resumed and replayed runs use the same numbers: see `schedule.Course`.
"""

import math
import re
import time
from collections import deque
from dataclasses import dataclass, field

from electra.foundation.errors import ConfigError

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SCALES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}
MAX_AMOUNT = 1e30  # more than any real budget
_PATTERN = re.compile(
    r"(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(?P<scale>[kKMGBT]?)(?P<unit>s|m|min|h|d|flops|tokens|steps)",
    re.ASCII,
)
ESTIMATES = 100  # of a time budget, at most
WINDOW = 0.03  # of a time budget: the pace is that of the updates in it
MIN_UPDATES = 3  # in the window, at least
FINISH_SECONDS = 2.5  # of one core, for examples and report


def parse(text: str) -> tuple[float, str]:
    """Returns (amount, unit) of a budget: seconds, flops, tokens or steps; ConfigError for other text."""
    match = _PATTERN.fullmatch(text.strip())
    if (
        match is None
        or not 0 < float(match["number"]) < MAX_AMOUNT
        or (match["scale"] and match["unit"] in {"s", "m", "min", "h", "d"})
    ):
        fix = "Use 30m, 2h, 2e16flops, 50Mtokens or 5000steps"
        raise ConfigError(f"invalid budget {text!r}", key="budget", fix=fix)
    amount, unit = float(match["number"]) * _SCALES[match["scale"]], match["unit"]
    if unit in ("flops", "tokens", "steps"):
        return amount, unit
    return amount * _UNITS[unit[0]], "seconds"


def seconds_of(text: str | None) -> float | None:
    """Returns the seconds of a time budget; None if it is another one."""
    amount, unit = parse(text) if text is not None else (0.0, "")
    return amount if unit == "seconds" else None


def scaled(text: str, factor: float) -> str:
    """Returns a budget times `factor`, in the same unit; a time in whole seconds, minutes or hours."""
    amount, unit = parse(text)
    amount *= factor
    if unit != "seconds":
        return f"{amount:.2g}{unit}"
    name, size = next((each for each in (("h", 3600), ("m", 60)) if amount > 2 * each[1]), ("s", 1))
    return f"{math.ceil(amount / size)}{name}"


def steps_for(text: str, *, tokens_per_step: int, flops_per_step: float, seconds_per_step: float = 1) -> int:
    """Returns the number of updates that a budget pays for; ConfigError if it is none, or pays for none."""
    amount, unit = parse(text)
    costs = {"flops": flops_per_step, "tokens": tokens_per_step, "steps": 1.0, "seconds": seconds_per_step}
    if (steps := int(amount / costs[unit])) < 1:
        fix = "Use a larger budget or a smaller model"
        raise ConfigError(f"{text} is less than one update", key="budget", fix=fix)
    return steps


@dataclass
class Clock:
    """Estimates, through the whole run, how many updates fit into what is left of a time budget."""

    seconds: float
    began: float
    """When the command began, by the monotonic clock, minus what earlier processes spent on the run."""
    first_step: int
    """Of this process: its first update is slower than the others."""
    _updates: deque[tuple[float, ...]] = field(default_factory=deque, init=False)  # in the window
    _newest: tuple[float, ...] = field(default=(), init=False)
    _estimated: float = field(default=0.0, init=False)

    @property
    def spent(self) -> float:
        """Seconds of the budget that have passed."""
        return time.monotonic() - self.began

    def see(self, step: int, seconds: float) -> None:
        """Notes the seconds in updates so far; call it after every update."""
        before, self._newest = self._newest, ()
        if step > self.first_step:
            self._newest = (seconds, time.monotonic(), time.thread_time())
        if before:
            self._updates.append(tuple(new - old for new, old in zip(self._newest, before, strict=True)))
            while (
                len(self._updates) > MIN_UPDATES
                and sum(seconds for seconds, *_ in self._updates) > WINDOW * self.seconds + self._updates[0][0]
            ):
                self._updates.popleft()

    def total(self, step: int, total: int, reserve: float) -> int:
        """Returns a new total number of updates; 0 if it is not time for one, or if it is the old one.

        `step` are the finished ones, `total` is the last estimate, and `reserve` the seconds that evaluations
        and checkpoints will take. The slowest update in the window does not count. Saving at the end takes
        longer if the machine is busy: by as much as this thread takes longer than it computes.
        """
        spent = self.spent
        if not self._updates or step >= total or spent - self._estimated < self.seconds / ESTIMATES:
            return 0
        self._estimated = spent
        updates = sorted(self._updates)[: max(1, len(self._updates) - (len(self._updates) >= MIN_UPDATES))]
        seconds, wall, computed = (sum(column) for column in zip(*updates, strict=True))
        reserve += FINISH_SECONDS * min(20.0, max(1.0, wall / max(1e-9, computed)))
        left = (self.seconds - spent - reserve) / max(1e-9, seconds / len(updates))
        new = step + max(1, round(left))
        return new if 100 * abs(new - total) >= total - step else 0
