"""Returns freed memory to the system.

The number of masked positions changes from step to step, so the C library's heap fills with unused blocks of
every size, which the library keeps. On a CPU, the memory of a long run would grow to a multiple of what its
first steps need.
"""

from __future__ import annotations

import ctypes

STEPS_BETWEEN_CALLS = 100  # allocating the memory again costs a tenth of a second


def trim(step: int) -> None:
    """Returns unused heap memory to the system if the C library supports it (glibc).

    Does nothing unless `step` is a multiple of `STEPS_BETWEEN_CALLS`.
    """
    if step % STEPS_BETWEEN_CALLS:
        return
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        return
