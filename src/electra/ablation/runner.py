"""Runs the jobs of a study in worker processes, as many at a time as asked, until all are done or somebody
asks to stop.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from electra import durable
from electra.ablation.plan import Job
from electra.ablation.worker import SCORE
from electra.errors import RunFolderError

State = Literal["waiting", "running", "done", "failed", "stopped"]
POLL_SECONDS = 0.2
TAIL = 1 << 14  # bytes of metrics.jsonl that hold its last rows


@dataclass
class Progress:
    """Where one job stands, as its run folder tells."""

    job: Job
    folder: Path
    steps: int
    state: State = "waiting"
    row: dict[str, Any] = field(default_factory=dict)  # the last training row
    problem: str = ""
    process: subprocess.Popen[bytes] | None = None

    @property
    def step(self) -> int:
        return self.steps if self.state == "done" else int(self.row.get("step", 0))


@dataclass(frozen=True)
class Crew:
    """How a study is carried out."""

    out: Path
    jobs: int  # at a time
    threads: int  # of each


def stand(out: Path, job: Job, plan: Mapping[str, Any]) -> Progress:
    """A job as an earlier start of the study left it."""
    folder, fixed = job.folder(out), plan["fixed"]
    progress = Progress(job, folder, fixed["arms"][job.arm]["steps"][fixed["budgets"].index(job.share)])
    progress.row = last_row(folder) or {}
    if scored(folder, plan["panel"]["identity"]):
        progress.state = "done"
    return progress


def carry_out(
    crew: Crew,
    jobs: Sequence[Progress],
    *,
    stopping: Callable[[], bool],
    look: Callable[[], None],
    finished: Callable[[Progress], None],
) -> None:
    """Work through the jobs in their order. `look` is called all the time, `finished` after each job that has
    ended.

    A job that fails does not keep the others from running. When `stopping`, the workers save and end.
    """
    waiting = [progress for progress in jobs if progress.state == "waiting"]
    running: list[Progress] = []
    asked = False
    try:
        while running or (waiting and not asked):
            if stopping() and not asked:
                asked = True
                for progress in running:
                    assert progress.process is not None
                    progress.process.terminate()
            while waiting and len(running) < crew.jobs and not asked:
                running.append(_start(crew, waiting.pop(0)))
            for progress in list(running):
                progress.row = last_row(progress.folder) or progress.row
                if _ended(progress, asked):
                    running.remove(progress)
                    finished(progress)
            look()
            time.sleep(POLL_SECONDS)
    finally:
        for progress in running:  # an error of ours: the workers notice that their pipe closes, save and end
            assert progress.process is not None and progress.process.stdin is not None
            progress.process.stdin.close()


def _start(crew: Crew, progress: Progress) -> Progress:
    job = progress.job
    with durable.explain_disk_errors(progress.folder):
        progress.folder.parent.mkdir(parents=True, exist_ok=True)
    arguments = [str(crew.out), job.arm, str(job.share), str(job.seed), str(crew.threads)]
    progress.process = open_worker(arguments, crew.threads, said_by(progress))
    progress.state = "running"
    return progress


def open_worker(arguments: Sequence[str], threads: int, said: Path) -> subprocess.Popen[bytes]:
    with durable.explain_disk_errors(said), open(said, "wb") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "electra.ablation.worker", *arguments],
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=subprocess.STDOUT,
            process_group=0,  # so that Ctrl-C reaches the study alone, which passes it on once
        )


def _ended(progress: Progress, asked: bool) -> bool:
    assert progress.process is not None
    code = progress.process.poll()
    if code is None:
        return False
    assert progress.process.stdin is not None
    progress.process.stdin.close()
    if code == 0 and (progress.folder / SCORE).exists():
        progress.state = "done"
    elif asked:
        progress.state = "stopped"
    else:
        progress.state, progress.problem = "failed", _problem(progress, code)
    return True


def _problem(progress: Progress, code: int) -> str:
    lines = [line for line in said_by(progress).read_text(errors="replace").splitlines() if line.strip()]
    if lines and lines[-1].startswith("error: "):
        return lines[-1].removeprefix("error: ")
    return (
        f"the worker was ended by signal {-code}"
        if code < 0
        else f"the worker ended with code {code}, see {said_by(progress)}"
    )


def said_by(progress: Progress) -> Path:
    """What the worker printed: beside its run folder, which a run wants for itself."""
    return progress.folder.with_name(f"{progress.folder.name}.out")


def last_row(folder: Path) -> dict[str, Any] | None:
    """The last training row of a run that may be going on."""
    path = folder / "metrics.jsonl"
    try:
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL))
            tail = file.read()
    except OSError:
        return None
    for line in reversed(tail.splitlines()):
        try:
            row = json.loads(line)
        except ValueError:  # torn at either end
            continue
        if isinstance(row, dict) and row.get("kind") == "train":
            return row
    return None


def scored(folder: Path, identity: dict[str, Any]) -> bool:
    """Whether a job is done: trained to its end, and scored by this panel."""
    if not (folder / SCORE).exists():
        return False
    record = durable.read_json(
        folder / SCORE, RunFolderError, fix="Delete it: the scores are then made again"
    )
    return bool(isinstance(record, dict) and record.get("panel") == identity)
