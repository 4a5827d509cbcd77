"""Runs the jobs of a study in worker processes until all have ended or a stop is requested."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from electra.artifacts.ledger import newest_row
from electra.artifacts.run import RunFolder
from electra.foundation import claims, durable, jobs
from electra.foundation.errors import RunFolderError
from electra.foundation.leases import Leases
from electra.laboratory.ablation import worker
from electra.laboratory.ablation.plan import Job


@dataclass
class JobStatus:
    """The state of one job, read from its run folder."""

    job: Job
    folder: Path
    steps: int
    """Total number of updates."""
    state: claims.State = "waiting"
    last_row: dict[str, Any] = field(default_factory=dict)
    """The last training row of its metrics, {} before the first."""
    problem: str = ""
    """Why it failed, in one line."""

    @property
    def step(self) -> int:
        """Updates made so far."""
        return self.steps if self.state == "done" else int(self.last_row.get("step", 0))

    def read_row(self) -> None:
        """Reads the last training row, if there is a new one."""
        self.last_row = newest_row(RunFolder(self.folder).metrics, "train") or self.last_row


@dataclass(frozen=True)
class Execution:
    """How the jobs of a study are run."""

    out: Path
    jobs: int
    """Jobs at a time."""
    threads: int
    """Threads of each job."""
    leases: Leases
    panel_identity: dict[str, Any]
    """The identity of the panel that scores the runs."""


def job_status(out: Path, job: Job, plan: Mapping[str, Any]) -> JobStatus:
    """Returns a job's status when the study starts: done if it is trained and scored, else waiting.

    Raises:
        RunFolderError: The run's score.json is damaged.
    """
    folder, fixed = job.folder(out), plan["fixed"]
    status = JobStatus(job, folder, fixed["arms"][job.arm]["steps"][fixed["budgets"].index(job.share)])
    status.read_row()
    if is_scored(folder, plan["panel"]["identity"]):
        status.state = "done"
    return status


def run_jobs(
    execution: Execution,
    statuses: Sequence[JobStatus],
    *,
    stopping: Callable[[], bool],
    refresh: Callable[[], None],
    on_end: Callable[[JobStatus], None],
) -> None:
    """Runs the waiting jobs in order. A job that fails does not stop the others.

    Args:
        execution: How to run them.
        statuses: All jobs; their state, last row and problem are updated in place.
        stopping: Returns True once the study is to stop.
        refresh: Called several times a second.
        on_end: Called with each job that has ended.
    """
    status_of: dict[claims.Job, JobStatus] = {}
    for status in statuses:
        if status.state == "waiting":
            arguments = execution.out, status.job, execution.threads
            job = claims.Job(str(status.job), worker.run_job, arguments, output_file(status))
            status_of[job] = status
    todo = claims.Claims(
        status_of, execution.leases, lambda job: is_scored(status_of[job].folder, execution.panel_identity)
    )

    def update() -> None:
        for job, status in status_of.items():
            status.state = job.state
            if job.state == "running":
                status.read_row()
        refresh()

    for job in jobs.run_parallel(
        todo,
        execution.jobs,
        threads=execution.threads,
        say=lambda line: None,
        stop=stopping,
        on_poll=update,
    ):
        status = status_of[job]
        status.state = job.state
        status.read_row()
        status.problem = "" if job.error is None else str(job.error)
        on_end(status)


def output_file(status: JobStatus) -> Path:
    """Returns the path of the file, next to the run folder, that receives the output of the job's worker."""
    return status.folder.with_name(f"{status.folder.name}.out")


def is_scored(folder: Path, identity: dict[str, Any]) -> bool:
    """Whether a run is fully trained, and scored with the panel of this `identity`.

    Raises:
        RunFolderError: The run's score.json is damaged.
    """
    if not RunFolder(folder).score.exists():
        return False
    record = durable.read_json(
        RunFolder(folder).score, RunFolderError, fix="Delete it to score the run again"
    )
    return bool(isinstance(record, dict) and record.get("panel") == identity)
