"""The battery that every objective passes by being a file in electra/objectives."""

from __future__ import annotations

import pytest

from electra import objectives
from electra.foundation.errors import ConfigError
from electra.testing import ObjectiveContract, toy


class TestEveryObjective(ObjectiveContract):
    objective = objectives.names()


def test_the_option_that_was_meant_is_named() -> None:
    with pytest.raises(
        ConfigError, match=r"objective\.mask_fractio: no such key. Did you mean 'mask_fraction'"
    ):
        toy.objective("rtd", mask_fractio=0.2)
