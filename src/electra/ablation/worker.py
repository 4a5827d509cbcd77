"""One run of a study in a process of its own: train the arm, then score its encoder with the panel.

    python -m electra.ablation.worker OUT ARM SHARE SEED THREADS

The run folder is what electra pretrain would make of the same recipe, checkpoints included, so a run that was
stopped or killed goes on from its last checkpoint. Standard input is a pipe that nobody writes to: when it
closes, the study is gone, and the worker saves and ends.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from electra import durable
from electra.ablation import panel
from electra.ablation.plan import Job, job_recipe, read_plan
from electra.data.store import TokenStore
from electra.data.tokenizer import Tokenizer
from electra.errors import ElectraError, RunFolderError
from electra.signals import StopRequest
from electra.training.distributed import World
from electra.training.loop import train
from electra.training.run import Run, start

SCORE = "score.json"
PATIENCE = 60.0  # seconds for the worker of a study that was killed to save and let go of the run


def main(argv: Sequence[str]) -> int:
    out, job, threads = Path(argv[0]), Job(argv[1], float(argv[2]), int(argv[3])), int(argv[4])
    threading.Thread(target=_stop_with_the_study, daemon=True).start()
    try:
        with StopRequest() as stop:
            return run_job(out, job, threads, stop)
    except ElectraError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except Exception as error:  # the study tells its user the last line, and where the rest is
        traceback.print_exc()
        sys.stderr.write(f"error: {type(error).__name__}: {error}\n")
        return 1


def _stop_with_the_study() -> None:
    os.read(
        sys.stdin.fileno(), 1
    )  # not sys.stdin.read(): its lock, held by a daemon thread, aborts the exit of the interpreter
    os.kill(os.getpid(), signal.SIGTERM)


def run_job(out: Path, job: Job, threads: int, stop: StopRequest) -> int:
    plan = read_plan(out)
    folder = job.folder(out)
    with ExitStack() as held:
        _lock(held, folder)
        store = TokenStore.open(plan["store"], Tokenizer.load(out / "tokenizer"))
        if not (folder / "tokenizer").exists():
            store.tokenizer.save(folder / "tokenizer")  # so that the run can be used by itself
        with start(job_recipe(plan, job, threads), folder, store, World(), name=plan["recipe"]) as run:
            if not train(run, stop):
                return stop.exit_code
            run.telemetry.event(
                run.step, "finished", f"finished {run.step} steps in {run.seconds:.0f} s of training"
            )
            record = score(run, plan["panel"], job.seed, stop)
            if record is None:
                return stop.exit_code
        durable.commit_json(folder / SCORE, record)
    return 0


def score(run: Run, chosen: dict[str, Any], seed: int, stop: StopRequest) -> dict[str, Any] | None:
    """The panel's scores of the run's full-size encoder; None when asked to stop."""
    network = run.pair.discriminator or run.pair.generator
    assert network is not None
    data, began = Path(chosen["folder"]), time.perf_counter()
    subject = panel.Subject(
        network.encoder,
        run.store.tokenizer,
        run.folder,
        data,
        seed,
        run.telemetry.say,
        lambda: stop.received is not None,
    )
    scores: dict[str, Any] = {}
    for name in chosen["tasks"]:
        found = panel.TASKS[name].score(subject) if stop.received is None else None
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
