"""Folders of experiments: evaluations (models on suites of tasks), analyses (probes of models), studies."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from electra.artifacts.finetuning_files import FinetuningFolder
from electra.artifacts.folder import ChildPath, Finding, Folder, json_finding, numbered_folders
from electra.artifacts.run_files import RunFolder
from electra.artifacts.session import LOG
from electra.foundation.config import differences
from electra.foundation.durable import read_json
from electra.foundation.errors import RunFolderError

RECORD_SUFFIX = ".probe.json"
PAGE = "analysis.html"


class AnalysisFolder(Folder):
    """The folder that `electra analyze` writes.

    OUT/  NAME.probe.json for each probe, log.txt, analysis.html

    Each record holds its own settings; rerunning a probe with other settings replaces its record.
    """

    KIND = "analysis"
    RECORD = f"*{RECORD_SUFFIX}"  # one for each probe
    # What is left if the user deletes the only record to rerun its probe.
    ALLOWED_EARLY = (LOG, PAGE, "figures")  # figures/: of older versions

    @classmethod
    @override
    def is_at(cls, path: Path) -> bool:
        return any(path.glob(cls.RECORD))

    def probe(self, name: str) -> Path:
        """Returns the record of a probe, whether or not it exists."""
        return self.path / f"{name}{RECORD_SUFFIX}"

    def probes(self) -> dict[str, Path]:
        """Returns the existing records by the name of the probe."""
        return {path.name.removesuffix(RECORD_SUFFIX): path for path in sorted(self.path.glob(self.RECORD))}

    @property
    @override
    def page(self) -> Path:
        return self.path / PAGE

    @property
    @override
    def record(self) -> dict[str, Any]:
        """The content of each record, by the name of its probe."""
        return {name: read_json(path, RunFolderError) for name, path in self.probes().items()}

    @override
    def check(self) -> Iterator[Finding]:
        for path in self.probes().values():
            yield json_finding(path, "record of a probe")


class EvaluationFolder(Folder):
    """The folder that `electra evaluate` writes.

    OUT/  evaluation.json    the plan and all numbers, rewritten after every task
          evaluation.html    the page
          tasks/MODEL/TASK/  a fine-tuning
    """

    KIND = "evaluation"
    RECORD = "evaluation.json"
    PARTS = ("models", "tasks")  # keys of the plan

    @property
    def plan(self) -> dict[str, Any]:
        """The suite, models and tasks. Raises RunFolderError if the record has none."""
        plan = self.record.get("plan")
        if not isinstance(plan, dict) or not all(isinstance(plan.get(part), dict) for part in self.PARTS):
            path = self.path / self.RECORD
            raise RunFolderError("not the record of an evaluation", where=path, fix="Choose another `out`")
        return plan

    def differences(self, record: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
        """Returns (name, recorded value, new value) of the differences that prevent resuming with `record`.

        Only the suite and the models and tasks of both plans are compared, without the paths in `source`.
        """
        old, new = self.plan, record["plan"]
        changes = differences({"suite": old.get("suite")}, {"suite": new["suite"]})
        for part in self.PARTS:
            for name in old[part].keys() & new[part].keys():
                changes += differences(old[part][name], new[part][name], f"{name}.")
        relevant_changes = (change for change in changes if not change[0].endswith(".source"))
        return sorted(relevant_changes, key=lambda change: change[0])

    def merged_with_recorded(self, plan: Mapping[str, Any]) -> dict[str, Any]:
        """Returns `plan` together with the models and tasks that only the recorded plan has.

        Raises RunFolderError if the record has no plan; if there is no record, `plan` is returned as it is.
        """
        old = self.plan if self.exists() else plan
        return {**plan, **{part: {**old[part], **plan[part]} for part in self.PARTS}}

    @property
    @override
    def page(self) -> Path:
        return self.path / "evaluation.html"

    @override
    def check(self) -> Iterator[Finding]:
        yield from super().check()
        for path in sorted((self.path / "tasks").glob("*/*")):
            tuning = FinetuningFolder(path)
            if not tuning.exists() and (tuning.model.path.is_dir() or tuning.seeds()):
                yield Finding(path / tuning.RECORD, f"record of a {tuning.KIND}", "is missing")

    def task(self, model: str, task: str) -> FinetuningFolder:
        """Returns the fine-tuning of a model on a task."""
        return FinetuningFolder(self.path / "tasks" / model / task)

    @override
    def parts(self) -> Iterator[Folder]:
        tunings = (FinetuningFolder(path) for path in sorted((self.path / "tasks").glob("*/*")))
        yield from (tuning for tuning in tunings if tuning.exists())


class StudyFolder(Folder):
    """The folder that `electra ablate` writes.

    OUT/  study.json   results.json   report.html   log.txt   tokenizer/
          arms/ARM/seed-1/               a run folder, with the panel's scores in score.json
          untrained/ARM/                 the scores of an untrained encoder in the shape of the arm
    """

    KIND = "study"
    RECORD = "study.json"
    ALLOWED_EARLY = ("store", "tokenizer", LOG)

    results = ChildPath("results.json")
    tokenizer = ChildPath("tokenizer")
    arms = ChildPath("arms")
    untrained = ChildPath("untrained")

    def run(self, arm: str, seed: int) -> RunFolder:
        """Returns the run of an arm, whether or not it exists."""
        return RunFolder(self.arms / arm / f"seed-{seed}")

    def seeds(self, arm: str) -> list[int]:
        """Returns the seeds that have a run folder, in ascending order."""
        return [seed for seed, _ in numbered_folders(self.arms / arm, "seed-")]

    @override
    def check(self) -> Iterator[Finding]:
        yield from super().check()
        if self.results.is_file():
            yield json_finding(self.results, "results")

    @override
    def parts(self) -> Iterator[Folder]:
        for arm in sorted(self.arms.glob("*")):
            yield from (RunFolder(path) for _, path in numbered_folders(arm, "seed-"))


def baselines_of(study: Mapping[str, Any]) -> dict[str, str]:
    """Returns, for each arm, the arm it is tested against: its own baseline, or else the study's."""
    return {name: arm.get("baseline") or study["baseline"] for name, arm in study["arms"].items()}
