"""Asks for several budgets of time, and prints what was spent from the command's start to the saved model.

    python benchmarks/budgets.py STORE [--budgets 30s 2m 5m] [--busy N]

With --busy N, N processes compute all the time; with --change, they compute in every second half minute.
"""

from __future__ import annotations

import argparse
import multiprocessing
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from electra.training.budget import parse

HALF_MINUTE = 30.0


def compute(changes: bool) -> None:
    """Keeps a core busy, all the time or in every second half minute."""
    while True:
        if changes and int(time.monotonic() / HALF_MINUTE) % 2:
            time.sleep(0.1)
        else:
            sum(range(100_000))


def spend(store: str, budget: str, out: Path, options: list[str]) -> float:
    """Returns the seconds that a run with this budget takes."""
    began = time.monotonic()
    command = [sys.executable, "-m", "electra", "pretrain", store, "--out", str(out), "--budget", budget]
    subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store")
    parser.add_argument("--budgets", nargs="+", default=["30s", "2m", "5m"])
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--change", action="store_true")
    arguments, options = parser.parse_known_args()
    for _ in range(arguments.busy):
        multiprocessing.Process(target=compute, args=(arguments.change,), daemon=True).start()
    print(f"{arguments.busy} other processes compute\n\n| asked | spent | share |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for budget in arguments.budgets:
            seconds = spend(arguments.store, budget, Path(folder) / budget, options)
            print(f"| {budget} | {seconds:.1f} s | {seconds / parse(budget)[0]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
