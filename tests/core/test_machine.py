"""What a process may use of the machine."""

import os
import subprocess
import sys

import pytest

from electra.machine import cores


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
