"""One run of a study: trains the arm, then scores its encoder with the panel.

The run folder has the form of one written by `electra pretrain`, checkpoints included, so an interrupted run
resumes from its last checkpoint.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from electra.artifacts.run import RunFolder
from electra.artifacts.session import wait_for_lock
from electra.artifacts.study import StudyFolder
from electra.data.store import TokenStore
from electra.data.tokenizer import Tokenizer
from electra.foundation import durable
from electra.foundation.errors import Interrupted
from electra.foundation.progress import Say
from electra.foundation.signals import Stop
from electra.laboratory.ablation import panel
from electra.laboratory.ablation.plan import Job, job_recipe, read_plan
from electra.training.compilation import uncompiled
from electra.training.distributed import World
from electra.training.loop import train
from electra.training.run import Run
from electra.training.start import start

LOCK_TIMEOUT = 60.0  # seconds that the worker of a killed study may take to save and release its run


def run_job(out: Path, job: Job, threads: int, *, say: Say, stop: Stop) -> None:
    """Trains a job's arm and scores it.

    Raises:
        DataError: The files of a task of the panel are missing.
        Interrupted: A stop was requested before the end. Rerunning resumes from the last checkpoint.
        RunFailed: Training failed, for example because the loss became non-finite.
        RunFolderError: Another process keeps the run folder locked.
        StoreError: The store is missing or damaged.
    """
    plan, folder = read_plan(out), job.folder(out)
    with ExitStack() as stack:
        deadline = time.monotonic() + LOCK_TIMEOUT
        wait_for_lock(stack, folder, say, lambda: time.monotonic() > deadline)
        store = TokenStore.open(plan["store"], Tokenizer.load(StudyFolder(out).tokenizer))
        if not RunFolder(folder).tokenizer.exists():
            store.tokenizer.save(RunFolder(folder).tokenizer)  # makes the run usable by itself
        with start(job_recipe(plan, job, threads), folder, store, World(), name=plan["recipe"]) as run:
            if not train(run, stop):
                raise Interrupted(folder)
            run.telemetry.record_event(
                run.step, "finished", f"finished {run.step} steps in {run.seconds:.0f} s of training"
            )
            record = score(run, plan["panel"], job.seed, stop)
            if record is None:
                raise Interrupted(folder)
        durable.commit_json(RunFolder(folder).score, record)


def score(run: Run, panel_plan: dict[str, Any], seed: int, stop: Stop) -> dict[str, Any] | None:
    """Scores the run's full-size encoder on each task of the panel.

    `panel_plan` is the study's description of the panel (`panel.panel_record`).

    Returns:
        The contents of score.json, or None if a stop was requested.

    Raises:
        DataError: A task's files are missing.
    """
    data, began = Path(panel_plan["folder"]), time.perf_counter()
    subject = panel.Subject(
        run.pair.main.encoder,
        run.store.tokenizer,
        run.folder,
        data,
        seed,
        run.telemetry.say,
        stop,
    )
    scores: dict[str, Any] = {}
    for name in panel_plan["tasks"]:
        with uncompiled():  # the inputs have many shapes, and each would be compiled
            task_score = panel.TASKS[name].score(subject) if not stop() else None
        if task_score is None:
            return None
        scores[name] = task_score
        run.telemetry.say(f"panel: {name} {task_score['value']:.4f}")
    return {
        "panel": panel_plan["identity"],
        "scores": scores,
        "seconds": round(time.perf_counter() - began, 1),
    }
