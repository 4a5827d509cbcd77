"""Removes paths of this machine from data that will be published."""

from __future__ import annotations

import re
from typing import Any

PATH = re.compile(r"^(/|~|[A-Za-z]:[\\/]|\\\\)[^\n]*[\\/]")


def without_paths(value: Any) -> Any:
    """Returns plain data with every absolute path shortened to its last part."""
    if isinstance(value, dict):
        return {key: without_paths(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_paths(inner) for inner in value]
    return PATH.sub("", value) if isinstance(value, str) else value
