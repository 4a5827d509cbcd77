"""Evaluations and analyses: what models are worth on suites of tasks, and what probes found in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from electra.artifacts.folder import FIGURES, File, Finding, Folder, problem_of
from electra.artifacts.session import LOG
from electra.artifacts.tuning import TuningFolder
from electra.foundation.config import differences
from electra.foundation.durable import read_json
from electra.foundation.errors import RunFolderError

ENDING = ".probe.json"
PAGE = "analysis.html"


class AnalysisFolder(Folder):
    """What `electra analyze` writes: NAME.probe.json of each probe, log.txt, analysis.html, figures/.

    Each record tells by itself what was asked; one that is asked otherwise is replaced.
    """

    KIND = "analysis"
    RECORD = f"*{ENDING}"  # as many as probes were run
    BESIDE = (LOG, PAGE, FIGURES)  # where the only record was deleted, to ask again

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
        return self.path / PAGE

    @property
    def record(self) -> dict[str, Any]:
        return {name: read_json(path, RunFolderError) for name, path in self.probes().items()}

    def check(self) -> Iterator[Finding]:
        for path in self.probes().values():
            yield Finding(path, "record of a probe", problem_of(partial(read_json, path, RunFolderError)))
        yield from self.check_digests()

    def facts(self) -> Sequence[tuple[str, Any]]:
        models = dict.fromkeys(
            str(model.get("name")) for found in self.record.values() for model in found.get("models", [])
        )
        return (("probes", ", ".join(self.probes())), ("models", ", ".join(models)))


class EvaluationFolder(Folder):
    """What `electra evaluate` writes.

    OUT/  evaluation.json    the plan and all numbers, written anew after every task
          evaluation.tsv     the table        evaluation.html   the page        data/   training files joined
          tasks/MODEL/TASK/  a fine-tuning
          probes/MODEL/      an analysis
    """

    KIND = "evaluation"
    RECORD = "evaluation.json"
    PARTS = ("models", "tasks", "probes")  # of its plan

    table = File("evaluation.tsv")
    data = File("data")

    @property
    def plan(self) -> dict[str, Any]:
        """What it was asked: suite, models, tasks and probes."""
        plan = self.record.get("plan")
        if not isinstance(plan, dict) or not all(isinstance(plan.get(part), dict) for part in self.PARTS):
            path = self.path / self.RECORD
            raise RunFolderError("not the record of an evaluation", where=path, fix="Choose another `out`")
        return plan

    def differences(self, record: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
        """Models and tasks may come and go; those that stay must be what they were, wherever they lie."""
        old, new = self.plan, record["plan"]
        changed = differences({"suite": old.get("suite")}, {"suite": new["suite"]})
        for part in self.PARTS:
            for name in old[part].keys() & new[part].keys():
                changed += differences(old[part][name], new[part][name], f"{name}.")
        kept = (change for change in changed if not change[0].endswith(".source"))
        return sorted(kept, key=lambda change: change[0])

    def with_earlier(self, plan: Mapping[str, Any]) -> dict[str, Any]:
        """A plan with all that the folder has ever held: what is left out now is not forgotten."""
        old = self.plan if self.exists() else plan
        return {**plan, **{part: {**old[part], **plan[part]} for part in self.PARTS}}

    @property
    def page(self) -> Path:
        return self.path / "evaluation.html"

    def digested(self) -> list[Path]:
        """Scores of what needs no network lie alone where the others have a fine-tuning."""
        alone = (TuningFolder(path) for path in sorted((self.path / "tasks").glob("*/*")))
        floors = [folder.results for folder in alone if not folder.exists()]
        return [self.path / self.RECORD, self.table, *sorted(self.data.glob("*")), *floors]

    def check(self) -> Iterator[Finding]:
        yield from super().check()
        yield from self.check_digests()
        for path in sorted((self.path / "tasks").glob("*/*")):
            tuning = TuningFolder(path)
            if not tuning.exists() and (tuning.model.path.is_dir() or tuning.seeds()):
                yield Finding(path / tuning.RECORD, f"record of a {tuning.KIND}", "is missing")

    def task(self, model: str, task: str) -> TuningFolder:
        return TuningFolder(self.path / "tasks" / model / task)

    def probes(self, model: str) -> AnalysisFolder:
        return AnalysisFolder(self.path / "probes" / model)

    def parts(self) -> Iterator[Folder]:
        tunings = (TuningFolder(path) for path in sorted((self.path / "tasks").glob("*/*")))
        analyses = (AnalysisFolder(path) for path in sorted((self.path / "probes").glob("*")))
        yield from (part for part in (*tunings, *analyses) if part.exists())

    def facts(self) -> Sequence[tuple[str, Any]]:
        record = self.record
        plan = record.get("plan", {})
        return (
            ("suite", plan.get("suite")),
            ("models", ", ".join(plan.get("models", {}))),
            ("tasks", ", ".join([*plan.get("tasks", {}), *plan.get("probes", {})])),
            ("failures", len(record.get("failures", ())) or None),
        )
