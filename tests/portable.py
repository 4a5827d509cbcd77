"""The numerical tests under each instruction set that torch can be held to, and with several threads.

    python tests/portable.py [pytest's options]         make test-portable

Each instruction set with one thread, the processor's own with two and four besides: threads only cut the sums
at other places. A tolerance must follow from the arithmetic (what is float32, how many terms are added), not
from one machine.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

# Tests that compare numbers which two ways of computing may round differently
NUMERICAL = ["model", "objectives", "golden", "training/test_optimizer.py", "training/test_reduction.py"]
NUMERICAL += ["analysis/scoring", "analysis/representations", "interop/test_huggingface.py"]
NEEDS = {"default": "", "avx2": "avx2", "avx512": "avx512f"}  # ATEN_CPU_CAPABILITY -> the processor's flag


def capabilities() -> list[str]:
    """Those of this processor, its own last; elsewhere than on x86 there is one."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return ["default"]
    flags = Path("/proc/cpuinfo").read_text().split() if Path("/proc/cpuinfo").exists() else []
    return [name for name, flag in NEEDS.items() if not flag or flag in flags]


def main(options: list[str]) -> int:
    folder, failed, own = Path(__file__).parent, 0, capabilities()
    for capability, threads in [*((one, 1) for one in own), (own[-1], 2), (own[-1], 4)]:
        setting = {"ATEN_CPU_CAPABILITY": capability, "OMP_NUM_THREADS": str(threads)}
        tests = [str(folder / name) for name in NUMERICAL]
        command = [sys.executable, "-m", "pytest", "-q", "-m", "not reliability and not cuda", *tests]
        began = time.monotonic()
        ended = subprocess.run(
            [*command, *options], env=os.environ | setting, capture_output=True, text=True, check=False
        )
        lines = [line for line in ended.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        last = (ended.stdout.strip().splitlines() or [ended.stderr.strip()[-200:]])[-1]
        took = f"{(time.monotonic() - began) / 60:.0f} min"
        told = last if ended.returncode else "passed"
        print(f"{capability}, {threads} thread{'s' if threads > 1 else ''}: {told}, {took}", flush=True)
        print("".join(f"  {line}\n" for line in lines), end="", flush=True)
        failed += ended.returncode != 0
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
