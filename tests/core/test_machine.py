"""Cores, devices, launcher variables and optional libraries."""

import os
import subprocess
import sys

import pytest

from electra.foundation.errors import ConfigError, DataError, out_of_memory
from electra.foundation.machine import library

TWO = {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "::1"}


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no process to cores")
def test_cpu_affinity_limits_the_core_count() -> None:
    bind = (
        f"import os; os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}}); "
        "from electra.foundation.machine import cores; print(cores())"
    )
    actual = subprocess.run([sys.executable, "-c", bind], capture_output=True, text=True, check=True)
    assert actual.stdout.strip() == "1"


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    assert library("xml.dom.minidom", "data").dom.minidom.Document
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError):
        library("pandas", "notebook")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "pyarrow.parquet", raising=False)  # another test may have imported it
    with pytest.raises(DataError):
        library("pyarrow.parquet", "data", "parquet files", DataError, where="a.parquet")


@pytest.mark.parametrize(
    "variables",
    [
        {"WORLD_SIZE": "2"},
        *({"WORLD_SIZE": text} for text in ("abc", "0", "-1", "")),
        *({"WORLD_SIZE": "2", "RANK": text} for text in ("x", "2", "0")),
        {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "x"},
        {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": " "},
        *(TWO | {"MASTER_PORT": text} for text in ("", "http", "65536")),
        TWO | {"MASTER_PORT": "1", "ELECTRA_TIMEOUT_MINUTES": "x"},
    ],
)
def test_bad_launcher_variables_are_named(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    from electra.training.distributed import join_world

    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as message:
        join_world()
    assert message.value.where in variables or message.value.where in ("RANK", "MASTER_ADDR")


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
    assert "memory" in line


def test_other_errors_are_not_mistaken_for_out_of_memory() -> None:
    assert out_of_memory(RuntimeError("shapes differ")) is None and out_of_memory(OSError(2, "none")) is None
