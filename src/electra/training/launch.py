"""Several processes on this machine from one command: what torchrun does, without an agent or a port in
between.

Each process is the same command with RANK, WORLD_SIZE and LOCAL_RANK set; they meet through a file. Signals
go to this process, which passes them on, and a process whose launcher is gone stops by itself.
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
GRACE_SECONDS = 10.0  # for the others to notice that one has failed


class Ended(NamedTuple):
    """How the processes ended: the exit code of the one that is to blame, and, where the leading process had
    nothing to complain of, what the others said.
    """

    code: int
    said: str
    killed: tuple[int, int] | None = None
    """The process that a signal killed, and the signal, where it was that."""


def launch(argv: Sequence[str], processes: int, say: Callable[[str], None] | None = None) -> Ended:
    """Run `python -m ARGV...` in `processes` processes that share each batch.

    say: told each line that the leading process writes (None: it writes where this process does).
    """
    with temporary_folder() as folder:
        started = [_start(argv, rank, processes, folder, piped=say is not None) for rank in range(processes)]
        reader = threading.Thread(target=_pass_on, args=(started[0], say), daemon=True)
        reader.start()

        def forward(number: int, frame: FrameType | None) -> None:
            for process in started:
                process.send_signal(number)

        caught = SIGNALS if threading.current_thread() is threading.main_thread() else ()
        previous = {number: signal.signal(number, forward) for number in caught}
        try:
            failed = _wait(started)
            silent = not started[0].returncode  # it is ended below, or has ended well
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
            for process in started:
                process.kill()
                process.wait()
            reader.join()
        if failed is None:
            return Ended(0, "")
        rank, code = failed
        others = sorted(folder.glob("rank-*.txt")) if silent else []
        said = "".join(path.read_text(errors="replace") for path in others)
        return Ended(128 - code, said, (rank, -code)) if code < 0 else Ended(code, said)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder for as long as this process needs it. Those of processes that were killed go, too."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        number = left.name.removeprefix(_PREFIX).partition("-")[0]
        if number.isdecimal() and not durable.is_running(int(number)):
            shutil.rmtree(left, ignore_errors=True)  # another user's stays
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-") as folder:
        yield Path(folder)


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
        LAUNCHER: os.getpid(),
        RENDEZVOUS: f"file://{folder / 'rendezvous'}",
    }
    threads = {"OMP_NUM_THREADS": str(max(1, cores // processes))}
    environment = threads | jobs.environment(**variables)
    # In a process group of its own, so that Ctrl-C reaches it once: from here.
    command = jobs.command(*argv)
    if rank == 0:
        out = subprocess.PIPE if piped else None
        return subprocess.Popen(command, env=environment, process_group=0, stdout=out)
    with (folder / f"rank-{rank}.txt").open("wb") as said:
        return subprocess.Popen(command, env=environment, process_group=0, stdout=said, stderr=said)


def _wait(started: list[subprocess.Popen[bytes]]) -> tuple[int, int] | None:
    """Until all have ended, or one has failed and the others had their time to notice. Returns the rank and
    the return code of the one to blame: one that a signal killed, before those that failed for want of it.
    """
    first: tuple[int, int] | None = None
    ended: list[int | None] = []
    deadline = float("inf")
    while time.monotonic() < deadline:
        ended = [
            process.poll() for process in started
        ]  # all of them: the first may wait for ever for one that has failed
        if first is None:
            first = next(((rank, code) for rank, code in enumerate(ended) if code), None)
            deadline = float("inf") if first is None else time.monotonic() + GRACE_SECONDS
        if None not in ended:
            break
        time.sleep(0.05)
    killed = ((rank, code) for rank, code in enumerate(ended) if code is not None and code < 0)
    return first if first is None or first[1] in EXIT_CODES.values() else next(killed, first)


def stop_with_launcher() -> None:
    """To be called first in a launched process: the kernel sends SIGTERM when the launcher dies, however it
    dies (Linux). Ends this process where the launcher is gone already.
    """
    launcher = os.environ.get(LAUNCHER)
    if launcher is None:
        return
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
    if os.getppid() != int(launcher):
        os._exit(EXIT_CODES[signal.SIGTERM])
