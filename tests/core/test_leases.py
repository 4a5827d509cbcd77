"""Leases on a shared folder: one holder at a time, and the work of ended processes is taken over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from electra.foundation import leases
from electra.foundation.leases import Lease, Leases

TAKE = """
import sys, time
from pathlib import Path
from electra.foundation.leases import Leases
lease = Leases(Path(sys.argv[1]), beat=0.05).take("work")
print("taken" if lease else "held", flush=True)
time.sleep(float(sys.argv[2]))
"""


@contextmanager
def holder(folder: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", TAKE, str(folder), "60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "taken\n"
        try:
            yield process
        finally:
            process.kill()


def wait_for(condition: object, seconds: float = 5) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_lease_is_exclusive_until_it_is_released(tmp_path: Path) -> None:
    first, second = Leases(tmp_path), Leases(tmp_path)
    lease = first.take("glue/cola [1]")
    assert lease is not None and second.take("glue/cola [1]") is None
    assert str(os.getpid()) in second.holder("glue/cola [1]")
    assert second.take("glue/cola") is not None
    lease.release()
    assert second.holder("glue/cola [1]") == "" and second.take("glue/cola [1]") is not None


def test_only_one_of_many_processes_gets_a_lease(tmp_path: Path) -> None:
    used: list[Lease | None] = []
    together = threading.Barrier(8)

    def take() -> None:
        own = Leases(tmp_path)
        together.wait()
        used.append(own.take("work"))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(lease is not None for lease in used) == 1


def test_a_killed_process_of_this_machine_is_succeeded_at_once(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        assert Leases(tmp_path).take("work") is None
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert Leases(tmp_path).take("work") is not None


@pytest.mark.parametrize("skew", [-600, 600])
def test_a_silent_machine_loses_its_lease_after_a_while_whatever_its_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skew: float
) -> None:
    monkeypatch.setattr(leases, "_boot_id", lambda: "another machine")
    gone = Leases(tmp_path, beat=1000).take("work")
    monkeypatch.undo()
    assert gone is not None
    os.utime(gone.path, (time.time() + skew, time.time() + skew))
    own = Leases(tmp_path, patience=0.2)
    began = time.monotonic()
    wait_for(lambda: own.take("work") is not None)
    assert time.monotonic() - began >= 0.2


def test_a_machine_that_is_alive_keeps_its_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "_boot_id", lambda: "another machine")
    alive = Leases(tmp_path, beat=0.02).take("work")
    monkeypatch.undo()
    assert alive is not None
    own, deadline = Leases(tmp_path, patience=0.3), time.monotonic() + 1
    while time.monotonic() < deadline:
        assert own.take("work") is None
        time.sleep(0.02)
    assert not alive.lost()


def test_a_process_that_slept_too_long_finds_that_its_work_was_taken_over(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        process.send_signal(signal.SIGSTOP)
        own = Leases(tmp_path, patience=0.2)
        wait_for(lambda: own.take("work") is not None)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.3)
        assert [path.name for path in tmp_path.glob("work.*")] == ["work.1"]


def test_a_holder_knows_when_it_has_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "_boot_id", lambda: "another machine")
    slow = Leases(tmp_path, beat=0.5).take("work")
    monkeypatch.undo()
    own = Leases(tmp_path, patience=0.05)
    wait_for(lambda: own.take("work") is not None)
    assert slow is not None
    wait_for(slow.lost)
    slow.release()
    assert Leases(tmp_path).take("work") is None


def test_without_links_creating_is_exclusive_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*paths: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", no_links)
    assert Leases(tmp_path).take("work") is not None and Leases(tmp_path).take("work") is None
