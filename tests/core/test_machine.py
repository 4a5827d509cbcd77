"""Cores, devices, launcher variables and optional libraries."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from electra.foundation import machine
from electra.foundation.errors import ConfigError, DataError, out_of_memory
from electra.foundation.machine import cores, library


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no process to cores")
def test_cpu_affinity_limits_the_core_count() -> None:
    bind = (
        f"import os; os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}}); "
        "from electra.foundation.machine import cores; print(cores())"
    )
    actual = subprocess.run([sys.executable, "-c", bind], capture_output=True, text=True, check=True)
    assert actual.stdout.strip() == "1"


def test_without_affinity_all_cores_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    monkeypatch.setattr(machine, "cpu_quota", lambda: float("inf"))
    assert cores() == 7
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cores() == 1


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    assert library("xml.dom.minidom", "data").dom.minidom.Document
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match=r"\.\[notebook\]"):
        library("pandas", "notebook")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "pyarrow.parquet", raising=False)  # another test may have imported it
    with pytest.raises(DataError, match=r"^a\.parquet: .*\.\[data\]"):
        library("pyarrow.parquet", "data", "parquet files", DataError, where="a.parquet")


@pytest.mark.parametrize(("said", "threads"), [("1", 1), ("999", 7), ("", 7), ("0", 7), ("4,2", 7)])
def test_the_thread_count_follows_openmp(said: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`plan` measured with all cores what `pretrain` then trained with one."""
    monkeypatch.setattr(machine, "cores", lambda: 7)
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    assert machine.default_threads() == threads


@pytest.mark.parametrize(
    ("groups", "files", "cores"),
    [
        ("0::/", {"cpu.max": "150000 100000"}, 1.5),
        ("0::/a/b", {"a/cpu.max": "200000 100000", "a/b/cpu.max": "max 100000"}, 2.0),
        ("0::/a/b", {"a/cpu.max": "200000 100000", "a/b/cpu.max": "50000 100000"}, 0.5),
        ("0::/docker/1234", {"cpu.max": "300000 100000"}, 3.0),  # a container sees its own group at the top
        ("5:cpu,cpuacct:/a", {"cpu/a/cpu.cfs_quota_us": "250000", "cpu/a/cpu.cfs_period_us": "100000"}, 2.5),
        (
            "5:cpu,cpuacct:/",
            {"cpu,cpuacct/cpu.cfs_quota_us": "-1", "cpu,cpuacct/cpu.cfs_period_us": "100000"},
            math.inf,
        ),
        ("0::/\n4:memory:/x", {"memory/x/cpu.max": "100000 100000"}, math.inf),
        ("0::/", {"cpu.max": "nonsense"}, math.inf),
        ("", {}, math.inf),
    ],
)
def test_a_cgroup_limit_is_read(groups: str, files: dict[str, str], cores: float, tmp_path: Path) -> None:
    """As the kernel's documents define cpu.max (version 2) and cpu.cfs_quota_us (version 1)."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(f"{groups}\n" * bool(groups))
    for name, text in files.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    assert machine.cpu_quota(tmp_path) == cores


def test_a_cgroup_limit_lowers_the_core_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    for quota, count in ((0.5, 1), (2.5, 2), (float("inf"), 8)):
        monkeypatch.setattr(machine, "cpu_quota", lambda quota=quota: quota)
        assert cores() == count


@pytest.mark.parametrize(
    "variables",
    [
        {"WORLD_SIZE": "2"},
        {"WORLD_SIZE": "abc"},
        {"WORLD_SIZE": "0"},
        {"WORLD_SIZE": "-1"},
        {"WORLD_SIZE": ""},
        {"WORLD_SIZE": "2", "RANK": "x"},
        {"WORLD_SIZE": "2", "RANK": "2"},
        {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "x"},
        {"WORLD_SIZE": "2", "RANK": "0", "ELECTRA_TIMEOUT_MINUTES": "soon"},
    ],
)
def test_wrong_launcher_variables_are_named(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from electra.training.distributed import join_world

    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as message:
        join_world()
    assert message.value.where in variables or message.value.where == "RANK"


def test_an_unreachable_host_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian gives a machine's own name the address 127.0.1.1, and gloo tells others that."""
    from electra.training import distributed

    addresses = {"leader.invalid": "10.0.0.1", "here": "127.0.1.1"}
    monkeypatch.setattr(distributed.socket, "gethostname", lambda: "here")
    monkeypatch.setattr(distributed.socket, "gethostbyname", addresses.__getitem__)
    for name, value in {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "leader.invalid"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    with pytest.raises(ConfigError, match="GLOO_SOCKET_IFNAME"):
        distributed.join_world()


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("could not create a primitive"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:1] . DefaultCPUAllocator: can't allocate memory: you"),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("std::bad_alloc"),
        RuntimeError("can't start new thread"),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        ImportError("libx.so: cannot allocate memory in static TLS block"),
        OSError(12, "Cannot allocate memory"),
    ],
)
def test_out_of_memory_is_a_one_line_error(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The messages of several libraries."""
    from electra.commands.framework import main

    def run(verb: str, arguments: list[str]) -> int:
        raise error

    monkeypatch.setattr(main, "run_command", run)
    assert main.main(["pretrain"]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert "memory ran out" in line and "--batch-size" in line


def test_other_errors_are_not_mistaken_for_out_of_memory() -> None:
    assert out_of_memory(RuntimeError("shapes differ")) is None and out_of_memory(OSError(2, "none")) is None
