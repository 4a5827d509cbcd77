"""Several processes from one command: what each is told, whose code comes back, who gets the signals, and who
is left behind.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from electra.training import launch as launcher

# In place of the interpreter: `electra WORD...` becomes a small program that does what WORD says for its
# rank.
PROGRAM = """
    #!{python} -SE
    import json, os, signal, sys, time
    assert sys.argv[1] == "-P" and sys.argv[4] == "electra", sys.argv
    folder, script = sys.argv[5], json.loads(sys.argv[6])
    rank = os.environ["RANK"]
    def note(name, text=""):
        with open(os.path.join(folder, name + "-" + rank), "a") as file:
            file.write(text + "\\n")
    def told(number, frame):
        note("signal", str(int(number)))
        sys.exit(143)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, told)
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "ELECTRA_RENDEZVOUS", "OMP_NUM_THREADS")
    note("environment", json.dumps([os.environ.get(name) for name in names] + [os.getpgrp() == os.getpid()]))
    what = script.get(rank, script.get("all", "end"))
    if what.startswith("fail"):
        sys.stderr.write("error: trouble in rank " + rank + "\\n")
        sys.exit(int(what.split()[1]))
    if what == "linger":
        time.sleep(1)
        note("lingered")
    if what == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "hang":
        time.sleep(60)
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """run(n, rank="what it does", ...) in n processes."""
    program = tmp_path / "python"
    program.write_text(textwrap.dedent(PROGRAM.format(python=sys.executable)).lstrip())
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(launcher, "GRACE_SECONDS", 0.5)

    def launch(processes: int, **script: str) -> int:
        words = ["electra", str(tmp_path), json.dumps({k.strip("_"): v for k, v in script.items()})]
        ended = launcher.launch(words, processes)
        sys.stderr.write(ended.output)
        return ended.code

    return launch


def notes(folder: Path, name: str) -> dict[int, str]:
    return {int(path.name.rpartition("-")[2]): path.read_text().strip() for path in folder.glob(f"{name}-*")}


def wait_for(folder: Path, name: str, count: int) -> None:
    deadline = time.monotonic() + 60
    while len(notes(folder, name)) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_each_process_gets_its_rank_and_its_share_of_the_cores(
    run: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(7)), raising=False)
    assert run(3) == 0
    said = {rank: json.loads(text) for rank, text in notes(tmp_path, "environment").items()}
    assert {rank: (own[0], own[1], own[2], own[4]) for rank, own in said.items()} == {
        r: (str(r), str(r), "3", "2") for r in range(3)
    }
    assert len({own[3] for own in said.values()}) == 1 and said[0][3].startswith("file:///")
    assert all(own[5] for own in said.values()), "each in a process group of its own"


def test_omp_num_threads_is_respected(
    run: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert run(2) == 0
    assert [json.loads(text)[4] for text in notes(tmp_path, "environment").values()] == ["5", "5"]


def test_the_first_failure_gives_the_exit_code_and_ends_the_others(
    run: Callable[..., int], capfd: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    assert run(3, _1="fail 7", all="hang") == 7
    assert time.monotonic() - began < 50, "and not waited for"
    assert capfd.readouterr().err == "error: trouble in rank 1\n", (
        "the leading process said nothing: the other's words are passed on"
    )


def test_the_other_processes_get_a_grace_period(
    run: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "GRACE_SECONDS", 60.0)
    assert run(2, _1="fail 7", all="linger") == 7
    assert list(notes(tmp_path, "lingered")) == [0]


def test_an_error_of_the_main_process_is_not_repeated(
    run: Callable[..., int], capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(2, all="fail 2") == 2
    assert capfd.readouterr().err == "error: trouble in rank 0\n"


def test_the_exit_code_names_the_signal_that_killed_a_process(run: Callable[..., int]) -> None:
    assert run(2, _1="die") == 128 + signal.SIGKILL


def test_the_killed_process_is_reported_rather_than_those_that_fail_after_it(run: Callable[..., int]) -> None:
    assert run(3, _0="fail 1", _2="die", _1="fail 1") == 128 + signal.SIGKILL


def test_folders_of_killed_launchers_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended = subprocess.Popen(["true"])
    ended.wait()
    for process in (ended.pid, os.getpid(), "of-mine"):
        (tmp_path / f"electra-launch-{process}-x").mkdir()
    (tmp_path / "electra-other").mkdir()
    with launcher.temporary_folder() as folder:
        assert folder.parent == tmp_path
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {f"electra-launch-{os.getpid()}-x", "electra-launch-of-mine-x", "electra-other"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_a_signal_reaches_every_process_once(
    run: Callable[..., int], tmp_path: Path, number: signal.Signals
) -> None:
    before = signal.getsignal(number)

    def send() -> None:
        wait_for(tmp_path, "environment", 2)
        os.kill(os.getpid(), number)

    sender = threading.Thread(target=send)
    sender.start()
    assert run(2, all="hang") == 143
    sender.join()
    assert notes(tmp_path, "signal") == {0: str(int(number)), 1: str(int(number))}
    assert signal.getsignal(number) is before, "and is handled afterwards as it was before"


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel of Linux")
def test_a_process_ends_when_its_launcher_is_killed(tmp_path: Path) -> None:
    child = f"""
import os, sys, time
sys.path.insert(0, {str(Path(launcher.__file__).parents[2])!r})
from electra.training.launch import stop_with_launcher
stop_with_launcher()
open({str(tmp_path / "ready-0")!r}, "w").close()
time.sleep(60)
"""
    parent = (
        "import os, subprocess, sys; os.environ['ELECTRA_LAUNCHER'] = str(os.getpid());"
        "sys.exit(subprocess.call([sys.executable, '-c', sys.argv[1]]))"
    )
    process = subprocess.Popen([sys.executable, "-c", parent, child], stdout=subprocess.PIPE)
    wait_for(tmp_path, "ready", 1)
    process.kill()
    process.communicate(timeout=30)  # returns when the child, which holds the pipe, has ended, too


def test_a_process_without_its_launcher_ends_at_once() -> None:
    child = f"""
import sys
sys.path.insert(0, {str(Path(launcher.__file__).parents[2])!r})
from electra.training.launch import stop_with_launcher
stop_with_launcher()
print("went on")
"""
    environment = {**os.environ, launcher.LAUNCHER: "1"}
    ended = subprocess.run(
        [sys.executable, "-c", child], env=environment, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (143, "")
