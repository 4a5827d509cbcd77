"""The progress of a study."""

from __future__ import annotations

from pathlib import Path

import pytest

from electra.laboratory.ablation import overview
from electra.laboratory.ablation.plan import Job
from electra.laboratory.ablation.runner import JobStatus


@pytest.fixture
def jobs(tmp_path: Path) -> list[JobStatus]:
    statuses = [
        JobStatus(Job(arm, share, seed), tmp_path, 100)
        for seed in (1, 2)
        for arm in ("mlm", "rtd")
        for share in (0.5, 1.0)
    ]
    statuses[0].state = "done"
    statuses[1].state, statuses[1].last_row = "running", {"step": 40, "tokens_per_s": 9000.0}
    statuses[2].state, statuses[2].last_row = "running", {"step": 100}
    statuses[3].state, statuses[3].problem = "failed", "no luck"
    return statuses


@pytest.mark.parametrize("live", [True, False])
def test_running_jobs_and_the_share_done_are_reported(
    jobs: list[JobStatus], monkeypatch: pytest.MonkeyPatch, live: bool
) -> None:
    said, reported = list[str](), list[tuple[str, float | None]]()
    monkeypatch.setattr(overview, "QUIET_SECONDS", -1.0)
    report = overview.Overview(jobs, said.append, lambda *now: reported.append(now), live=live)
    report.refresh()
    jobs[1].last_row = {"step": 90}
    report.refresh()
    report.report_end(jobs[3])
    running = "mlm, seed 1: step 40/100, 9,000 tokens/s; rtd at 0.5 of the budget, seed 1: scoring"
    assert reported[0] == (running, 0.3) and reported[1][1] == pytest.approx(0.3625)
    assert said.pop() == "rtd, seed 1 failed: no luck  (2 of 8 runs)"
    assert len(said) == (0 if live else 2) and (live or (said[0] == running and " left" in said[1]))


def test_a_stopped_job_is_not_counted_as_finished(jobs: list[JobStatus]) -> None:
    said = list[str]()
    jobs[1].state = "stopped"
    overview.Overview(jobs, said.append, lambda *now: None, live=True).report_end(jobs[1])
    assert said[0].endswith("stopped  (2 of 8 runs)")
