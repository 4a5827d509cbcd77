"""The steps of an evaluation, one task or probe for one model each: in turn, or several side by side in
processes of their own.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import queue
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electra import analysis, durable, machine
from electra.analysis.contract import Model
from electra.analysis.contract.record import ENDING, run_probe
from electra.config import build
from electra.errors import DiskError, ElectraError, RunFailed, RunFolderError
from electra.evaluation import floors
from electra.evaluation.data import Found, join_train
from electra.evaluation.suite import ProbeEntry, TaskEntry
from electra.evaluation.table import Entrant, Layout
from electra.finetuning.runner import RESULTS, finetune
from electra.finetuning.settings import Settings
from electra.model.precision import pick_device
from electra.signals import StopRequest

Say = Callable[[str], None]
Stop = Callable[[], bool]
POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Job:
    """A task whose data are there."""

    entry: TaskEntry
    found: Found
    version: int
    settings: Mapping[str, Any]


Asked = tuple[ProbeEntry, dict[str, list[Path]]]  # a probe and its data
Todo = Job | Asked


@dataclass(frozen=True)
class Outcome:
    stopped: bool = False  # before its end, when asked to
    problem: str = ""  # why it could not be done


@dataclass(frozen=True)
class Step:
    """One task, or one probe, for one model."""

    entrant: Entrant
    todo: Todo
    layout: Layout
    seeds: int
    device: str

    @property
    def name(self) -> str:
        return self.todo.entry.name if isinstance(self.todo, Job) else self.todo[0].name

    def done(self) -> bool:
        if not isinstance(self.todo, Job):
            return (self.layout.probes(self.entrant) / f"{self.name}{ENDING}").exists()
        results = self.layout.task(self.entrant, self.name) / RESULTS
        seeds = 1 if self.entrant.init == "floor" else self.seeds
        return results.exists() and set(range(seeds)) <= set(
            durable.read_json(results, RunFolderError)["seeds"]
        )

    def run(self, say: Say, stop: Stop) -> Outcome:
        """A task that cannot be done is told and left, and the others go on; a full disk ends it all."""

        def tell(line: str) -> None:
            say(f"{self.name}, {self.entrant.name}: {line}")

        if stop():
            return Outcome(stopped=True)
        try:
            if self.done():
                tell("done before")
                return Outcome()
            return Outcome(
                stopped=not (
                    self.finetune(self.todo, tell, stop)
                    if isinstance(self.todo, Job)
                    else self.probe(*self.todo)
                )
            )
        except DiskError:
            raise
        except ElectraError as problem:
            tell(f"failed, {problem}")
            return Outcome(problem=str(problem))
        finally:
            gc.collect()  # a model and its tokenised data: gone before the next are made

    def finetune(self, job: Job, say: Say, stop: Stop) -> bool:
        given = {
            "task": job.entry.task,
            "data": join_train(job.found, self.layout.out / "data" / f"{job.entry.name}-train.json"),
            "dev": job.found.dev,
            "test": job.found.test,
            "also": job.found.also,
            "out": self.layout.task(self.entrant, job.entry.name),
            "seeds": self.seeds,
            "device": self.device,
            "init": "pretrained" if self.entrant.init == "floor" else self.entrant.init,
        }
        settings = build(Settings, {**job.settings, **given}, where=f"{job.entry.name}.settings")
        if self.entrant.init == "floor":
            durable.commit_json(settings.out / RESULTS, floors.measure(self.entrant.name, settings))
            return True
        return finetune(self.entrant.source, settings, say, stop) is not None

    def probe(self, entry: ProbeEntry, data: Mapping[str, Sequence[Path]]) -> bool:
        model = Model(self.entrant.name, self.entrant.source, device=pick_device(self.device))
        probe = analysis.create(entry.name, entry.options)
        run_probe(
            entry.name,
            probe,
            [model],
            data,
            self.layout.probes(self.entrant),
            progress=lambda what, share: None,
        )
        return True


def in_turn(steps: Sequence[Step], say: Say, stop: Stop) -> Iterator[tuple[Step, Outcome]]:
    for step in steps:
        outcome = step.run(say, stop)
        yield step, outcome
        if outcome.stopped:
            return


def side_by_side(steps: Sequence[Step], jobs: int, say: Say, stop: Stop) -> Iterator[tuple[Step, Outcome]]:
    """The steps as they end, `jobs` of them at a time. When asked to stop, those at hand save and end."""
    context = multiprocessing.get_context("spawn")
    lines, stopping = context.Queue(), context.Event()
    cores = machine.cores()
    given = (lines, stopping, max(1, cores // jobs), os.getpid())
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_prepare, initargs=given) as pool:
        signal.pthread_sigmask(
            signal.SIG_BLOCK, {signal.SIGINT}
        )  # the workers begin with it; until _prepare a Ctrl-C would end them
        try:
            steps_of: dict[Future[Outcome], Step] = {pool.submit(_carry_out, step): step for step in steps}
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        left = set(steps_of)
        try:
            while left:
                ended, left = wait(left, POLL_SECONDS, FIRST_COMPLETED)
                _pass_on(lines, say)
                for future in ended:
                    yield steps_of[future], future.result()
                if stop():
                    stopping.set()
        except BrokenProcessPool:
            if stop():
                yield steps[-1], Outcome(stopped=True)
                return
            raise RunFailed(
                "a process was killed",
                where="electra evaluate",
                fix="For want of memory? Give fewer --jobs; the same command continues",
            ) from None
        finally:
            stopping.set()
            pool.shutdown(cancel_futures=True)
            _pass_on(lines, say)


def _pass_on(lines: Any, say: Say) -> None:
    try:
        while True:
            say(lines.get_nowait())
    except queue.Empty:
        return


class _Worker:
    """What a worker process has besides its steps."""

    lines: Any
    stopping: Any
    parent: int


def _prepare(lines: Any, stopping: Any, threads: int, parent: int) -> None:
    import torch

    _Worker.lines, _Worker.stopping, _Worker.parent = lines, stopping, parent
    torch.set_num_threads(threads)
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches all of the terminal's processes; the parent passes it on


def _orphaned() -> bool:
    return os.getppid() != _Worker.parent


def _carry_out(step: Step) -> Outcome:
    try:
        with StopRequest() as told:
            return step.run(
                _Worker.lines.put,
                lambda: _Worker.stopping.is_set() or _orphaned() or told.received is signal.SIGTERM,
            )
    finally:
        if _orphaned():  # nobody waits for the answer, and the next step is nobody's
            os._exit(1)
