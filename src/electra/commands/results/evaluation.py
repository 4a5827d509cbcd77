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
        """A row for each task, split, metric and model, with statistics over the seeds."""
        rows = Rows()
        for row in self.folder.record["rows"]:
            columns = {key: row.get(key) for key in ("task", "split", "metric")}
            for model, score in row["scores"].items():
                statistics = {name: value for name, value in score.items() if _is_scalar(value)}
                rows.append({**columns, "model": model, **statistics})
        return rows

    @property
    def failures(self) -> list[dict[str, Any]]:
        """The tasks that failed: task, model, reason."""
        return list(self.folder.record.get("failures", []))


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)
