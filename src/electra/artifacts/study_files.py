"""Study folders: the arms of an ablation, each in its own run folders."""

from collections.abc import Iterator, Mapping
from typing import Any

from typing_extensions import override

from electra.artifacts.folder import ChildPath, Finding, Folder, json_finding, numbered_folders
from electra.artifacts.run_files import RunFolder
from electra.artifacts.session import LOG


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

    def runs(self) -> Iterator[RunFolder]:
        """Yields all runs, ordered by arm and seed."""
        for arm in sorted(self.arms.glob("*")):
            yield from (RunFolder(path) for _, path in numbered_folders(arm, "seed-"))

    @override
    def check(self) -> Iterator[Finding]:
        yield from super().check()
        if self.results.is_file():
            yield json_finding(self.results, "results")

    @override
    def parts(self) -> Iterator[Folder]:
        yield from self.runs()


def baselines_of(study: Mapping[str, Any]) -> dict[str, str]:
    """Returns, for each arm, the arm it is tested against: its own baseline, or else the study's."""
    return {name: arm.get("baseline") or study["baseline"] for name, arm in study["arms"].items()}
