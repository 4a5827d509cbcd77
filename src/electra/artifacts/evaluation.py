"""Evaluations and analyses: what models are worth on suites of tasks, and what probes found in them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from electra.artifacts.folder import Finding, Folder, problem_of
from electra.artifacts.tuning import TuningFolder
from electra.durable import read_json
from electra.errors import RunFolderError

ENDING = ".probe.json"


class AnalysisFolder(Folder):
    """What `electra analyze` writes: NAME.probe.json of each probe, analysis.html, figures/."""

    KIND = "analysis"
    RECORD = f"*{ENDING}"  # as many as probes were run

    @classmethod
    def is_at(cls, path: Path) -> bool:
        return any(path.glob(cls.RECORD))

    def probe(self, name: str) -> Path:
        return self.path / f"{name}{ENDING}"

    def probes(self) -> dict[str, Path]:
        """The record of each probe that was run, by its name."""
        return {path.name.removesuffix(ENDING): path for path in sorted(self.path.glob(self.RECORD))}

    @property
    def page(self) -> Path:
        return self.path / "analysis.html"

    @property
    def record(self) -> dict[str, Any]:
        return {name: read_json(path, RunFolderError) for name, path in self.probes().items()}

    def check(self) -> Iterator[Finding]:
        for path in self.probes().values():
            yield Finding(path, "record of a probe", problem_of(partial(read_json, path, RunFolderError)))

    def describe(self) -> list[str]:
        records = self.record.values()
        names = dict.fromkeys(
            str(model.get("name")) for record in records for model in record.get("models", [])
        )
        return [f"probes: {', '.join(self.probes())}", f"models: {', '.join(names)}"]


class EvaluationFolder(Folder):
    """What `electra evaluate` writes.

    OUT/  evaluation.json    the plan and all numbers, written anew after every task
          evaluation.tsv     the table        evaluation.html   the page        data/   training files joined
          tasks/MODEL/TASK/  a fine-tuning
          probes/MODEL/      an analysis
    """

    KIND = "evaluation"
    RECORD = "evaluation.json"
    IDENTITY = ("plan",)

    @property
    def table(self) -> Path:
        return self.path / "evaluation.tsv"

    @property
    def page(self) -> Path:
        return self.path / "evaluation.html"

    @property
    def data(self) -> Path:
        return self.path / "data"

    def task(self, model: str, task: str) -> TuningFolder:
        return TuningFolder(self.path / "tasks" / model / task)

    def probes(self, model: str) -> AnalysisFolder:
        return AnalysisFolder(self.path / "probes" / model)

    def parts(self) -> Iterator[Folder]:
        tunings = (TuningFolder(path) for path in sorted((self.path / "tasks").glob("*/*")))
        analyses = (AnalysisFolder(path) for path in sorted((self.path / "probes").glob("*")))
        yield from (part for part in (*tunings, *analyses) if part.exists())

    def describe(self) -> list[str]:
        plan = self.record.get("plan", {})
        done = sum(1 for part in self.parts() if isinstance(part, TuningFolder) and part.results.is_file())
        return [
            str(plan.get("suite")),
            f"models: {', '.join(plan.get('models', {}))}",
            f"tasks: {', '.join([*plan.get('tasks', {}), *plan.get('probes', {})])}",
            f"{done} fine-tunings finished",
        ]
