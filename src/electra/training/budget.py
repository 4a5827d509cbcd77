"""Converts a budget of time, FLOPs, tokens or steps into a number of updates.

How many updates fit into a time is measured before a run starts, and again through the whole run, because a
machine may become slower or faster at any time: see `Clock`. Each estimate is recorded with the step from
which it holds, so that resumed and replayed runs use the same numbers: see `schedule.Course`.
"""

from __future__ import annotations

import math
import re
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from electra.foundation.errors import ConfigError

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SCALES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}
MAX_AMOUNT = 1e30  # more than any real budget
_PATTERN = re.compile(
    r"(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(?P<scale>[kMGBT]?)(?P<unit>s|m|min|h|d|flops|tokens|steps)",
    re.ASCII,
)
ESTIMATES = 100  # of a time budget, at most
WINDOW = 0.03  # of a time budget: the pace is that of the updates in it
MIN_UPDATES = 3  # in the window, at least
FINISH_SECONDS = 2.5  # of one core, for examples and report


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


def seconds_of(text: str | None) -> float | None:
    """Returns the seconds of a time budget; None if it is another one."""
    amount, unit = parse(text) if text is not None else (0.0, "")
    return amount if unit == "seconds" else None


def scaled(text: str, factor: float) -> str:
    """Returns a budget times `factor`, in the same unit and rounded up to two digits."""
    amount, unit = parse(text)
    units = (
        [("d", 86400.0), ("h", 3600.0), ("m", 60.0), ("s", 1.0)]
        if unit == "seconds"
        else [(f"{scale}{unit}", _SCALES[scale]) for scale in ("G", "M", "k", "")]
    )
    amount *= factor
    name, size = next((each for each in units if amount >= 2 * each[1]), units[-1])
    digits = 10.0 ** max(0, math.floor(math.log10(amount / size)) - 1)
    return f"{math.ceil(amount / size / digits) * digits:g}{name}"


def steps_for(
    text: str, *, tokens_per_step: int, flops_per_step: float, seconds_per_step: float = 1.0
) -> int:
    """Returns the number of updates that a budget pays for.

    Raises:
        ConfigError: if the text is not a budget, or pays for less than one update.
    """
    amount, unit = parse(text)
    costs = {"flops": flops_per_step, "tokens": tokens_per_step, "steps": 1.0, "seconds": seconds_per_step}
    if (steps := int(amount / costs[unit])) < 1:
        raise ConfigError(
            f"{text} is less than one update", key="budget", fix="Use a larger budget or a smaller model"
        )
    return steps


@dataclass
class Clock:
    """Estimates, through the whole run, how many updates fit into what is left of a time budget."""

    seconds: float
    began: float
    """When the command began, by the monotonic clock, minus what earlier processes spent on the run."""
    first_step: int
    """Of this process: its first update is slower than the others."""
    _updates: deque[tuple[float, float, float]] = field(default_factory=deque, init=False)
    _newest: tuple[float, ...] = field(default=(), init=False)
    _phase: int = field(default=0, init=False)
    _estimated: float = field(default=0.0, init=False)

    @property
    def spent(self) -> float:
        """Seconds of the budget that have passed."""
        return time.monotonic() - self.began

    def see(self, step: int, seconds: float, phase: int) -> None:
        """Notes the time in updates so far; call it after every update. A new phase has another pace."""
        if phase != self._phase:
            self._updates.clear()
            self._newest = ()
        now = (step, seconds, time.monotonic(), time.thread_time())
        if self._newest and self._newest[0] < step:
            _, *times = (new - old for new, old in zip(now, self._newest, strict=True))
            self._updates.append((times[0], times[1], times[2]))
            while len(self._updates) > MIN_UPDATES and self._sum(1) > WINDOW * self.seconds:
                self._updates.popleft()
        self._phase = phase
        self._newest = now if step > self.first_step else ()

    def _sum(self, first: int) -> float:
        return sum(seconds for seconds, _, _ in [*self._updates][first:])

    def recent(self) -> tuple[float, float]:
        """Returns the recent seconds per update, and how many times longer than its work this thread takes.

        The slowest of the updates is not counted. Before they are known, they are 0 and 1.
        """
        updates = sorted(self._updates)[: max(1, len(self._updates) - (len(self._updates) >= MIN_UPDATES))]
        if not updates:
            return 0.0, 1.0
        seconds, wall, computed = (sum(column) for column in zip(*updates, strict=True))
        return seconds / len(updates), min(20.0, max(1.0, wall / max(1e-9, computed)))

    def total(self, step: int, total: int, parts: Sequence[tuple[float, float]], reserve: float) -> int:
        """Returns a new total number of updates; 0 if it is not time for one, or if it is the old one.

        Args:
            step: Finished updates.
            total: Their total number, by the last estimate.
            parts: For the current phase and those to come, what is left on the course, and the seconds of an
                update relative to those of the current phase.
            reserve: The seconds that evaluations and checkpoints will take, and saving at the end.
        """
        spent, (pace, busy) = self.spent, self.recent()
        if not pace or step >= total or spent - self._estimated < self.seconds / ESTIMATES:
            return 0
        self._estimated = spent
        reserve += busy * FINISH_SECONDS
        left, cost = sum(size for size, _ in parts), sum(size * relative for size, relative in parts)
        updates = (self.seconds - spent - reserve) / pace * left / max(cost, 1e-9)
        new = step + max(1, round(updates))
        return new if 100 * abs(new - total) >= total - step else 0
