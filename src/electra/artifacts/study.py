"""Studies: the arms of an ablation, each in run folders of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from electra.artifacts.folder import File, Finding, Folder, numbered, problem_of
from electra.artifacts.run import RunFolder
from electra.artifacts.session import LOG
from electra.foundation.durable import read_json
from electra.foundation.errors import RunFolderError


class StudyFolder(Folder):
    """What `electra ablate` writes.

    OUT/  study.json   results.json   report.html   figures/   log.txt   tokenizer/   store/ (with --corpus)
          arms/ARM/seed-1/               a run folder, with the panel's scores in score.json
          arms/ARM/budget-0.25/seed-1/   the same at a quarter of the budget
    """

    KIND = "study"
    RECORD = "study.json"
    BESIDE = ("store", "tokenizer", LOG)

    results = File("results.json")
    tokenizer = File("tokenizer")
    arms = File("arms")

    def run(self, arm: str, share: float, seed: int) -> RunFolder:
        """One run: an arm, trained for a share of the budget."""
        return RunFolder(self._runs(arm, share) / f"seed-{seed}")

    def seeds(self, arm: str, share: float) -> list[int]:
        """The seeds of which there is a run folder."""
        return [seed for seed, _ in numbered(self._runs(arm, share), "seed-")]

    def _runs(self, arm: str, share: float) -> Path:
        runs = self.arms / arm
        return runs if share == 1 else runs / f"budget-{share:g}"

    def runs(self) -> Iterator[RunFolder]:
        """All runs, by arm and seed."""
        for arm in sorted(self.arms.glob("*")):
            for folder in (arm, *sorted(arm.glob("budget-*"))):
                yield from (RunFolder(path) for _, path in numbered(folder, "seed-"))

    def digested(self) -> list[Path]:
        tokenizer = sorted(self.tokenizer.iterdir()) if self.tokenizer.is_dir() else []
        return [self.path / self.RECORD, self.results, *tokenizer, *(run.score for run in self.runs())]

    def check(self) -> Iterator[Finding]:
        yield from super().check()
        yield from self.check_digests()
        if self.results.is_file():
            problem = problem_of(lambda: read_json(self.results, RunFolderError))
            yield Finding(self.results, "results", problem)

    def parts(self) -> Iterator[Folder]:
        yield from self.runs()

    def facts(self) -> Sequence[tuple[str, Any]]:
        record = self.record
        return (
            ("study", record.get("study", {}).get("title")),
            ("arms", ", ".join(record.get("fixed", {}).get("arms", {}))),
            ("runs", sum(run.exists() for run in self.runs())),
        )


def baselines_of(study: Mapping[str, Any]) -> dict[str, str]:
    """The arm that each arm is tested against: its own, or the study's."""
    return {name: arm.get("baseline") or study["baseline"] for name, arm in study["arms"].items()}
