"""How functions report their work: lines that stay, and progress, which the next report replaces.

Whoever takes long says so with `doing`, at any depth: the open display shows it. Folders record
`running_command`.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

Say = Callable[[str], None]  # prints a line that stays
# Shows the current activity and the fraction of it that is done, from 0 to 1 (None: unknown)
Progress = Callable[[str, float | None], None]
# Returns the shell line of the command that is at work; empty if none is
running_command: ContextVar[Callable[[], str]] = ContextVar("running_command", default=str)
displays: list[Progress] = []  # of the displays that are open, the innermost last


_counted: list[Any] = ["", 0.0, 0.0]  # the activity, how many of its parts are done, and all (0: unknown)


def doing(activity: str, share: float | None = None) -> None:
    """Shows what is being done now ("": nothing any more) in the innermost open display, if there is one."""
    _counted[:] = [activity, 0.0, 0.0]
    if displays:
        displays[-1](activity, share)


def expect(parts: float) -> None:
    """Says that what is being done has so many equal parts, which `advance` counts."""
    _counted[1:] = [0.0, parts]


def advance(parts: float = 1) -> None:
    """Shows that more parts are done, if it is known how many there are."""
    activity, done, total = _counted
    _counted[1] = done = done + parts
    if total and displays:
        displays[-1](activity, min(1.0, done / total))


def quiet(line: str) -> None:
    """Prints nothing; the default of library functions."""


def no_progress(activity: str, share: float | None) -> None:
    """Shows no progress; the default of library functions."""


def clock(seconds: float) -> str:
    """Formats a time such as 5m07s or 1h20m."""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{seconds:02d}s"


def time_left(seconds: float) -> str:
    """Formats the time that is left, such as "5m07s left" or "1h20m left"."""
    return f"{clock(seconds)} left"


def duration(seconds: float) -> str:
    """Formats a time in the unit that fits: 90 s, 12 min, 2.5 h, 3.1 days."""
    for limit, unit, size in ((120, "s", 1), (7200, "min", 60), (172_800, "h", 3600)):
        if seconds < limit:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 86_400:.3g} days"
