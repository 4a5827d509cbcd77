"""The one policy for the number of CPU threads, of every command and every library that computes.

Threads wait for each other many times per operation. If another program uses a core, or if a container's
limit is below their number, waiting costs more than sharing the work gains, and one thread can be ten times
as fast as two. So the number is, in this order: what the user passed, OMP_NUM_THREADS, what a resumed run
recorded (threads change the order of sums), or the number of cores that other programs leave free. Commands
that apply a model count them again sometimes; a training keeps its number. Batches that threads compute one
by one (model/passes.py) need not wait: for them every core counts.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from electra.foundation import machine
from electra.foundation.errors import ConfigError

SHORTEST, LONGEST = 0.1, 10.0  # seconds over which the load of the cores is averaged
FOLLOW_SECONDS = 2.0  # between two counts of the free cores
PART = 0.7  # a core counts as free if this part of it is
VARIABLES = ("OMP_NUM_THREADS", "RAYON_NUM_THREADS")  # of OpenMP and BLAS; of tokenizers
_ours: dict[str, str] = {}  # the values of VARIABLES that `use` set
_follows = False  # whether `follow` may change the number
_inside = False  # a command


class _Load(NamedTuple):
    at: float  # seconds of a monotonic clock
    own: float  # CPU seconds of this process
    cores: float | None  # of all programs on the cores that this process may use; None if unknown
    container: float | None  # of all programs in this container; None outside of one


def _load() -> _Load:
    cores = container = None
    with suppress(OSError, ValueError, AttributeError):  # not on Linux, or hidden
        allowed, ticks = os.sched_getaffinity(0), 0
        is_polite = os.getpriority(os.PRIO_PROCESS, 0) > 0  # otherwise, niced programs make room
        for line in Path("/proc/stat").read_text(encoding="ascii").splitlines():
            name, *counts = line.split()
            if name.startswith("cpu") and name[3:].isdecimal() and int(name[3:]) in allowed:
                user, nice, system, _, _, irq, softirq, steal, *_ = map(int, counts)
                ticks += user + nice * is_polite + system + irq + softirq + steal
        cores = ticks / os.sysconf("SC_CLK_TCK")
    with suppress(OSError, ValueError):
        usage = Path("/sys/fs/cgroup/cpu.stat").read_text(encoding="ascii").split()
        container = int(usage[usage.index("usage_usec") + 1]) / 1e6
    return _Load(time.monotonic(), time.process_time(), cores, container)


_last = _load()  # the import of a command takes long enough to be the first interval


def free_cores() -> int:
    """Returns how many cores other programs leave to this process, at least 1.

    Takes no longer than a tenth of a second, and usually no time: the load is averaged since the last call.
    """
    global _last  # noqa: PLW0603
    if (cores := machine.cores()) == 1:
        return 1
    if (now := _load()).at - _last.at > LONGEST:
        _last = now
    if (missing := SHORTEST - (now.at - _last.at)) > 0:
        time.sleep(missing)
        now = _load()
    before, _last = _last, now
    # Under a container's limit, the programs in it share what the limit allows.
    is_limited = now.container is not None and cores < len(os.sched_getaffinity(0))
    used, used_before = (each.container if is_limited else each.cores for each in (now, before))
    others = os.getloadavg()[0]
    if used is not None and used_before is not None:
        others = (used - used_before - (now.own - before.own)) / (now.at - before.at)
    return min(cores, max(1, int(cores - max(0.0, others) + 1 - PART)))


def are_set() -> bool:
    """Whether the user set OMP_NUM_THREADS; torch and BLAS obey it by themselves."""
    count = os.environ.get("OMP_NUM_THREADS", "")
    return count.isdecimal() and int(count) > 0 and count != _ours.get("OMP_NUM_THREADS")


def use(threads: int) -> None:
    """Makes torch, BLAS and tokenizers compute with this many threads, whether or not they are loaded yet."""
    for name in VARIABLES:  # read by libraries that are loaded later
        if os.environ.get(name) == _ours.get(name) or name == "OMP_NUM_THREADS":
            os.environ[name] = _ours[name] = str(threads)
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(threads)
    if "numpy" in sys.modules:
        from threadpoolctl import threadpool_limits

        threadpool_limits(threads, "blas")


@contextmanager
def applied(requested: int | None) -> Iterator[None]:
    """Follows the policy in the block: `requested` threads, or by default OMP_NUM_THREADS or the free cores.

    Afterwards the libraries have as many as before. Raises ConfigError for an impossible number.
    """
    global _follows, _inside  # noqa: PLW0603
    if requested is not None and not 1 <= requested <= machine.MAX_THREADS:
        raise ConfigError(f"must be from 1 to {machine.MAX_THREADS}, not {requested}", key="threads")
    if _inside or (requested is None and are_set()):
        yield
        return
    outer, torch = {name: os.environ.get(name) for name in VARIABLES}, sys.modules.get("torch")
    before = machine.cores() if torch is None else torch.get_num_threads()
    _follows, _inside = requested is None, True
    use(requested or free_cores())
    try:
        yield
    finally:
        _follows = _inside = False
        use(before)
        for name, value in outer.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        _ours.clear()


def follow() -> None:
    """Counts the free cores again if that was a while ago; to be called between batches.

    Does nothing if the number was passed, set or recorded, or in a training.
    """
    is_due = _follows and time.monotonic() - _last.at > FOLLOW_SECONDS
    if is_due and str(threads := free_cores()) != _ours.get("OMP_NUM_THREADS"):
        use(threads)


def workers() -> int:
    """Returns how many threads may compute side by side that do not wait for each other, at least 1."""
    torch = sys.modules.get("torch")
    return machine.cores() if _follows or torch is None else torch.get_num_threads()


def set_threads(requested: int | None, recorded: int | None = None) -> None:
    """Sets the number of threads of a training: requested, from OMP_NUM_THREADS, recorded, or the free cores.

    It stays so until the end, because the order of sums depends on it.
    """
    global _follows  # noqa: PLW0603
    _follows = False
    if requested or not are_set():
        use(requested or recorded or free_cores())
