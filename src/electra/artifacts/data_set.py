"""Downloaded public data sets, in files that the fine-tuning tasks read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from electra.artifacts.folder import SealedFolder
from electra.foundation.errors import DataError


class DataFolder(SealedFolder):
    """The folder that `electra data` writes: the files, their origin in source.json, and manifest.json."""

    KIND = "data set"
    RECORD = "source.json"
    ERROR = DataError

    def facts(self) -> Sequence[tuple[str, Any]]:
        """Returns the title and the licence."""
        record = self.record
        return (("data set", record.get("title")), ("licence", record.get("licence")))
