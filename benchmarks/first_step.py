"""From the command to the first finished training step, its loss on disk: seconds by the clock, and of the
processor (Linux).

    python benchmarks/first_step.py STORE [--rounds 3] [PRETRAIN OPTIONS ...]     # for example --recipe
    budget-tiny

The first evaluation, before any training, is part of it, as it is of every run.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from contest import electra

from electra.artifacts import RunFolder


def first_step(store: str, options: list[str]) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = electra(
            "pretrain",
            "--store",
            store,
            "--out",
            out,
            "--budget",
            "100000steps",
            "--training.log-every",
            1,
            *options,
        )
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            while not RunFolder(out).ledger().of("train"):
                if process.poll() is not None:
                    raise SystemExit("the run ended before its first step")
                time.sleep(0.02)
            return time.perf_counter() - began, processor_seconds(process.pid)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()


def processor_seconds(pid: int) -> float:
    """Of user and system, all threads, from /proc (fields 14 and 15, counted after the name in brackets)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("store")
    parser.add_argument("--rounds", type=int, default=3)
    arguments, options = parser.parse_known_args()
    turns = [first_step(arguments.store, options) for _ in range(arguments.rounds)]
    wall, processor = (statistics.median(column) for column in zip(*turns, strict=True))
    print(
        json.dumps(
            {
                "seconds": round(wall, 2),
                "processor_seconds": round(processor, 2),
                "rounds": arguments.rounds,
                "options": options,
            }
        )
    )


if __name__ == "__main__":
    main()
