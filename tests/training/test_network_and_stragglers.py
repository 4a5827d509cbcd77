"""Processes on several machines: the address they announce, who does not answer, and who is slow."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from electra.artifacts.run import RunFolder
from electra.foundation import network_interfaces
from electra.foundation.errors import ConfigError
from electra.training import distributed
from electra.training.distributed import INTERFACE, Attendance, World
from electra.training.stragglers import MIN_SLOW_ROWS, Stragglers
from electra.training.telemetry import Telemetry

OWN, LEADER = "10.1.2.9", "10.1.2.3"


@pytest.fixture
def debian(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine whose name resolves to a loopback address, as one of several that torchrun started."""
    for name in (INTERFACE, "ELECTRA_RENDEZVOUS"):
        monkeypatch.setenv(name, "")  # so that what the test sets is removed
        monkeypatch.delenv(name)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    monkeypatch.setenv("MASTER_ADDR", LEADER)
    names = {"node1": "127.0.1.1", "node0": "127.0.1.1", "head": LEADER}
    monkeypatch.setattr(socket, "gethostname", lambda: "node1")
    monkeypatch.setattr(socket, "gethostbyname", lambda name: names.get(name, name))
    monkeypatch.setattr(network_interfaces, "local_address", lambda host: OWN)
    monkeypatch.setattr(
        network_interfaces, "interfaces", lambda: {"docker0": {"172.17.0.1"}, "eth7": {OWN, "fe80::1"}}
    )
    return monkeypatch


def chosen() -> str | None:
    distributed._choose_interface(2)
    return os.environ.get(INTERFACE)


@pytest.mark.parametrize("leader", [LEADER, "head", "node0"])
def test_the_interface_that_reaches_the_leader_is_chosen(debian: pytest.MonkeyPatch, leader: str) -> None:
    debian.setenv("MASTER_ADDR", leader)
    assert chosen() == "eth7"


def test_a_name_that_does_not_resolve_counts_as_loopback(debian: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> str:
        raise socket.gaierror

    debian.setattr(socket, "gethostbyname", unknown)
    assert chosen() == "eth7"


@pytest.mark.parametrize("leader", ["localhost", "127.0.0.1", "127.3.4.5", "::1"])
def test_processes_on_one_machine_need_none(debian: pytest.MonkeyPatch, leader: str) -> None:
    debian.setenv("MASTER_ADDR", leader)
    assert chosen() is None


def test_all_processes_of_one_torchrun_need_none(debian: pytest.MonkeyPatch) -> None:
    debian.setenv("LOCAL_WORLD_SIZE", "2")
    assert chosen() is None


def test_a_name_that_others_can_reach_needs_none(debian: pytest.MonkeyPatch) -> None:
    debian.setattr(socket, "gethostname", lambda: "head")
    assert chosen() is None


def test_the_user_s_choice_is_kept(debian: pytest.MonkeyPatch) -> None:
    debian.setenv(INTERFACE, "docker0")
    assert chosen() == "docker0"


@pytest.mark.parametrize("address", [None, "10.9.9.9"])
def test_an_unknown_interface_is_left_to_the_user(debian: pytest.MonkeyPatch, address: str | None) -> None:
    debian.setattr(network_interfaces, "local_address", lambda host: address)
    with pytest.raises(ConfigError) as caught:
        chosen()
    assert INTERFACE in caught.value.fix and "docker0, eth7" in caught.value.fix


def test_interfaces_are_those_that_the_system_lists() -> None:
    if shutil.which("ip") is None:
        pytest.skip("needs iproute2")
    said = subprocess.run(["ip", "-json", "address"], capture_output=True, text=True, check=True).stdout
    expected = {
        link["ifname"]: {address["local"] for address in link["addr_info"]}
        for link in json.loads(said)
        if link["addr_info"] and "LOOPBACK" not in link["flags"]
    }
    found = network_interfaces.interfaces()
    assert found.keys() == expected.keys()
    for name, addresses in found.items():
        assert addresses <= expected[name]
        assert all(network_interfaces.interface_of(address) == name for address in addresses)
    assert (
        network_interfaces.local_address("127.0.0.1") == "127.0.0.1"
        and network_interfaces.interface_of("127.0.0.1") is None
    )


def test_processes_that_do_not_answer_are_named() -> None:
    store = dist.HashStore()
    others = [Attendance(store, rank, 4) for rank in (1, 3)]
    for other in others:
        other.absent(0.01)
    assert Attendance(store, 0, 4).absent(0.5) == [2]


def test_without_the_store_nobody_is_accused() -> None:
    class Gone:
        def set(self, *given: str) -> None:
            raise RuntimeError("connection reset")

    store: Any = Gone()
    assert Attendance(store, 0, 2).absent(0.5) == []


def test_a_slow_process_is_named_once(tmp_path: Path) -> None:
    said: list[str] = []
    telemetry = Telemetry(tmp_path, is_main=True)
    telemetry.open(0, said.append)
    watch = Stragglers(World(0, 4))
    for step in range(3 * MIN_SLOW_ROWS):
        seconds = [0.1, 0.11, 0.3 if step != 1 else 0.1, 0.14]  # the fourth is slower, but not by much
        assert watch.report(seconds, step, telemetry)["rank_seconds"]["2"] == seconds[2]
    telemetry.close()
    events = [json.loads(line) for line in RunFolder(tmp_path).metrics.read_text().splitlines()]
    assert [(event["event"], event["rank"], event["step"]) for event in events] == [
        ("straggler", 2, MIN_SLOW_ROWS + 1)
    ]
    assert len(said) == 1


def test_each_process_adds_its_time_in_its_place() -> None:
    first, second = Stragglers(World(0, 2)), Stragglers(World(1, 2))
    for seconds in (1.0, 3.0):
        first.add(seconds)
        second.add(2 * seconds)
    assert first.take_seconds(False) == []
    assert (first.take_seconds(True), second.take_seconds(True)) == ([2.0, 0.0], [0.0, 4.0])
    assert first.take_seconds(True) == [0.0, 0.0], "since the last row"
    alone = Stragglers(World())
    alone.add(1.0)
    assert alone.take_seconds(True) == [] and alone.report([], 1, Telemetry(Path(), is_main=False)) == {}
