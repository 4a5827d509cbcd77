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
        """One row per number: probe, measure, value, and its 95 % interval (low, high)."""
        return Rows(
            {"probe": name, "measure": measure, **(number if isinstance(number, dict) else {"value": number})}
            for name, record in self.records.items()
            for measure, number in record.get("headline", {}).items()
        )
