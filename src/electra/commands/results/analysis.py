"""The results of probes."""

from __future__ import annotations

from typing import Any

from electra.artifacts.evaluation import AnalysisFolder
from electra.commands.results.artifact import Artifact
from electra.commands.results.rows import Rows


class Analysis(Artifact[AnalysisFolder]):
    """A folder written by `analyze`."""

    FOLDER = AnalysisFolder

    @property
    def records(self) -> dict[str, Any]:
        """The contents of each probe's JSON file, by the name of the probe."""
        return self.folder.record

    @property
    def headline(self) -> Rows:
        """A row for each headline number: probe, measure, value, and its 95 % interval (low, high)."""
        return Rows(
            {"probe": name, "measure": measure, **(value if isinstance(value, dict) else {"value": value})}
            for name, record in self.records.items()
            for measure, value in record.get("headline", {}).items()
        )
