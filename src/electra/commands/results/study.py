"""The runs of a study and their statistics."""

from __future__ import annotations

from typing import Any

from electra.artifacts.study import StudyFolder
from electra.commands.results.artifact import Artifact
from electra.commands.results.rows import Rows
from electra.commands.results.run import Run


class Study(Artifact[StudyFolder]):
    """A folder written by `ablate`."""

    FOLDER = StudyFolder

    @property
    def results(self) -> dict[str, Any]:
        """The contents of results.json: statistics of each metric, by arm.

        Raises RunFolderError if there is no such file yet.
        """
        from electra.foundation import durable
        from electra.foundation.errors import RunFolderError

        results: dict[str, Any] = durable.read_json(self.folder.results, RunFolderError)
        return results

    @property
    def runs(self) -> list[Run]:
        """The runs that have started, by arm and seed."""
        return [Run(folder) for folder in self.folder.runs() if folder.exists()]

    @property
    def table(self) -> Rows:
        """A row for each run: arm, seed, status, step, held-out metrics, task scores, their mean `panel`."""
        return Rows(
            {
                "arm": str(run.path.relative_to(self.folder.arms).parent),
                "seed": run.path.name.removeprefix("seed-"),
                "status": run.status,
                "step": run.step,
                **run.scores,
                **_panel_scores(run),
            }
            for run in self.runs
        )

    @property
    def failed(self) -> list[dict[str, Any]]:
        """The runs that failed, with `job` and `problem`."""
        return list(self.results.get("failed", []))


def _panel_scores(run: Run) -> dict[str, float]:
    from electra.laboratory.ablation.results import panel_scores

    return panel_scores(run.folder) if run.folder.score.is_file() else {}
