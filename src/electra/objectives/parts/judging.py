"""The name of `detection` in the last release, for objectives that import it."""

from __future__ import annotations

import warnings

from electra.foundation.errors import Note
from electra.objectives.parts.detection import Detection as Judged
from electra.objectives.parts.detection import detect as judge

__all__ = ["Judged", "judge"]
warnings.warn(
    "electra.objectives.parts.judging is `detection` now, and judging.judge is detection.detect; the old"
    " names will be removed in the next release",
    Note,
    stacklevel=2,
)
