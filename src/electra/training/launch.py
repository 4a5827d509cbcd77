"""Starts several processes on this machine from one command, as torchrun does, without an agent or a port.

Each process runs the same command with RANK, WORLD_SIZE and LOCAL_RANK set; they meet through a file. This
process forwards signals to them, and they stop by themselves if it dies.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from electra.foundation import durable, jobs, machine
from electra.foundation.signals import EXIT_CODES

RENDEZVOUS, LAUNCHER = "ELECTRA_RENDEZVOUS", "ELECTRA_LAUNCHER"
_PREFIX = "electra-launch-"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
GRACE_SECONDS = 10.0  # for the other processes to notice that one has failed


class LaunchResult(NamedTuple):
    """How the launched processes ended."""

    code: int
    """Exit code of the process that caused the failure (128 plus the signal's number if one killed it), 0 if
    all succeeded.
    """
    output: str
    """Output of the other processes, if the main process reported no error of its own."""
    killed: tuple[int, int] | None = None
    """Rank and signal number of the process that caused the failure, if a signal killed it."""


def launch(argv: Sequence[str], processes: int, say: Callable[[str], None] | None = None) -> LaunchResult:
    """Runs `python -m ARGV...` in several processes, which share each batch.

    Args:
        argv: Module and arguments.
        processes: Number of processes.
        say: Called with each line of the main process's output (default: the output goes where this
            process's goes).
    """
    with temporary_folder() as folder:
        started = [_start(argv, rank, processes, folder, piped=say is not None) for rank in range(processes)]
        reader = threading.Thread(target=_forward_output, args=(started[0], say), daemon=True)
        reader.start()

        def forward(signal_number: int, frame: FrameType | None) -> None:
            for process in started:
                process.send_signal(signal_number)

        caught = SIGNALS if threading.current_thread() is threading.main_thread() else ()
        previous = {caught_signal: signal.signal(caught_signal, forward) for caught_signal in caught}
        try:
            failure = _wait(started)
            # it is still running (and is killed below), or it succeeded
            main_has_no_error = not started[0].returncode
        finally:
            for caught_signal, handler in previous.items():
                signal.signal(caught_signal, handler)
            for process in started:
                process.kill()
                process.wait()
            reader.join()
        if failure is None:
            return LaunchResult(0, "")
        rank, code = failure
        logs = sorted(folder.glob("rank-*.txt")) if main_has_no_error else []
        output = "".join(path.read_text(errors="replace") for path in logs)
        return LaunchResult(128 - code, output, (rank, -code)) if code < 0 else LaunchResult(code, output)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Provides a temporary folder, and removes those of processes that were killed."""
    for leftover in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        pid = leftover.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdecimal() and not durable.is_running(int(pid)):
            shutil.rmtree(leftover, ignore_errors=True)  # it may belong to another user
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-") as folder:
        yield Path(folder)


def _forward_output(process: subprocess.Popen[bytes], say: Callable[[str], None] | None) -> None:
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
        LAUNCHER: os.getpid(),
        RENDEZVOUS: f"file://{folder / 'rendezvous'}",
    }
    threads = {"OMP_NUM_THREADS": str(max(1, cores // processes))}
    environment = threads | jobs.environment(**variables)
    command = jobs.command(*argv)
    # each is a process group of its own, so that Ctrl-C reaches it only once, through `forward`
    if rank == 0:
        out = subprocess.PIPE if piped else None
        return subprocess.Popen(command, env=environment, process_group=0, stdout=out)
    with (folder / f"rank-{rank}.txt").open("wb") as log:
        return subprocess.Popen(command, env=environment, process_group=0, stdout=log, stderr=log)


def _wait(started: list[subprocess.Popen[bytes]]) -> tuple[int, int] | None:
    """Waits until all processes have ended, or until one has failed and the grace period is over.

    Returns the rank and return code of the process that caused the failure, or None. That is the first one
    seen to fail; but a process killed by a signal takes precedence over others, which fail because it is
    gone, unless the first one ended because a signal told it to stop.
    """
    failure: tuple[int, int] | None = None
    return_codes: list[int | None] = []
    deadline = float("inf")
    while time.monotonic() < deadline:
        # polls all of them, because the first may wait forever for one that has failed
        return_codes = [process.poll() for process in started]
        if failure is None:
            failure = next(((rank, code) for rank, code in enumerate(return_codes) if code), None)
            deadline = float("inf") if failure is None else time.monotonic() + GRACE_SECONDS
        if None not in return_codes:
            break
        time.sleep(0.05)
    killed = ((rank, code) for rank, code in enumerate(return_codes) if code is not None and code < 0)
    return failure if failure is None or failure[1] in EXIT_CODES.values() else next(killed, failure)


def stop_with_launcher() -> None:
    """Makes this process end when its launcher dies; call it first in a launched process.

    On Linux the kernel then sends SIGTERM. If the launcher is already gone, the process ends at once. Does
    nothing without a launcher.
    """
    launcher = os.environ.get(LAUNCHER)
    if launcher is None:
        return
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
    if os.getppid() != int(launcher):
        os._exit(EXIT_CODES[signal.SIGTERM])
