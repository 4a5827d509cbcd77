"""The results of a suite of tasks."""

from __future__ import annotations

from typing import Any

from electra.artifacts.evaluation import EvaluationFolder
from electra.commands.results.artifact import Artifact
from electra.commands.results.rows import Rows


class Evaluation(Artifact[EvaluationFolder]):
    """A folder written by `evaluate`."""

    FOLDER = EvaluationFolder

    @property
    def table(self) -> Rows:
        """One row per task, split, metric and model, with statistics over the seeds."""
        rows = Rows()
        for row in self.folder.record["rows"]:
            for model, score in row["scores"].items():
                about = {key: row.get(key) for key in ("task", "split", "metric")}
                rows.append({**about, "model": model, **{k: v for k, v in score.items() if _plain(v)}})
        return rows

    @property
    def failures(self) -> list[dict[str, Any]]:
        """The tasks that failed: task, model, reason."""
        return list(self.folder.record.get("failures", []))


def _plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)
