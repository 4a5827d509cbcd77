"""What a function tells while it works: lines that stay, and progress, which the next call replaces."""

from __future__ import annotations

from collections.abc import Callable

Say = Callable[[str], None]
"""A line that stays to be read."""
Progress = Callable[[str, float | None], None]
"""What is being done now, and the share of it that is done, from 0 to 1 (None: not known)."""
Share = Callable[[float], None]
"""The share that is done of something that has been named."""


def quiet(line: str) -> None:
    """Says nothing: the default of library functions."""


def unseen(what: str, share: float | None) -> None:
    """Shows no progress: the default of library functions."""


def unshared(share: float) -> None:
    """The same, of a share."""


def part(progress: Progress, what: str, number: int, count: int) -> Share:
    """Progress of part `number` of `count` equal parts, under the name `what`."""
    return lambda share: progress(what, (number + share) / count)


def within(progress: Progress, start: float, end: float) -> Progress:
    """Progress of what lies between two shares of the whole."""
    return lambda what, share: progress(what, None if share is None else start + (end - start) * share)
