"""Returns freed memory to the system.

The number of masked slots changes from step to step, so the C library's heap fills with holes of every size,
which it keeps. Without this, the memory of a long run on a CPU grows to a multiple of what its first steps
take.
"""

from __future__ import annotations

import ctypes

EVERY = 100  # steps; allocating the returned memory again costs a tenth of a second


def trim(step: int) -> None:
    """Returns unused heap memory to the system, every 100 steps and if the C library can (glibc)."""
    if step % EVERY:
        return
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        return
