"""The battery that every objective passes by being a file in electra/objectives."""

from __future__ import annotations

import dataclasses

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


@pytest.mark.parametrize("name", objectives.names())
def test_every_share_and_weight_of_ours_has_limits(name: str) -> None:
    for field in dataclasses.fields(objectives.module_of(name).Config):
        if field.name.endswith(("_fraction", "_share", "_weight")):
            assert "limits" in field.metadata, field.name
