"""What this process may use of the machine."""

import importlib
import os
import sys
from importlib.metadata import version
from typing import Any, Literal

from electra.errors import ConfigError, ElectraError

Device = Literal["auto", "cpu", "cuda", "mps"]
MOST_THREADS = 1024  # with a million, threads cannot be started, and the process ends without a word
DISTRIBUTION = "electra-encoder"  # what the package index calls this package


def cores() -> int:
    """CPU cores, or those alone that this process is bound to (taskset, a batch system)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def usual_threads() -> int:
    """Threads that computing takes unless told otherwise: a core each, or what OMP_NUM_THREADS says."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores(), int(said)) if said.isdecimal() and int(said) > 0 else cores()


def launched() -> bool:
    """Whether this is one of several processes that a launcher started to share a training."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def versions(*libraries: str) -> dict[str, str]:
    """Those installed, of electra and of libraries, by name."""
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
    except ImportError:
        raise not_installed(top, extra, f"{what} need {top}" if what else "", error, **told) from None
    return sys.modules[top]


def not_installed(
    name: str | None, extra: str, what: str = "", error: type[ElectraError] = ConfigError, **told: Any
) -> ElectraError:
    """The error for a library that is not there."""
    fix = f"Install it: pip install '{DISTRIBUTION}[{extra}]'"
    return error(what or f"{name} is not installed", fix=fix, **told)
