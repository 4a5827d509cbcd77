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
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from electra import machine

RENDEZVOUS = "ELECTRA_RENDEZVOUS"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
GRACE_SECONDS = 10.0  # for the others to notice that one has failed


class Ended(NamedTuple):
    """How the processes ended: the exit code of the first that did not end well, and, where the leading
    process had nothing to complain of, what the others said.
    """

    code: int
    said: str


def launch(argv: Sequence[str], processes: int, say: Callable[[str], None] | None = None) -> Ended:
    """Run `python -m ARGV...` in `processes` processes that share each batch.

    say: told each line that the leading process writes (None: it writes where this process does).
    """
    with tempfile.TemporaryDirectory(prefix="electra-") as folder:
        started = [
            _start(argv, rank, processes, Path(folder), piped=say is not None) for rank in range(processes)
        ]
        reader = threading.Thread(target=_pass_on, args=(started[0], say), daemon=True)
        reader.start()

        def forward(number: int, frame: FrameType | None) -> None:
            for process in started:
                process.send_signal(number)

        caught = SIGNALS if threading.current_thread() is threading.main_thread() else ()
        previous = {number: signal.signal(number, forward) for number in caught}
        try:
            code = _wait(started)
            silent = not started[0].returncode  # it is ended below, or has ended well
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
            for process in started:
                process.kill()
                process.wait()
            reader.join()
        others = sorted(Path(folder).glob("rank-*.txt")) if code and silent else []
        return Ended(code, "".join(path.read_text(errors="replace") for path in others))


def _pass_on(process: subprocess.Popen[bytes], say: Callable[[str], None] | None) -> None:
    if process.stdout is not None and say is not None:
        with process.stdout as lines:
            for line in lines:
                say(line.decode(errors="replace").rstrip())


def _start(
    argv: Sequence[str], rank: int, processes: int, folder: Path, *, piped: bool
) -> subprocess.Popen[bytes]:
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
    command = [sys.executable, "-m", *argv]
    if rank == 0:
        out = subprocess.PIPE if piped else None
        return subprocess.Popen(command, env=environment, process_group=0, stdout=out)
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
