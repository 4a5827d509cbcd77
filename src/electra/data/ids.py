"""How token ids are stored."""

from __future__ import annotations

from typing import Any

import numpy as np


def id_dtype(vocab_size: int) -> np.dtype[Any]:
    """The narrowest type that holds every id."""
    return np.dtype("<u2" if vocab_size <= 65_535 else "<u4")
