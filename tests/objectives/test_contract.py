"""The contract tests, run for every file in electra/objectives."""

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


@pytest.mark.parametrize(
    ("name", "options", "setting"),
    [
        ("rtd", {"temperature": 0.0}, "temperature"),
        ("rtd", {"generator": "network2"}, "generator"),
        ("adversarial", {"anneal_from": 0.6, "anneal_to": 0.2}, "anneal_to"),
        ("adversarial", {"gradient": "guess"}, "gradient"),
        ("mlm", {"mask_share": 1.0, "random_share": 0.5}, "random_share"),
    ],
)
def test_an_invalid_option_is_refused_by_name(name: str, options: dict[str, object], setting: str) -> None:
    with pytest.raises(ConfigError) as refused:
        toy.objective(name, **options)
    assert f"objective.{setting}" in (refused.value.key, refused.value.where)
