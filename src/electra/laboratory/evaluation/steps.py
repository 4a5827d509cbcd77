"""The steps of an evaluation: one task or probe for one model each."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electra.artifacts.evaluation import EvaluationFolder
from electra.artifacts.tuning import TuningFolder
from electra.finetuning.runner import floors
from electra.finetuning.runner.all_seeds import finetune
from electra.finetuning.settings import Settings
from electra.foundation import durable
from electra.foundation.config import build
from electra.foundation.errors import RunFolderError
from electra.foundation.options import as_path
from electra.foundation.progress import Say
from electra.foundation.signals import Stop
from electra.laboratory import analysis
from electra.laboratory.analysis.contract import Model
from electra.laboratory.analysis.contract.record import run_probe
from electra.laboratory.evaluation.data import Found, join_train
from electra.laboratory.evaluation.suite import ProbeEntry, TaskEntry
from electra.laboratory.evaluation.table import Entrant
from electra.model.precision import pick_device


@dataclass(frozen=True)
class ReadyTask:
    """A task whose data are there."""

    entry: TaskEntry
    found: Found
    version: int
    settings: Mapping[str, Any]


Asked = tuple[ProbeEntry, dict[str, list[Path]]]  # a probe and its data
Todo = ReadyTask | Asked


@dataclass(frozen=True)
class Step:
    """One task, or one probe, for one model."""

    entrant: Entrant
    todo: Todo
    out: EvaluationFolder
    seeds: int
    device: str

    @property
    def name(self) -> str:
        return self.todo.entry.name if isinstance(self.todo, ReadyTask) else self.todo[0].name

    @property
    def title(self) -> str:
        return f"{self.name}, {self.entrant.name}"

    def done(self) -> bool:
        if not isinstance(self.todo, ReadyTask):
            return self.out.probes(self.entrant.folder).probe(self.name).exists()
        results = self.out.task(self.entrant.folder, self.name).results
        seeds = 1 if self.entrant.init == "floor" else self.seeds
        return results.exists() and set(range(seeds)) <= set(
            durable.read_json(results, RunFolderError)["seeds"]
        )

    def run(self, *, say: Say, stop: Stop) -> None:
        """Do what is not done yet; raises Interrupted when asked to stop before the end."""

        def tell(line: str) -> None:
            say(f"{self.title}: {line}")

        try:
            if self.done():
                tell("done before")
            elif isinstance(self.todo, ReadyTask):
                self.finetune(self.todo, tell, stop)
            else:
                self.probe(*self.todo)
        finally:
            gc.collect()  # a model and its tokenised data: gone before the next are made

    def finetune(self, job: ReadyTask, say: Say, stop: Stop) -> None:
        given = {
            "task": job.entry.task,
            "data": join_train(job.found, self.out.data / f"{job.entry.name}-train.json"),
            "dev": job.found.dev,
            "test": job.found.test,
            "extra_eval": job.found.also,
            "out": self.out.task(self.entrant.folder, job.entry.name).path,
            "seeds": self.seeds,
            "device": self.device,
            "baselines": False,  # they are columns of their own
            "init": "pretrained" if self.entrant.init == "floor" else self.entrant.init,
        }
        settings = build(Settings, {**job.settings, **given}, where=f"{job.entry.name}.settings")
        if self.entrant.init == "floor":
            durable.commit_json(
                TuningFolder(as_path(settings.out)).results, floors.measure(self.entrant.name, settings)
            )
        else:
            finetune(self.entrant.source, settings, say, stop)

    def probe(self, entry: ProbeEntry, data: Mapping[str, Sequence[Path]]) -> None:
        model = Model(self.entrant.name, self.entrant.source, device=pick_device(self.device))
        probe = analysis.create(entry.path, entry.options)
        run_probe(
            entry.path,
            probe,
            [model],
            data,
            self.out.probes(self.entrant.folder).path,
            progress=lambda what, share: None,
        )
