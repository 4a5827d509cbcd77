"""What a run will cost in time, measured before it starts: some updates, a held-out evaluation and a
checkpoint, all thrown away.

A budget of time is turned into steps with this, once. The steps then stand: the learning rate's schedule and
an exact resume hang on them.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from electra.durable import REHEARSAL
from electra.training import checkpoint
from electra.training.distributed import World
from electra.training.loop import heldout_metrics, update
from electra.training.run import Run
from electra.training.telemetry import Telemetry

SECONDS, LONGEST = 3.0, 30.0  # updates are measured for this long at least, at most
SHARE = 0.02  # in between: of a budget of time


@dataclass(frozen=True)
class Costs:
    """In seconds."""

    update: float
    evaluation: float = 0.0
    checkpoint: float = 0.0

    def steps_in(self, seconds: float, run: Run) -> float:
        """Updates that fit, with the evaluations and checkpoints that belong to them. At least half of the
        time is for updates: a short budget on a slow machine would buy nothing but evaluations, so there it
        is exceeded.
        """
        evaluations, checkpoints = run.recipe.training.evaluate_every, run.recipe.training.checkpoint_every
        each = (
            self.update
            + (self.evaluation / evaluations if evaluations else 0)
            + (self.checkpoint / checkpoints if checkpoints else 0)
        )
        once = (1 if evaluations else 11) * self.evaluation + (0 if checkpoints else 20) * self.checkpoint
        return max(seconds - once, seconds / 2) / each

    def __str__(self) -> str:
        parts = {"an update": self.update, "an evaluation": self.evaluation, "a checkpoint": self.checkpoint}
        return ", ".join(f"{name} {seconds:.2g} s" for name, seconds in parts.items())


def measure(run: Run, budget: float) -> Costs:
    """The run is no longer fresh afterwards: the caller builds it anew."""
    update = seconds_per_step(run, min(max(SECONDS, SHARE * budget), LONGEST))
    return Costs(update, _evaluation(run), _checkpoint(run))


def seconds_per_step(run: Run, seconds: float | None = None) -> float:
    """Mean seconds of an update after the first two, each phase of the training weighted by its share."""
    total, first, average = 1 << 30, 0, 0.0
    while first < total:
        first, end = run.objective.phase(first, total)
        alone = replace(
            run,
            world=World(),
            telemetry=Telemetry(run.folder, leads=False, total_steps=0),
            total_steps=total,
            step=first,
        )
        update(alone)
        update(alone)
        began, updates = time.perf_counter(), 0
        while updates < 2 or time.perf_counter() - began < (SECONDS if seconds is None else seconds):
            update(alone)
            updates += 1
        average += (time.perf_counter() - began) / updates * (end - first) / total
        first = end
    return average / run.world.size


def _evaluation(run: Run) -> float:
    # the first batch pays for warming up, once; every evaluation does not
    heldout_metrics(run, lambda: False, rows=run.micro_batch_size)
    began = time.perf_counter()
    heldout_metrics(run, lambda: False)
    return time.perf_counter() - began


def _checkpoint(run: Run) -> float:
    run.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=REHEARSAL, dir=run.folder) as folder:
        began = time.perf_counter()
        checkpoint.write(Path(folder), run.pair, run.optimizer, {"step": 0}, keep=1)
        return time.perf_counter() - began
