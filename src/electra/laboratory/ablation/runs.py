"""The runs of a study, as pieces of work: each trains an arm, then scores its encoder with the panel.

A run folder has the form of one written by `electra pretrain`, checkpoints included, so an interrupted run
resumes from its last checkpoint. Its score.json is written last.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from typing_extensions import override

from electra.artifacts.ledger import newest_row
from electra.artifacts.run import RunFolder
from electra.artifacts.study import StudyFolder
from electra.data.store import TokenStore
from electra.data.tokenizer import Tokenizer
from electra.foundation import durable
from electra.foundation.errors import Interrupted, RunFolderError
from electra.foundation.progress import Say
from electra.foundation.signals import Stop
from electra.foundation.work import Piece
from electra.laboratory.ablation import panel
from electra.laboratory.ablation.plan import Job, job_recipe, read_plan, steps_of_job
from electra.training.compilation import uncompiled
from electra.training.distributed import World
from electra.training.loop import train
from electra.training.run import Run
from electra.training.start import start


@dataclass(frozen=True, kw_only=True)
class StudyRun(Piece):
    """A run of a study."""

    job: Job
    steps: int
    """Total number of updates."""
    panel_identity: Mapping[str, Any]
    """The identity of the panel that scores the run."""

    @override
    def is_finished(self) -> bool:
        """Whether the run is fully trained and scored with the panel."""
        path = self.folder / self.record
        if not path.exists():
            return False
        record = durable.read_json(path, RunFolderError, fix="Delete it to score the run again")
        return isinstance(record, dict) and record.get("panel") == self.panel_identity

    @property
    def step(self) -> int:
        """Updates made so far."""
        row = newest_row(RunFolder(self.folder).metrics, "train") or {}
        return self.steps if self.is_finished() else int(row.get("step", 0))


def runs_of(out: Path, plan: Mapping[str, Any], jobs: Sequence[Job], threads: int = 1) -> list[StudyRun]:
    """Returns the runs of these jobs, with `threads` threads each."""
    return [
        StudyRun(
            str(job),
            job.folder(out),
            RunFolder(job.folder(out)).score.name,
            run_job,
            (out.resolve(), job, threads),
            job=job,
            steps=steps_of_job(plan, job),
            panel_identity=plan["panel"]["identity"],
        )
        for job in jobs
    ]


def run_job(out: Path, job: Job, threads: int, *, say: Say, stop: Stop) -> None:
    """Trains a job's arm and scores it.

    Raises Interrupted if a stop was requested before the end; rerunning resumes from the last checkpoint.
    """
    plan, folder = read_plan(out), job.folder(out)
    with durable.lock(folder):
        store = TokenStore.open(plan["store"], Tokenizer.load(StudyFolder(out).tokenizer))
        if not RunFolder(folder).tokenizer.exists():
            store.tokenizer.save(RunFolder(folder).tokenizer)  # makes the run usable by itself
        recipe, name = job_recipe(plan, job, threads), plan["recipe"]
        shown = partial(_say, say, job)
        with start(recipe, folder, store, World(), name=name, say=shown, progress=shown) as run:
            if not train(run, stop):
                raise Interrupted(folder)
            message = f"finished {run.step} steps in {run.seconds:.0f} s of training"
            run.telemetry.record_event(run.step, "finished", message)
            record = score(run, plan["panel"], job.seed, stop)
        durable.commit_json(RunFolder(folder).score, record)


def _say(say: Say, job: Job, line: str, share: float | None = None) -> None:
    say(f"{job}: {line}")


def score(run: Run, panel_plan: Mapping[str, Any], seed: int, stop: Stop) -> dict[str, Any]:
    """Returns the contents of score.json: the scores of the run's full-size encoder on the panel's tasks.

    `panel_plan` is the study's description of the panel (`panel.panel_record`).
    """
    data, began, scores = Path(panel_plan["folder"]), time.perf_counter(), dict[str, Any]()
    encoder, tokenizer, say = run.pair.main.encoder, run.store.tokenizer, run.telemetry.say
    for name in panel_plan["tasks"]:
        if stop():
            raise Interrupted(run.folder)
        with uncompiled():  # the inputs have many shapes, and each would be compiled
            if name in panel.FROZEN_TASKS:
                scores[name] = panel.score_frozen(encoder, tokenizer, name, data)
            else:
                scores[name] = panel.score_finetuned(run.folder, name, data, seed, say=say, stop=stop)
        say(f"panel: {name} {scores[name]['value']:.4f}")
    seconds = round(time.perf_counter() - began, 1)
    return {"panel": panel_plan["identity"], "scores": scores, "seconds": seconds}
