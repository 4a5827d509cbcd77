"""The numerical tests under each instruction set that torch can be held to, and one to four threads.

    python tests/portable.py [pytest's options]         make test-portable

A tolerance must follow from the arithmetic (what is float32, how many terms are added), not from one machine.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

NUMERICAL = ["model", "objectives", "golden", "analysis", "training/test_optimizer.py"]
NUMERICAL += ["training/test_reduction.py", "training/test_compilation.py", "training/test_draws.py"]
NEEDS = {"default": "", "avx2": "avx2", "avx512": "avx512f"}  # ATEN_CPU_CAPABILITY -> the processor's flag


def capabilities() -> list[str]:
    """Those of this processor; elsewhere than on x86 there is one."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return ["default"]
    flags = Path("/proc/cpuinfo").read_text().split() if Path("/proc/cpuinfo").exists() else []
    return [name for name, flag in NEEDS.items() if not flag or flag in flags]


def main(options: list[str]) -> int:
    folder, failed = Path(__file__).parent, []
    for capability in capabilities():
        for threads in range(1, 5):
            setting = {"ATEN_CPU_CAPABILITY": capability, "OMP_NUM_THREADS": str(threads)}
            tests = [str(folder / name) for name in NUMERICAL]
            command = [sys.executable, "-m", "pytest", "-q", "-m", "not reliability and not cuda", *tests]
            ended = subprocess.run(
                [*command, *options], env=os.environ | setting, capture_output=True, text=True, check=False
            )
            lines = [line for line in ended.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
            last = (ended.stdout.strip().splitlines() or [ended.stderr.strip()[-200:]])[-1]
            print(f"{capability}, {threads} threads: {last if ended.returncode else 'passed'}", flush=True)
            print("".join(f"  {line}\n" for line in lines), end="", flush=True)
            failed += [setting] if ended.returncode else []
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
