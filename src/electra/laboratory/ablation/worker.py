"""One run of a study: train the arm, then score its encoder with the panel.

The run folder is what electra pretrain would make of the same recipe, checkpoints included, so a run that was
stopped or killed resumes from its last checkpoint.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from electra.artifacts.run import RunFolder
from electra.artifacts.study import StudyFolder
from electra.data.store import TokenStore
from electra.data.tokenizer import Tokenizer
from electra.foundation import durable
from electra.foundation.errors import Interrupted, RunFolderError
from electra.foundation.progress import Say
from electra.foundation.signals import Stop
from electra.laboratory.ablation import panel
from electra.laboratory.ablation.plan import Job, job_recipe, read_plan
from electra.training.distributed import World
from electra.training.loop import train
from electra.training.run import Run
from electra.training.start import start

PATIENCE = 60.0  # seconds for the worker of a study that was killed to save and let go of the run


def run_job(out: Path, job: Job, threads: int, *, say: Say, stop: Stop) -> None:
    """Train and score; raises Interrupted when asked to stop before the end."""
    plan, folder = read_plan(out), job.folder(out)
    with ExitStack() as held:
        _lock(held, folder)
        store = TokenStore.open(plan["store"], Tokenizer.load(StudyFolder(out).tokenizer))
        if not RunFolder(folder).tokenizer.exists():
            store.tokenizer.save(RunFolder(folder).tokenizer)  # so that the run can be used by itself
        with start(job_recipe(plan, job, threads), folder, store, World(), name=plan["recipe"]) as run:
            if not train(run, stop):
                raise Interrupted(folder)
            run.telemetry.event(
                run.step, "finished", f"finished {run.step} steps in {run.seconds:.0f} s of training"
            )
            record = score(run, plan["panel"], job.seed, stop)
            if record is None:
                raise Interrupted(folder)
        durable.commit_json(RunFolder(folder).score, record)


def score(run: Run, chosen: dict[str, Any], seed: int, stop: Stop) -> dict[str, Any] | None:
    """The panel's scores of the run's full-size encoder; None when asked to stop."""
    data, began = Path(chosen["folder"]), time.perf_counter()
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
    for name in chosen["tasks"]:
        found = panel.TASKS[name].score(subject) if not stop() else None
        if found is None:
            return None
        scores[name] = found
        run.telemetry.say(f"panel: {name} {found['value']:.4f}")
    return {"panel": chosen["identity"], "scores": scores, "seconds": round(time.perf_counter() - began, 1)}


def _lock(held: ExitStack, folder: Path) -> None:
    """Hold the run folder; a worker that still saves there is waited for."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            held.enter_context(durable.lock(folder))
            return
        except RunFolderError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.2)
