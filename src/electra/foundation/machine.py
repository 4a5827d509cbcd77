"""What this process may use of the machine."""

import importlib
import importlib.util
import os
import resource
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal

from electra.foundation.errors import ConfigError, ElectraError, out_of_memory

MOST_THREADS = 1024  # with a million, threads cannot be started, and the process ends without a word
LAUNCHED = "torchrun and --processes set RANK, LOCAL_RANK and WORLD_SIZE; for one process, unset all three"
DISTRIBUTION = "electra-encoder"  # what the package index calls this package
Device = Literal["auto", "cpu", "cuda", "mps"]  # each but the first has its row in `DEVICES`


@dataclass(frozen=True, kw_only=True)
class OnDevice:
    """Where it runs."""

    HEADING: ClassVar[str] = "Where it runs"

    device: Device = "auto"
    """Where to compute (auto: a CUDA GPU when there is one; mps: an Apple GPU)."""


def _of_torch(path: str) -> Callable[[], Any]:
    """A function of torch, which is imported when that is called: every `--help` needs the names alone."""

    def call() -> Any:
        return attrgetter(path)(importlib.import_module("torch"))()

    return call


def _cpu_has_bf16() -> bool:
    return any(_of_torch(f"cpu._is_{kind}_supported")() for kind in ("amx_tile", "avx512_bf16"))


def _has_cpp_compiler() -> bool:
    return any(shutil.which(name) for name in (os.environ.get("CXX"), "g++", "clang++", "cl") if name)


def _peak_of_process() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


@dataclass(frozen=True)
class DeviceKind:
    what: str
    is_there: Callable[[], bool]
    has_bf16: Callable[[], bool]
    """Whether bf16 is the format to choose."""
    has_compiler: Callable[[], bool]
    """Whether torch finds what makes kernels of layers."""
    flops: float
    """A second, roughly: how long a budget of steps may last."""
    float64: bool = True
    own_memory: bool = False
    """Weights, moments and passes lie in a memory of its own."""
    chunk: int = 1
    """How much more of the vocabulary it takes at once than the caches of a CPU hold."""
    wait: Callable[[], None] = lambda: None
    """Until its kernels have ended."""
    peak_memory: Callable[[], int] = _peak_of_process


DEVICES: dict[str, DeviceKind] = {
    "cpu": DeviceKind("CPU", lambda: True, _cpu_has_bf16, _has_cpp_compiler, flops=1e11),
    "cuda": DeviceKind(
        "CUDA device",
        _of_torch("cuda.is_available"),
        _of_torch("cuda.is_bf16_supported"),
        lambda: importlib.util.find_spec("triton") is not None,
        flops=1e14,
        own_memory=True,
        chunk=32,
        wait=_of_torch("cuda.synchronize"),
        peak_memory=_of_torch("cuda.max_memory_allocated"),
    ),
    "mps": DeviceKind(
        "Apple GPU",
        _of_torch("backends.mps.is_available"),
        lambda: False,
        lambda: False,
        flops=1e12,
        float64=False,
        chunk=32,
        wait=_of_torch("mps.synchronize"),
    ),
}


def cores() -> int:
    """CPU cores that this process may use: those it is bound to (taskset, a batch system), and no more than
    its control group is allowed the time of (a container's CPU limit).
    """
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, int(min(bound, cpu_quota())))


def cpu_quota(root: Path = Path("/")) -> float:
    """Cores whose time the control groups of this process may use, of either version; infinite where there is
    no limit.
    """
    groups, least = root / "sys/fs/cgroup", float("inf")
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return least
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        for mount in {groups / controllers, groups / "cpu"} if controllers else {groups, groups / "unified"}:
            group = PurePosixPath("/", path).relative_to(
                "/"
            )  # in a container, the mount may be the group itself
            for folder in (mount / group, *(mount / parent for parent in group.parents)):
                least = min(least, _quota_of(folder))
    return least


def _quota_of(group: Path) -> float:
    for names in (["cpu.max"], ["cpu.cfs_quota_us", "cpu.cfs_period_us"]):
        try:
            quota, period = " ".join((group / name).read_text() for name in names).split()
            if quota.isdecimal() and int(period) > 0:  # neither "max" nor -1
                return int(quota) / int(period)
        except (OSError, ValueError):
            continue
    return float("inf")


def memory() -> int | None:
    """Bytes of main memory that this machine has, or its container may use; None: not known here."""
    try:
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            found = min(found, int(Path(limit).read_text(encoding="ascii")))
        except (OSError, ValueError):  # no such group, or "max"
            continue
    return found


def usual_threads() -> int:
    """Threads that computing takes unless told otherwise: a core each, or what OMP_NUM_THREADS says."""
    return min(cores(), int(os.environ["OMP_NUM_THREADS"])) if threads_are_chosen() else cores()


def threads_are_chosen() -> bool:
    """Whether OMP_NUM_THREADS says how many threads to take, which torch follows by itself."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    return said.isdecimal() and int(said) > 0


def launched() -> bool:
    """Whether this is one of several processes that a launcher started to share a training."""
    return place("WORLD_SIZE", 1) > 1


def place(name: str, default: int | None = None) -> int:
    """WORLD_SIZE, RANK or LOCAL_RANK, as a launcher sets them; raises ConfigError where it is no number."""
    text = os.environ.get(name, "" if default is None else str(default))
    if not text.isdecimal() or (name == "WORLD_SIZE" and not int(text)):
        what = f"{text!r} is not a number of processes" if text else "not set, though WORLD_SIZE is"
        raise ConfigError(what, where=name, fix=LAUNCHED)
    return int(text)


def versions(*libraries: str) -> dict[str, str]:
    """Those installed, of electra and of libraries, by name."""
    from importlib.metadata import version

    return {name: version(DISTRIBUTION if name == "electra" else name) for name in libraries}


def library(
    name: str, extra: str, what: str = "", error: type[ElectraError] = ConfigError, **told: Any
) -> Any:
    """A library that not everybody has, imported with its part `name` ("pyarrow.parquet"), or the error that
    says which extra of ours brings it; what: "parquet files", which need it; told: `where`, `key`.
    """
    top = name.partition(".")[0]
    try:
        importlib.import_module(name)
    except ImportError as missing:
        if out_of_memory(missing):
            raise
        raise not_installed(top, extra, f"{what} need {top}" if what else "", error, **told) from None
    return sys.modules[top]


def not_installed(
    name: str | None, extra: str, what: str = "", error: type[ElectraError] = ConfigError, **told: Any
) -> ElectraError:
    """The error for a library that is not there."""
    fix = f"Install it: pip install '{DISTRIBUTION}[{extra}]'"
    return error(what or f"{name} is not installed", fix=fix, **told)
