"""The steps of an evaluation: each runs a task or a probe for one model, or helps to train a task's seeds."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electra.artifacts.evaluation import EvaluationFolder
from electra.artifacts.finetuning import FinetuningFolder
from electra.finetuning.runner import baselines
from electra.finetuning.runner.finetune import finetune
from electra.finetuning.settings import Settings
from electra.foundation import durable
from electra.foundation.config import build
from electra.foundation.errors import RunFolderError
from electra.foundation.leases import Leases
from electra.foundation.options import as_path
from electra.foundation.progress import Say, no_progress
from electra.foundation.signals import Stop
from electra.laboratory import analysis
from electra.laboratory.analysis.contract import Model
from electra.laboratory.analysis.contract.record import run_probe
from electra.laboratory.evaluation.data import TaskFiles, join_train
from electra.laboratory.evaluation.suite import ProbeEntry, TaskEntry
from electra.laboratory.evaluation.table import NO_NETWORK, ModelEntry
from electra.model.precision import pick_device


@dataclass(frozen=True)
class ReadyTask:
    """A task whose data have been found."""

    entry: TaskEntry
    files: TaskFiles
    version: int
    """The version of the fine-tuning task."""
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class ReadyProbe:
    """A probe whose data have been found."""

    entry: ProbeEntry
    data: Mapping[str, Sequence[Path]]
    """The files of each input."""


Work = ReadyTask | ReadyProbe


@dataclass(frozen=True)
class Step:
    """One task, or one probe, for one model.

    Several processes can share the fine-tuning of a task with several seeds. The step with `helper` 0 waits
    for all seeds and writes the results; the other steps only train seeds that no other process is training.
    """

    model: ModelEntry
    work: Work
    out: EvaluationFolder
    seeds: int
    device: str
    helper: int = 0

    @property
    def name(self) -> str:
        """The name of the task or probe."""
        return self.work.entry.name

    @property
    def title(self) -> str:
        """The name of the step in messages: task or probe, model, and helper (unless 0)."""
        return f"{self.name}, {self.model.name}" + f", helper {self.helper}" * bool(self.helper)

    def is_done(self) -> bool:
        """Whether the folder holds the result: every seed of a task, or the probe's record.

        A helper's step is also done once every seed that is left is being trained.
        """
        if not isinstance(self.work, ReadyTask):
            return self.out.probes(self.model.folder).probe(self.name).exists()
        folder = self.out.task(self.model.folder, self.name)
        seeds = 1 if self.model.init == NO_NETWORK else self.seeds
        if folder.results.exists():
            return set(range(seeds)) <= set(durable.read_json(folder.results, RunFolderError)["seeds"])
        return self.helper > 0 and not set(self.seeds_left()) - Leases(folder.leases).held().keys()

    def seeds_left(self) -> list[str]:
        """Returns the names of a task's seeds that are not finished, such as "seed 0"."""
        folder = self.out.task(self.model.folder, self.name)
        return [f"seed {number}" for number in range(self.seeds) if not folder.seed(number).exists()]

    def left(self) -> list[str]:
        """Returns a line for each thing left to do, with the process that is working on it, if any.

        Empty if the step is done, and for helpers.
        """
        if self.is_done() or self.helper:
            return []
        step_label = Leases(self.out.leases).label(self.title)
        if not isinstance(self.work, ReadyTask) or self.model.init == NO_NETWORK or self.seeds == 1:
            return [step_label]
        leases = Leases(self.out.task(self.model.folder, self.name).leases)
        return [f"{self.title}, {leases.label(name)}" for name in self.seeds_left()] or [step_label]

    def run(self, *, say: Say, stop: Stop) -> None:
        """Runs the step if it is not done.

        Raises:
            Interrupted: A stop was requested before the end.
        """

        def say_titled(line: str) -> None:
            say(f"{self.name}, {self.model.name}: {line}")

        try:
            if self.is_done():
                if not self.helper:
                    say_titled("already done")
            elif isinstance(self.work, ReadyTask):
                self.finetune(self.work, say_titled, stop)
            else:
                self.probe(self.work)
        finally:
            gc.collect()  # frees the model and its tokenised data before the next step

    def finetune(self, job: ReadyTask, say: Say, stop: Stop) -> None:
        """Fine-tunes the model on a task, or fits the baseline, and writes all_results.json.

        A helper only trains seeds and leaves the results to the step with `helper` 0.
        """
        fixed = {
            "task": job.entry.task,
            "data": join_train(job.files, self.out.data / f"{job.entry.name}-train.json"),
            "dev": job.files.dev,
            "test": job.files.test,
            "extra_eval": job.files.also,
            "out": self.out.task(self.model.folder, job.entry.name).path,
            "seeds": self.seeds,
            "device": self.device,
            "baselines": False,  # they have their own columns
            "init": "random" if self.model.init == "random" else "pretrained",
        }
        if self.model.init == "frozen":
            unused = ("epochs", "dropout", "search", "teacher", "unlabelled", "pooling")
            fixed |= {"head": "frozen", **dict.fromkeys(unused)}
            fixed |= {"teacher_weight": Settings.teacher_weight}
        settings = build(Settings, {**job.settings, **fixed}, where=f"{job.entry.name}.settings")
        if self.model.init == NO_NETWORK:
            durable.commit_json(
                FinetuningFolder(as_path(settings.out)).results, baselines.measure(self.model.name, settings)
            )
        else:
            finetune(self.model.source, settings, say, stop)

    def probe(self, probe: ReadyProbe) -> None:
        """Runs a probe on the model and writes its record."""
        run_probe(
            probe.entry.path,
            analysis.create(probe.entry.path, probe.entry.options),
            [Model(self.model.name, self.model.source, device=pick_device(self.device))],
            probe.data,
            self.out.probes(self.model.folder).path,
            progress=no_progress,
        )
