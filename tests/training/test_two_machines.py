"""torchrun on two machines: network namespaces joined by a cable, or else two addresses of this machine."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from driven import command, fingerprint, ranks, steps_done

Started = subprocess.Popen[str]
TIMEOUT = {"ELECTRA_TIMEOUT_MINUTES": "0.5"}


@dataclass(frozen=True)
class Machine:
    address: str
    interface: str
    namespace: str = ""

    def start(self, words: Sequence[str], **variables: str) -> Started:
        inside = ["ip", "netns", "exec", self.namespace] if self.namespace else []
        alone = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "GLOO_SOCKET_IFNAME": self.interface}
        return subprocess.Popen(
            [*inside, sys.executable, *words],
            env=os.environ | alone | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def cable(self, state: str) -> None:
        ip("-n", self.namespace, "link", "set", self.interface, state)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture(scope="module")
def machines() -> Iterator[list[Machine]]:
    names = [f"electra-test-{os.getpid()}-{number}" for number in range(2)]
    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", "cable", "netns", names[0], "type", "veth", "peer", "cable", "netns", names[1])
        made = [Machine(f"10.201.77.{number}", "cable", name) for number, name in enumerate(names, 1)]
        for machine in made:
            ip("-n", machine.namespace, "address", "add", f"{machine.address}/24", "dev", machine.interface)
            ip("-n", machine.namespace, "link", "set", "lo", "up")
            machine.cable("up")
    except (OSError, subprocess.CalledProcessError):  # no such tool, not root, or no such kernel
        made = [Machine(f"127.0.0.{number}", "lo") for number in (2, 3)]
    try:
        yield made
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


@pytest.fixture(scope="module")
def unbroken(toy_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run by two processes of one machine."""
    folder = tmp_path_factory.mktemp("unbroken")
    both = ranks(command(toy_store, folder / "run"), 2, folder)
    said = [process.finish() for process in both]
    assert [process.poll() for process in both] == [0, 0], said
    return folder / "run"


def free_port() -> str:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return str(bound.getsockname()[1])


def train(machines: list[Machine], store: Path, out: Path, **variables: str) -> list[Started]:
    head = ["--nnodes", "2", "--master-addr", machines[0].address, "--master-port", free_port()]
    return [
        machine.start(
            ["-m", "torch.distributed.run", *head, "--node-rank", str(number), "-m", "electra"]
            + command(store, out),
            **variables,
        )
        for number, machine in enumerate(machines)
    ]


def wait_for(out: Path, step: int, started: list[Started]) -> None:
    while steps_done(out) < step:
        if any(process.poll() is not None for process in started):
            pytest.fail("\n".join(end(started)))
        time.sleep(0.01)


def end(started: list[Started]) -> list[str]:
    said = []
    for process in started:
        try:
            said.append(process.communicate(timeout=120)[0])
        finally:
            if process.poll() is None:
                os.kill(worker(process.pid), signal.SIGKILL)
                process.kill()
    return said


def refuse_silence(said: str, code: int | None) -> None:
    """One line of ours, which names a rank; torchrun adds its own report."""
    errors = [
        line for line in said.splitlines() if "error:" in line and "Error" not in line.partition(":")[0]
    ]
    ours = [line for line in errors if re.search(r"\b(?:process|rank) \d", line)]
    assert code not in (0, None) and len(ours) == 1, said


def worker(agent: int) -> int:
    """The training process that torchrun started."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rpartition(")")[2].split()[1]) == agent:
                return int(path.parent.name)
        except OSError:
            continue
    raise AssertionError("torchrun runs nothing")


@pytest.mark.slow
def test_one_of_two_machines_is_killed_and_the_rerun_has_the_bits_of_one_machine(
    machines: list[Machine], toy_store: Path, unbroken: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    started = train(machines, toy_store, out, **TIMEOUT)
    wait_for(out, 6, started)
    for number in [started[1].pid, worker(started[1].pid)]:
        os.kill(number, signal.SIGKILL)
    began = time.monotonic()
    said, _ = end(started)
    assert time.monotonic() - began < 60  # the time to wait is 30 seconds
    refuse_silence(said, started[0].returncode)
    again = train(machines, toy_store, out)
    told = end(again)
    assert [process.returncode for process in again] == [0, 0], told
    assert fingerprint(out) == fingerprint(unbroken)


@pytest.mark.reliability
def test_a_cable_that_is_cut_ends_both_sides_and_the_rerun_resumes(
    machines: list[Machine], toy_store: Path, unbroken: Path, tmp_path: Path
) -> None:
    if not machines[0].namespace:
        pytest.skip("needs network namespaces (ip netns add, as root): a loopback address has no cable")
    out = tmp_path / "run"
    started = train(machines, toy_store, out, **TIMEOUT)
    wait_for(out, 6, started)
    machines[1].cable("down")
    try:
        said = end(started)
    finally:
        machines[1].cable("up")
    for text, process in zip(said, started, strict=True):
        refuse_silence(text, process.returncode)
    again = train(machines, toy_store, out)
    told = end(again)
    assert [process.returncode for process in again] == [0, 0], told
    assert fingerprint(out) == fingerprint(unbroken)


@pytest.mark.reliability
def test_torchrun_restarts_a_rank_that_dies_once(
    machines: list[Machine], toy_store: Path, unbroken: Path, tmp_path: Path
) -> None:
    out, place = tmp_path / "run", f"{machines[0].address}:{free_port()}"
    started = [
        machine.start(
            ["-m", "torch.distributed.run", "--nnodes", "2", "--max-restarts", "1", "--rdzv-backend", "c10d"]
            + ["--rdzv-endpoint", place, "--rdzv-conf", f"is_host={int(not number)}", "--rdzv-id", "one"]
            + ["--local-addr", machine.address, "-m", "electra"]
            + command(toy_store, out),
            **TIMEOUT,
        )
        for number, machine in enumerate(machines)
    ]
    wait_for(out, 6, started)
    os.kill(worker(started[1].pid), signal.SIGKILL)
    told = end(started)
    assert [process.returncode for process in started] == [0, 0], told
    assert fingerprint(out) == fingerprint(unbroken)
