"""A reproducible sample of sentences, pairs or utterances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from electra.foundation.errors import ConfigError
from electra.foundation.seeds import key, permute

Item = TypeVar("Item")


def sample(items: Sequence[Item], limit: int, seed: int = 0) -> list[Item]:
    """Returns at most `limit` of the items (0: all), in their original order.

    A larger limit gives the same items and more.

    Raises:
        ConfigError: The limit is negative.
    """
    if limit < 0:
        raise ConfigError(f"must be at least 0 (0: all), not {limit}", where="sentences")
    if not 0 < limit < len(items):
        return list(items)
    indices = permute(np.arange(limit), len(items), key(seed, "analysis/sample"))
    return [items[i] for i in sorted(indices.astype(int).tolist())]
