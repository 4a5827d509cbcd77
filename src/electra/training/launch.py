"""Several processes on this machine from one command: what torchrun does, without an agent or a port in
between.

Each process is the same command with RANK, WORLD_SIZE and LOCAL_RANK set; they meet through a file. Signals
go to this process, which passes them on, and a process whose launcher is gone stops by itself.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from electra import machine

RENDEZVOUS = "ELECTRA_RENDEZVOUS"
GRACE_SECONDS = 10.0  # for the others to notice that one has failed


def launch(argv: Sequence[str], processes: int) -> int:
    """Run `electra ARGV` in `processes` processes that share each batch; the exit code of the first that did
    not end well.
    """
    with tempfile.TemporaryDirectory(prefix="electra-") as folder:
        started = [_start(argv, rank, processes, Path(folder)) for rank in range(processes)]

        def forward(number: int, frame: FrameType | None) -> None:
            for process in started:
                process.send_signal(number)

        previous = {
            number: signal.signal(number, forward)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
        }
        try:
            code = _wait(started)
            silent = not started[0].returncode  # it is ended below, or has ended well
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
            for process in started:
                process.kill()
                process.wait()
        if code and silent:  # what the leading process did not tell
            sys.stderr.write(
                "".join(path.read_text(errors="replace") for path in sorted(Path(folder).glob("rank-*.txt")))
            )
        return code


def _start(argv: Sequence[str], rank: int, processes: int, folder: Path) -> subprocess.Popen[bytes]:
    cores = machine.cores()
    variables = {
        "RANK": rank,
        "LOCAL_RANK": rank,
        "WORLD_SIZE": processes,
        RENDEZVOUS: f"file://{folder / 'rendezvous'}",
    }
    environment = {
        "OMP_NUM_THREADS": str(max(1, cores // processes)),
        **os.environ,
        **{k: str(v) for k, v in variables.items()},
    }
    # In a process group of its own, so that Ctrl-C reaches it once: from here.
    command = [sys.executable, "-m", "electra", *argv]
    if rank == 0:
        return subprocess.Popen(command, env=environment, process_group=0)
    with (folder / f"rank-{rank}.txt").open("wb") as said:
        return subprocess.Popen(command, env=environment, process_group=0, stdout=said, stderr=said)


def _wait(started: list[subprocess.Popen[bytes]]) -> int:
    """Until all have ended, or one has failed and the others had their time to notice."""
    code, deadline = 0, float("inf")
    while time.monotonic() < deadline:
        ended = [
            process.poll() for process in started
        ]  # all of them: the first may wait for ever for one that has failed
        failed = next((one for one in ended if one), 0)
        if failed and not code:
            code, deadline = failed, time.monotonic() + GRACE_SECONDS
        if None not in ended:
            break
        time.sleep(0.05)
    return 128 - code if code < 0 else code


def stop_with_launcher() -> None:
    """Ask the kernel for SIGTERM when the launcher dies, however it dies (Linux)."""
    if RENDEZVOUS in os.environ and sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
