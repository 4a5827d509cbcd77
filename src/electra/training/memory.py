"""Returns freed memory to the system.

The number of masked slots changes from step to step, so the C library's heap fills with unused blocks of
every size, which the library keeps. On a CPU, the memory of a long run would grow to a multiple of what its
first steps need.
"""

from __future__ import annotations

import ctypes

EVERY = 100  # steps between calls; allocating the memory again costs a tenth of a second


def trim(step: int) -> None:
    """Returns unused heap memory to the system, every 100 steps, if the C library supports it (glibc)."""
    if step % EVERY:
        return
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        return
