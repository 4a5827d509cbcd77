"""The resources of this process: cores, memory, devices, launcher variables and optional libraries."""

import importlib
import importlib.util
import os
import resource
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, Literal

from electra.foundation.errors import ConfigError, ElectraError, out_of_memory

MAX_THREADS = 1024  # with a million, the process ends without a message
LAUNCHER_FIX = (
    "torchrun sets RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; for one process, unset them all"
)
DISTRIBUTION = "electra-encoder"  # the name of this package in the package index
Backend = Literal["torch", "onnx"]
Device = Literal["auto", "cpu", "cuda", "mps"]  # all but "auto" are keys of `DEVICES`


@dataclass(frozen=True, kw_only=True)
class OnThreads:
    """The option of every command that computes on the CPU; `foundation.threads` follows it."""

    HEADING: ClassVar[str] = "Device"

    threads: int | None = None
    """CPU threads of each process (default: OMP_NUM_THREADS, else the cores that no other program uses)."""


@dataclass(frozen=True, kw_only=True)
class OnDevice(OnThreads):
    """The device option of every command that computes."""

    HEADING: ClassVar[str] = "Device"

    device: Device = "auto"
    """Where to compute. auto: a CUDA GPU if there is one; mps: an Apple GPU."""


def _torch(path: str) -> Any:
    """Calls a function of torch, which is imported only then, so that `--help` stays quick."""
    return attrgetter(path)(importlib.import_module("torch"))()


@dataclass(frozen=True)
class DeviceKind:
    """The properties of a kind of accelerator; a row of `DEVICES`."""

    name: str  # in messages
    is_available: Callable[[], bool]
    has_bf16: Callable[[], bool]  # whether it computes in bf16 fast enough for bf16 to be the default
    has_compiler: Callable[[], bool]  # whether torch.compile finds the compiler that it needs
    flops: float  # a rough guess of its FLOPs per second, for estimates of how long a number of steps takes
    float64: bool = True  # whether it can compute in float64
    own_memory: bool = False  # whether weights, optimizer states and activations are not in main memory
    chunk: int = 1  # vocabulary logits to compute at a time, as a multiple of the number for a CPU
    wait: Callable[[], None] = lambda: None  # blocks until all its kernels have finished
    peak_memory: Callable[[], int] = lambda: (  # in bytes
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    )


DEVICES: dict[str, DeviceKind] = {
    "cpu": DeviceKind(
        "CPU",
        lambda: True,
        lambda: any(_torch(f"cpu._is_{kind}_supported") for kind in ("amx_tile", "avx512_bf16")),
        lambda: any(shutil.which(name) for name in (os.environ.get("CXX"), "g++", "clang++", "cl") if name),
        flops=1e11,
    ),
    "cuda": DeviceKind(
        "CUDA device",
        lambda: bool(_torch("cuda.is_available")),
        lambda: bool(_torch("cuda.is_bf16_supported")),
        lambda: importlib.util.find_spec("triton") is not None,
        flops=1e14,
        own_memory=True,
        chunk=32,
        wait=lambda: _torch("cuda.synchronize"),
        peak_memory=lambda: int(_torch("cuda.max_memory_allocated")),
    ),
    "mps": DeviceKind(
        "Apple GPU",
        lambda: bool(_torch("backends.mps.is_available")),
        lambda: False,
        lambda: False,
        flops=1e12,
        float64=False,
        chunk=32,
        wait=lambda: _torch("mps.synchronize"),
    ),
}


def cores() -> int:
    """Returns the number of CPU cores that this process may use: affinity and a container's limit count."""
    from joblib import cpu_count

    return int(cpu_count())


def memory() -> int | None:
    """Returns the size of main memory in bytes, or the container's limit if it is lower; None if unknown."""
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            size = min(size, int(Path(limit).read_text(encoding="ascii")))
        except (OSError, ValueError):  # no such group, or "max"
            continue
    return size


def is_distributed() -> bool:
    """Whether a launcher started this process as one of several. Raises ConfigError for a bad WORLD_SIZE."""
    return launch_variable("WORLD_SIZE", 1) > 1


def launch_variable(name: str, default: int | None = None) -> int:
    """Returns WORLD_SIZE, RANK or LOCAL_RANK of a launcher; ConfigError if it is missing or no number."""
    text = os.environ.get(name, "" if default is None else str(default))
    if not text.isdecimal() or (name == "WORLD_SIZE" and not int(text)):
        problem = f"{text!r} is not a valid number" if text else "not set, though WORLD_SIZE is"
        raise ConfigError(problem, where=name, fix=LAUNCHER_FIX)
    return int(text)


def versions(*libraries: str) -> dict[str, str]:
    """Returns the installed versions of the named distributions; "electra" is this package."""
    from importlib.metadata import version

    return {name: version(DISTRIBUTION if name == "electra" else name) for name in libraries}


def library(name: str, extra: str, what: str = "", error: type[ElectraError] = ConfigError, **location: Any) -> Any:
    """Imports an optional library, such as "pyarrow.parquet", and returns its top-level module.

    If it is not installed, raises `error` (with `where` or `key` in `location`), which names the `extra` of
    this package that installs it and, as a plural noun ("parquet files"), `what` needs it.
    """
    top_module = name.partition(".")[0]
    try:
        importlib.import_module(name)
    except ImportError as missing:
        if out_of_memory(missing):
            raise
        need = f"{what} need {top_module}" if what else ""
        raise not_installed(top_module, extra, need, error, **location) from None
    return sys.modules[top_module]


def not_installed(
    name: str | None, extra: str, what: str = "", error: type[ElectraError] = ConfigError, **location: Any
) -> ElectraError:
    """Returns the error for a library that is not installed; `what` replaces its first part."""
    fix = f"Install it, in a clone of electra: pip install '.[{extra}]'"
    return error(what or f"{name} is not installed", fix=fix, **location)
