"""The one policy for the number of CPU threads, of every command and every library that computes.

Threads that share an operation wait for each other many times. If another program uses a core, or if a
container's limit is below their number, waiting costs more than sharing gains, and one thread can be ten
times as fast as two. So only a training and linear algebra share operations. Their number is, in this order:
what the user passed, OMP_NUM_THREADS, what a resumed run recorded (threads change the order of sums), or the
number of cores that other programs leave free. Where a model is applied, each thread computes batches of its
own (model/passes.py), and by default there is one for every core, whatever other programs do.
"""

import ctypes
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from electra.foundation import machine
from electra.foundation.errors import ConfigError

SHORTEST, LONGEST = 0.1, 10.0  # seconds over which the load of the cores is averaged
M_ARENA_MAX = -8  # of glibc's mallopt
PART = 0.7  # a core counts as free if this part of it is
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")  # of torch, BLAS, tokenizers
STAT, AUTOGROUP = Path("/proc/stat"), Path("/proc/sys/kernel/sched_autogroup_enabled")
_ours: dict[str, str] = {}  # the values of VARIABLES that `use` set
_users: dict[str, str | None] = {}  # those that they had before
_apart: int | None = None  # the threads that compute batches of their own, in a command that applies a model
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
        # Niced programs make room, unless this one is niced or the scheduler treats all sessions alike.
        by_session = AUTOGROUP.is_file() and AUTOGROUP.read_text(encoding="ascii").strip() != "0"
        counts_niced = by_session or os.getpriority(os.PRIO_PROCESS, 0) > 0
        for line in STAT.read_text(encoding="ascii").splitlines():
            name, *counts = line.split()
            if name.startswith("cpu") and name[3:].isdecimal() and int(name[3:]) in allowed:
                user, nice, system, _, _, irq, softirq, steal, *_ = map(int, counts)
                ticks += user + nice * counts_niced + system + irq + softirq + steal
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
    used, used_before = now.cores, before.cores
    if is_limited:
        used, used_before = now.container, before.container
    others = os.getloadavg()[0]
    if used is not None and used_before is not None:
        others = (used - used_before - (now.own - before.own)) / (now.at - before.at)
    return min(cores, max(1, int(cores - max(0.0, others) + 1 - PART)))


def given() -> int | None:
    """Returns the user's OMP_NUM_THREADS, or None."""
    count = os.environ.get("OMP_NUM_THREADS")
    if count is not None and count == _ours.get("OMP_NUM_THREADS"):
        count = _users.get("OMP_NUM_THREADS")
    return int(count) if count and count.isdecimal() and int(count) > 0 else None


@cache
def _share_heap() -> None:
    """Makes threads reuse what others free: with heaps of their own, fine-tuning's peak was 25 % higher."""
    with suppress(AttributeError, OSError):  # not glibc
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


def give_back_memory() -> None:
    """Returns freed memory to the system, which what comes next may not fit into."""
    with suppress(AttributeError, OSError, TypeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)


def use(threads: int, torch_threads: int | None = None) -> None:
    """Makes BLAS and tokenizers compute with this many threads, loaded or not, and torch with as many.

    `torch_threads`: another number for torch.
    """
    _share_heap()
    counts = torch_threads or threads, threads, threads
    for name, count in zip(VARIABLES, counts, strict=True):  # read by libraries that are loaded later
        if (value := os.environ.get(name)) is None or value != _ours.get(name):
            _users[name] = value
        if name == "OMP_NUM_THREADS" or not _users.get(name):
            os.environ[name] = _ours[name] = str(count)
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(torch_threads or threads)
    if "numpy" in sys.modules:
        from threadpoolctl import threadpool_limits

        threadpool_limits(threads, "blas")


@contextmanager
def applied(requested: int | None) -> Iterator[None]:
    """Follows the policy in the block: `requested` threads, or by default OMP_NUM_THREADS or the free cores.

    Afterwards the libraries have as many as before. Raises ConfigError for an impossible number.
    """
    global _apart, _inside
    if requested is not None and not 1 <= requested <= machine.MAX_THREADS:
        raise ConfigError(f"must be from 1 to {machine.MAX_THREADS}, not {requested}", key="threads")
    if _inside:
        yield
        return
    torch = sys.modules.get("torch")
    before = machine.cores() if torch is None else torch.get_num_threads()
    _apart, _inside = requested or given() or machine.cores(), True
    use(requested or given() or free_cores(), torch_threads=1)
    try:
        yield
    finally:
        _apart, _inside = None, False
        use(before)
        for name, value in _users.items():
            os.environ.pop(name, "") if value is None else os.environ.update({name: value})
        _ours.clear()
        _users.clear()


@contextmanager
def one_thread() -> Iterator[None]:
    """Lets torch and BLAS compute with one thread: where both share small operations, each waits for the other."""
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1, "blas"):
            yield
    finally:
        torch.set_num_threads(before)


def workers() -> int:
    """Returns how many threads may compute side by side without waiting for each other, at least 1."""
    torch = sys.modules.get("torch")
    return _apart or (machine.cores() if torch is None else torch.get_num_threads())


def set_threads(requested: int | None, recorded: int | None = None) -> None:
    """Sets the number of threads of a training: requested, from OMP_NUM_THREADS, recorded, or the free cores.

    It stays so until the end, because the order of sums depends on it.
    """
    global _apart  # noqa: PLW0603
    _apart = None
    use(requested or given() or recorded or free_cores())
