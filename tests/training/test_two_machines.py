"""torchrun on two machines, which here are two addresses of this one."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from driven import command, fingerprint, ranks, steps_done

Started = subprocess.Popen[str]


def train(store: Path, out: Path, **variables: str) -> list[Started]:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = str(bound.getsockname()[1])
    alone = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "GLOO_SOCKET_IFNAME": "lo"}
    head = ["--nnodes", "2", "--master-addr", "127.0.0.2", "--master-port", port]
    return [
        subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", *head, "--node-rank", str(number)]
            + ["--local-addr", f"127.0.0.{2 + number}", "-m", "electra", *command(store, out)],
            env=os.environ | alone | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        for number in range(2)
    ]


def end(started: list[Started]) -> list[str]:
    try:
        return [process.communicate(timeout=120)[0] for process in started]
    finally:
        for process in started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


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
    toy_store: Path, tmp_path: Path
) -> None:
    whole, out = tmp_path / "whole", tmp_path / "run"
    for process in ranks(command(toy_store, whole), 2, tmp_path):
        process.finish()
    started = train(toy_store, out, ELECTRA_TIMEOUT_MINUTES="0.5")
    while steps_done(out) < 6:
        assert all(process.poll() is None for process in started), end(started)
        time.sleep(0.01)
    for number in (started[1].pid, worker(started[1].pid)):
        os.kill(number, signal.SIGKILL)
    began = time.monotonic()
    said, _ = end(started)
    assert time.monotonic() - began < 60  # the time to wait is 30 seconds
    ours = [line for line in said.splitlines() if re.match(r"error: process \d", line)]
    assert started[0].returncode and len(ours) == 1, said  # torchrun adds its own report
    again = train(toy_store, out)
    told = end(again)
    assert [process.returncode for process in again] == [0, 0], told
    assert fingerprint(out) == fingerprint(whole)
