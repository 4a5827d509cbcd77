"""Runs the jobs of a study in worker processes, as many at a time as asked, until all are done or somebody
asks to stop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from electra.artifacts.ledger import newest_row
from electra.artifacts.run import RunFolder
from electra.foundation import durable, jobs
from electra.foundation.errors import RunFolderError
from electra.laboratory.ablation import worker
from electra.laboratory.ablation.plan import Job


@dataclass
class Standing:
    """Where one job stands, as its run folder tells."""

    job: Job
    folder: Path
    steps: int
    state: jobs.State = "waiting"
    row: dict[str, Any] = field(default_factory=dict)  # the last training row
    problem: str = ""

    @property
    def step(self) -> int:
        return self.steps if self.state == "done" else int(self.row.get("step", 0))


@dataclass(frozen=True)
class Crew:
    """How a study is carried out."""

    out: Path
    jobs: int  # at a time
    threads: int  # of each


def stand(out: Path, job: Job, plan: Mapping[str, Any]) -> Standing:
    """A job as an earlier start of the study left it."""
    folder, fixed = job.folder(out), plan["fixed"]
    progress = Standing(job, folder, fixed["arms"][job.arm]["steps"][fixed["budgets"].index(job.share)])
    progress.row = newest_row(RunFolder(folder).metrics, "train") or {}
    if scored(folder, plan["panel"]["identity"]):
        progress.state = "done"
    return progress


def carry_out(
    crew: Crew,
    standing: Sequence[Standing],
    *,
    stopping: Callable[[], bool],
    look: Callable[[], None],
    finished: Callable[[Standing], None],
) -> None:
    """Work through the jobs in their order. `look` is called several times a second, `finished` after each
    job that has ended. A job that fails does not keep the others from running.
    """
    begun = {
        jobs.Job(str(one.job), worker.run_job, (crew.out, one.job, crew.threads), said_by(one)): one
        for one in standing
        if one.state == "waiting"
    }

    def watch() -> None:
        for job, one in begun.items():
            one.state = job.state
            if job.state == "running":
                one.row = newest_row(RunFolder(one.folder).metrics, "train") or one.row
        look()

    for job in jobs.side_by_side(
        begun, crew.jobs, threads=crew.threads, say=lambda line: None, stop=stopping, look=watch
    ):
        one = begun[job]
        one.state, one.row = job.state, newest_row(RunFolder(one.folder).metrics, "train") or one.row
        one.problem = "" if job.error is None else str(job.error)
        finished(one)


def said_by(progress: Standing) -> Path:
    """What the worker printed: beside its run folder, which a run wants for itself."""
    return progress.folder.with_name(f"{progress.folder.name}.out")


def scored(folder: Path, identity: dict[str, Any]) -> bool:
    """Whether a job is done: trained to its end, and scored by this panel."""
    if not RunFolder(folder).score.exists():
        return False
    record = durable.read_json(
        RunFolder(folder).score, RunFolderError, fix="Delete it: the scores are then made again"
    )
    return bool(isinstance(record, dict) and record.get("panel") == identity)
