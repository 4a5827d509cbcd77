"""What a process may use of the machine."""

import os
import subprocess
import sys

import pytest

from electra import machine
from electra.errors import ConfigError, DataError
from electra.machine import cores, library


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no process to cores")
def test_a_process_bound_to_one_core_counts_one() -> None:
    bind = (
        f"import os; os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}}); from electra.machine import"
        " cores; print(cores())"
    )
    found = subprocess.run([sys.executable, "-c", bind], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "1"


def test_where_nothing_binds_all_cores_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert cores() == 7
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cores() == 1


def test_a_library_that_is_not_there_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    assert library("xml.dom.minidom", "data").dom.minidom.Document
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match=r"^pandas is not installed.*'electra-encoder\[notebook\]'"):
        library("pandas", "notebook")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "pyarrow.parquet", raising=False)  # another test may have imported it
    with pytest.raises(DataError, match=r"^a\.parquet: parquet files need pyarrow.*electra-encoder\[data\]"):
        library("pyarrow.parquet", "data", "parquet files", DataError, where="a.parquet")


@pytest.mark.parametrize(("said", "threads"), [("1", 1), ("999", 7), ("", 7), ("0", 7), ("4,2", 7)])
def test_threads_are_those_of_openmp(said: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`plan` measured with all cores what `pretrain` then trained with one."""
    monkeypatch.setattr(machine, "cores", lambda: 7)
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    assert machine.usual_threads() == threads
