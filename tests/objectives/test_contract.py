"""The contract tests, run for every file in electra/objectives."""

from __future__ import annotations

import dataclasses

import pytest

from electra import objectives
from electra.foundation.errors import ConfigError
from electra.foundation.extensions import OBJECTIVES
from electra.testing import ObjectiveContract, toy


class TestEveryObjective(ObjectiveContract):
    objective = OBJECTIVES.names()


def test_a_misspelt_option_gets_the_right_spelling() -> None:
    with pytest.raises(ConfigError) as refused:
        toy.objective("rtd", mask_fractio=0.2)
    assert refused.value.where == "objective.mask_fractio" and "'mask_fraction'" in refused.value.fix


@pytest.mark.parametrize("name", OBJECTIVES.names())
def test_every_share_and_weight_has_limits(name: str) -> None:
    for field in dataclasses.fields(objectives.module_of(name).Config):
        if field.name.endswith(("_fraction", "_share", "_weight")):
            assert "limits" in field.metadata, field.name
