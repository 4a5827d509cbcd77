"""Contract tests for your own objectives, tasks and probes; the built-in ones pass them. Needs pytest.

    import electra.testing

    class TestMine(electra.testing.ObjectiveContract):
        objective = "path/to/mine.py"

`ObjectiveContract`, `TaskContract` and `ProbeContract` contain the tests. `toy`, `toy_task` and `small` make
the networks, texts and examples that they run on.
"""

from __future__ import annotations

import importlib
from typing import Any

try:
    import pytest
except ModuleNotFoundError:
    raise ModuleNotFoundError("electra.testing needs pytest: pip install pytest", name="pytest") from None

CONTRACTS = {
    "ObjectiveContract": "electra.testing.objectives",
    "TaskContract": "electra.testing.tasks",
    "ProbeContract": "electra.testing.probes",
}
pytest.register_assert_rewrite(*CONTRACTS.values())  # a failing assertion shows its values


def __getattr__(name: str) -> Any:
    if name not in CONTRACTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(CONTRACTS[name]), name)
