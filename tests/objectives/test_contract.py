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


def test_names_of_the_last_release_still_define_an_objective() -> None:
    from electra.objectives import rtd
    from electra.objectives.parts import interface

    class Objective(rtd.Objective):
        needs = {"sharing": "none"}  # noqa: RUF012
        masked_share = 0.5

        def others(self, main: object) -> tuple[str, ...]:
            return ("further",)

        def connect(self, pair: object) -> str:
            return "tied"

    made = Objective(rtd.Config(), vocab_size=30, specials=toy.SPECIALS._asdict())
    assert made.required_settings == {"sharing": "none"} and made.mean_mask_fraction == 0.5
    assert list(made.extra_networks(toy.config())) == ["further"]  # type: ignore[comparison-overlap]
    assert made.tie_weights(None) == "tied"  # type: ignore[func-returns-value, arg-type]
    assert interface.Corrupted is interface.CorruptedBatch
