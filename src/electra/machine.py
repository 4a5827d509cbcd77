"""What this process may use of the machine."""

import os
from importlib.metadata import version

DISTRIBUTION = "electra-encoder"  # what the package index calls this package


def cores() -> int:
    """CPU cores, those alone that this process is bound to where it is bound to some (taskset, a batch
    system).
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def launched() -> bool:
    """Whether this is one of several processes that a launcher started to share a training."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def versions(*libraries: str) -> dict[str, str]:
    """Those installed, of electra and of libraries, by name."""
    return {name: version(DISTRIBUTION if name == "electra" else name) for name in libraries}
