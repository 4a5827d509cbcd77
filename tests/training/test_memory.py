"""Memory that training has freed goes back to the system now and then."""

from __future__ import annotations

import subprocess
import sys

import pytest

FILL = """
import torch
from electra.training import memory

def resident():
    [line] = [line for line in open("/proc/self/status") if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024

torch.set_num_threads(1)
blocks = [torch.ones(1 << 13) for _ in range(4000)]  # 125 MiB in pieces of 32 KiB, below what is mapped apart
kept = blocks[::50]
full = resident()
del blocks
memory.trim(memory.STEPS_BETWEEN_CALLS + 1)
before = resident()
memory.trim(memory.STEPS_BETWEEN_CALLS)
print(full - before, full - resident())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="glibc's heap")
def test_holes_in_the_heap_are_returned() -> None:
    ended = subprocess.run([sys.executable, "-c", FILL], capture_output=True, text=True, check=True)
    kept, returned = map(float, ended.stdout.split())
    assert returned > 90 > kept + 30
