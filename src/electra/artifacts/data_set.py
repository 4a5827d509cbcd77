"""Downloaded public data: the files of a data set as our tasks read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from electra.artifacts.folder import SealedFolder
from electra.foundation.errors import DataError


class DataFolder(SealedFolder):
    """What `electra data` writes: the files, source.json (their origin and licence) and manifest.json."""

    KIND = "data set"
    RECORD = "source.json"
    ERROR = DataError

    def facts(self) -> Sequence[tuple[str, Any]]:
        """Returns the title and the licence."""
        record = self.record
        return (("data set", record.get("title")), ("licence", record.get("licence")))
