"""What leaves this machine names no path of it."""

from __future__ import annotations

import re
from typing import Any

PATH = re.compile(r"^(/|~|[A-Za-z]:[\\/]|\\\\)[^\n]*[\\/]")


def without_paths(value: Any) -> Any:
    """Plain data with the last part of every absolute path in place of the whole."""
    if isinstance(value, dict):
        return {key: without_paths(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_paths(inner) for inner in value]
    return PATH.sub("", value) if isinstance(value, str) else value
