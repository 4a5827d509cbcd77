"""What probes have measured."""

from __future__ import annotations

from typing import Any

from electra.artifacts.evaluation import AnalysisFolder
from electra.commands.results.artifact import Artifact
from electra.commands.results.rows import Rows


class Analysis(Artifact[AnalysisFolder]):
    """A folder made by `analyze`."""

    FOLDER = AnalysisFolder

    @property
    def records(self) -> dict[str, Any]:
        """What each probe found, by its name, as its JSON file has it."""
        return self.folder.record

    @property
    def headline(self) -> Rows:
        """One row a number: probe, measure, value, and the ends of its 95 % interval (low, high)."""
        return Rows(
            {"probe": name, "measure": measure, **(found if isinstance(found, dict) else {"value": found})}
            for name, record in self.records.items()
            for measure, found in record.get("headline", {}).items()
        )
