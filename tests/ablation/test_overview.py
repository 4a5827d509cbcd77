"""The progress of a study."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from electra.laboratory.ablation.overview import Overview
from electra.laboratory.ablation.plan import Job
from electra.laboratory.ablation.runner import JobStatus


@pytest.fixture
def jobs(tmp_path: Path) -> list[JobStatus]:
    made = [
        JobStatus(Job(arm, share, seed), tmp_path, 100)
        for seed in (1, 2)
        for arm in ("mlm", "rtd")
        for share in (0.5, 1.0)
    ]
    made[0].state = "done"
    made[1].state, made[1].row = "running", {"step": 40, "tokens_per_s": 9000.0}
    made[2].state, made[2].row = "running", {"step": 100}
    made[3].state, made[3].problem = "failed", "no luck"
    return made


def test_the_table_has_a_row_for_each_arm_and_a_cell_for_each_seed(
    jobs: list[JobStatus], tmp_path: Path
) -> None:
    shown = io.StringIO()
    Console(file=shown, width=100, force_terminal=False).print(
        Overview("A study", jobs, lambda line: None, Console(file=io.StringIO())).table()
    )
    lines = [" ".join(line.split()) for line in shown.getvalue().splitlines()]
    assert lines[:6] == [
        "A study",
        "arm seed 1 seed 2",
        "mlm at 0.5 done waiting",
        "mlm 40 % waiting",
        "rtd at 0.5 scoring waiting",
        "rtd failed waiting",
    ]


def test_plain_lines_without_a_terminal(
    jobs: list[JobStatus], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, said = io.StringIO(), list[str]()
    monkeypatch.setattr("electra.laboratory.ablation.overview.QUIET_SECONDS", -1.0)
    with Overview("A study", jobs, said.append, Console(file=shown, width=200, soft_wrap=True)) as overview:
        overview.refresh()
        jobs[1].row = {"step": 90}
        overview.refresh()
        overview.report_end(jobs[3])
    assert said[0] == "mlm, seed 1: step 40/100, 9,000 tokens/s; rtd at 0.5 of the budget, seed 1: scoring"
    assert " left" in said[1]
    assert "rtd, seed 1 failed: no luck  (2 of 8 runs)" in said and not shown.getvalue()


def test_a_live_display_is_stopped_at_the_end(jobs: list[JobStatus], tmp_path: Path) -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=100)
    with Overview("A study", jobs, console.print, console) as overview:
        overview.refresh()
        overview.say("a line")
        assert overview.live is not None and overview.live.is_started
    assert not overview.live.is_started
    assert "a line" in shown.getvalue() and "A study" in shown.getvalue()
