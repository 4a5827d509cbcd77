"""Jobs in child processes: how each ends, how many run at once, and that all end with this process."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from electra.foundation.claims import Job
from electra.foundation.errors import DiskError, ElectraError, Interrupted
from electra.foundation.jobs import run_in_turn, run_parallel

WORKS = """
import os, signal, sys, time
from pathlib import Path
from electra.foundation.errors import DiskError, Interrupted

def double(number, *, say, stop):
    say(f"doubling {number} with {os.environ['OMP_NUM_THREADS']}")
    print("printed", number)
    return 2 * number

def wait(folder, name, *, say, stop):
    folder = Path(folder)
    (folder / f"{name}.pid").write_text(str(os.getpid()))
    while not (folder / f"{name}.go").exists():
        if stop():
            (folder / f"{name}.saved").touch()
            raise Interrupted(folder)
        time.sleep(0.01)

def refuse(*, say, stop):
    raise DiskError("no room", where="here", fix="Make some")

def crash(*, say, stop):
    raise ValueError("unforeseen")

def die(number, *, say, stop):
    os.kill(os.getpid(), number)
"""


@pytest.fixture
def works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes a module of functions that the child processes can import."""
    (tmp_path / "works.py").write_text(WORKS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    sys.modules.pop("works", None)
    return __import__("works")


def never() -> bool:
    return False


def test_a_failing_job_leaves_the_others_running(works: Any, tmp_path: Path) -> None:
    messages: list[str] = []
    log = tmp_path / "logs" / "double.out"
    jobs = [
        Job("double", works.double, (21,), log),
        Job("refuse", works.refuse),
        Job("crash", works.crash, (), tmp_path / "crash.out"),
        Job("killed", works.die, (signal.SIGKILL,)),
        Job("last", works.double, (1,)),
    ]
    ended = list(run_parallel(jobs, 2, threads=3, say=messages.append, stop=never))
    assert {job.name for job in ended} == {job.name for job in jobs}
    double, refuse, crash, killed, last = jobs
    assert (double.state, double.result, double.error) == ("done", 42, None)
    assert log.read_text() == "printed 21\n" and "doubling 21 with 3" in messages
    assert refuse.state == "failed" and isinstance(refuse.error, DiskError)
    assert str(refuse.error) == "here: no room. Make some"
    assert crash.state == "failed" and str(crash.error) == "ValueError: unforeseen"
    assert "Traceback" in (tmp_path / "crash.out").read_text()
    assert (
        killed.state == "failed"
        and "killed by signal 9 (SIGKILL), most likely because memory ran out. Run fewer" in str(killed.error)
    )
    assert last.result == 2


def test_at_most_n_jobs_run_and_none_start_after_a_stop(works: Any, tmp_path: Path) -> None:
    jobs = [Job(name, works.wait, (str(tmp_path), name)) for name in "abcd"]
    stopping, most = threading.Event(), 0

    def look() -> None:
        nonlocal most
        running = [job.name for job in jobs if job.state == "running"]
        most = max(most, len(running))
        if jobs[0].state == "running" and len(list(tmp_path.glob("*.pid"))) == 2:
            (tmp_path / "a.go").touch()
        if (tmp_path / "c.pid").exists():
            stopping.set()

    ended = list(run_parallel(jobs, 2, threads=1, say=print, stop=stopping.is_set, on_poll=look))
    assert most == 2 and ended[0].name == "a"
    assert [job.state for job in jobs] == ["done", "stopped", "stopped", "waiting"]
    assert {path.name for path in tmp_path.glob("*.saved")} == {"b.saved", "c.saved"}


def test_run_in_turn_gives_the_same_without_processes(works: Any, tmp_path: Path) -> None:
    jobs = [
        Job("refuse", works.refuse),
        Job("wait", works.wait, (str(tmp_path), "w")),
        Job("left", works.crash),
    ]
    asked = iter([False, False, True, True])
    assert [job.state for job in run_in_turn(jobs, say=print, stop=lambda: next(asked))] == [
        "failed",
        "stopped",
    ]
    assert isinstance(jobs[0].error, ElectraError) and jobs[2].state == "waiting"


def test_an_electra_error_stops_the_running_jobs(works: Any, tmp_path: Path) -> None:
    jobs = [Job(name, works.wait, (str(tmp_path), name)) for name in "ab"]

    def look() -> None:
        if len(list(tmp_path.glob("*.pid"))) == 2:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(run_parallel(jobs, 2, threads=1, say=print, stop=never, on_poll=look))
    assert len(list(tmp_path.glob("*.saved"))) == 2


PARENT = """
import sys
import works
from electra.foundation.claims import Job
from electra.foundation.jobs import run_parallel
from electra.foundation.signals import StopRequest

jobs = [Job(name, works.wait, (sys.argv[1], name)) for name in "ab"]
with StopRequest() as stop:
    list(run_parallel(jobs, 2, threads=1, say=print, stop=stop))
print([job.state for job in jobs])
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_children_save_and_end_however_the_parent_ends(
    number: signal.Signals, works: Any, tmp_path: Path
) -> None:
    """The script has no `if __name__ == "__main__"`: the processes never import it."""
    (tmp_path / "parent.py").write_text(PARENT)
    command = [sys.executable, str(tmp_path / "parent.py"), str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    until(
        lambda: len(list(tmp_path.glob("*.pid"))) == 2 and all(p.read_text() for p in tmp_path.glob("*.pid"))
    )
    process.send_signal(number)
    message = process.communicate(timeout=60)[0]
    assert ("['stopped', 'stopped']" in message) == (number != signal.SIGKILL)
    until(lambda: len(list(tmp_path.glob("*.saved"))) == 2)
    until(lambda: not any(alive(int(path.read_text())) for path in tmp_path.glob("*.pid")))


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_an_interrupt_keeps_its_signal_across_processes() -> None:
    sent = Interrupted("runs/mine", 143, saved=False)
    got = pickle.loads(pickle.dumps(sent))
    assert str(got) == str(sent) == "runs/mine: interrupted"
    assert (got.where, got.exit_code, got.saved) == ("runs/mine", 143, False)
