"""Contract tests for your own objectives; the built-in ones pass them. Needs pytest.

    import electra.testing

    class TestMine(electra.testing.ObjectiveContract):
        objective = "path/to/mine.py"

`toy` makes the networks and texts that they run on.
"""

try:
    import pytest
except ModuleNotFoundError:
    raise ModuleNotFoundError("electra.testing needs pytest: pip install pytest", name="pytest") from None

pytest.register_assert_rewrite("electra.testing.objectives")  # a failing assertion shows its values

from electra.testing.objectives import ObjectiveContract  # noqa: E402

__all__ = ["ObjectiveContract"]
