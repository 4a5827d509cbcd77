"""Giving freed memory back to the system.

The number of masked slots changes from step to step, so the C library's heap fills with holes of every size,
which it keeps: without this, the memory of a long run on a CPU grows to a multiple of what its first steps
took.
"""

from __future__ import annotations

import ctypes

EVERY = 100  # steps: what is given back must be fetched anew, which costs a tenth of a second


def trim(step: int) -> None:
    """Now and then return the heap's holes to the system, where the C library can (glibc)."""
    if step % EVERY:
        return
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        return
