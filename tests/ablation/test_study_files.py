"""Study files: ours are whole, and what is wrong with somebody's own is told in one line that names the
place.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fake_study import STUDY

from electra.foundation.config import names_in
from electra.foundation.errors import ConfigError
from electra.laboratory.ablation.study import STUDIES, Study, arm_recipe, find_study, read_study

ASKED = {
    "objectives",
    "generator-size",
    "training-algorithm",
    "tying",
    "masking",
    "convergence",
    "model-size",
    "lambda",
    "temperature",
}


@pytest.mark.parametrize("name", names_in(STUDIES))
def test_every_arm_of_our_studies_is_a_whole_recipe(name: str) -> None:
    study = read_study(find_study(name))
    recipes = {arm.name: arm_recipe(study, arm, study.recipe) for arm in study.arms.values()}
    assert len(recipes) > 1
    assert len({repr(recipe) for recipe in recipes.values()}) == len(recipes), "two arms are the same"
    assert study.question and all(
        len(arm.title) <= 36 for arm in study.arms.values()
    )  # longer ones are cut in figures


def test_the_studies_that_were_asked_for_are_here() -> None:
    assert set(names_in(STUDIES)) >= ASKED


def test_options_carry_over_to_another_objective_as_far_as_it_has_them() -> None:
    study = read_study(find_study("objectives"))
    mlm, rtd = (arm_recipe(study, study.arms[name], "budget-tiny") for name in ("mlm", "rtd"))
    assert rtd.objective == {"name": "rtd", "mask_fraction": 0.5, "final_mask_fraction": 0.15}
    assert mlm.objective == {"name": "mlm", "mask_fraction": 0.5, "final_mask_fraction": 0.15}
    changed = read_study(find_study("lambda"))
    over = arm_recipe(changed, changed.arms["lambda-10"], "budget-tiny")
    assert over.objective == rtd.objective | {"discriminator_weight": 10.0}
    assert (over.training.steps, over.training.budget) == (None, None)


def test_base_sections_lie_between_recipe_and_arms(study_file: Callable[[str], Path]) -> None:
    base = (
        "model.size = 'small'\nobjective.mask_fraction = 0.3\nobjective.discriminator_weight ="
        " 7.0\ntraining.length = 64\n"
    )
    text = f"{STUDY}model.size = 'mini'\n[base]\n{base}"
    study = read_study(study_file(text))
    mlm, rtd = (arm_recipe(study, study.arms[name], "budget-tiny") for name in ("mlm", "rtd"))
    assert (mlm.model.size, rtd.model.size) == ("small", "mini")
    assert mlm.objective["mask_fraction"] == rtd.objective["mask_fraction"] == 0.3
    assert (rtd.objective["discriminator_weight"], "discriminator_weight" in mlm.objective) == (7.0, False)
    assert mlm.training.length == 64


BAD = {
    "no TOML": ("title = ", "not valid TOML"),
    "no arms": ("baseline = 'a'", "arms: missing"),
    "no baseline": ("[arms.a]\nmodel.size = 'tiny'", "baseline: missing"),
    "baseline is no arm": (
        STUDY.replace('baseline = "mlm"', 'baseline = "mln"'),
        "'mln' is not one of the arms. Did you mean 'mlm'?",
    ),
    "unknown key": (STUDY + "\n[basis]\n", "basis: no such key. Did you mean 'base'?"),
    "unknown key of an arm": (
        STUDY + "modle.size = 'tiny'",
        "arms.rtd.modle: no such key. Did you mean 'model'?",
    ),
    "arm is no section": ("baseline = 'a'\narms.a = 3", "arms.a: expected a table"),
    "arm leaves its folder": (STUDY + "\n[arms.'../x']\n", "letters, digits"),
    "arm with other rows": (
        STUDY + "training.length = 64",
        "arms.rtd.training.length: arms are compared on the same rows",
    ),
    "arm with other text": (STUDY + "data.unit = 'line'", "arms.rtd.data.unit: arms are compared"),
    "arm with another tokenizer": (
        STUDY + "tokenizer.vocab-size = 3",
        "arms.rtd.tokenizer.vocab_size: arms are compared",
    ),
    "arm with another evaluation": (
        STUDY + "evaluation.mask_fraction = 0.3",
        "evaluation.mask_fraction: arms are compared",
    ),
    "arm with its own seed": (
        STUDY + "training.seed = 3",
        "training.seed: is not set in a study. Give `seed` instead",
    ),
    "base with a budget": (
        STUDY + "\n[base]\ntraining.budget = '3steps'",
        "base.training.budget: is not set in a study. Give `budget`",
    ),
    "budgets beyond one": ("budgets = [0.5, 2.0]\n" + STUDY, "budgets: must be different shares"),
    "a budget twice": ("budgets = [0.5, 0.5]\n" + STUDY, "budgets: must be different shares"),
    "a section that is none": (
        STUDY.replace('objective.name = "mlm"', "objective = 3"),
        "arms.mlm.objective: expected a table, got 3",
    ),
    "base that is none": (STUDY + "\n[base]\ntraining = 3", "base.training: expected a table, got 3"),
    "own baseline is no arm": (
        STUDY + "baseline = 'mln'",
        "arms.rtd.baseline: 'mln' is not one of the arms. Did you mean 'mlm'?",
    ),
    "wrong type": (STUDY + "at = 'wide'", "arms.rtd.at: 'wide' is not a number"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_studies_are_told_in_one_line(case: str, study_file: Callable[[str], Path]) -> None:
    text, said = BAD[case]
    with pytest.raises(ConfigError) as caught:
        read_study(study_file(text))
    assert said in str(caught.value)
    assert "toml" in str(caught.value)


BAD_ARMS = {
    "unknown objective": ("objective.name = 'rdt'", "no objective named 'rdt'. Did you mean 'rtd'?"),
    "unknown recipe key": (
        "training.learning_rat = 1.0",
        "training.learning_rat: no such key. Did you mean 'learning_rate'?",
    ),
    "wrong value": ("model.sharing = 'some'", "model.sharing: 'some' is not one of"),
}


@pytest.mark.parametrize("case", BAD_ARMS)
def test_bad_arms_are_told_when_their_recipe_is_made(case: str, study_file: Callable[[str], Path]) -> None:
    line, said = BAD_ARMS[case]
    study: Study = read_study(study_file("baseline = 'a'\n[arms.a]\n" + line))
    with pytest.raises(ConfigError) as caught:
        arm_recipe(study, study.arms["a"], "budget-tiny")
    assert said in str(caught.value)


def test_unknown_studies_are_told() -> None:
    with pytest.raises(ConfigError, match=r"no study named 'objectvies'\. Did you mean 'objectives'"):
        find_study("objectvies")
    with pytest.raises(ConfigError, match="no such study file"):
        find_study("mine/study.toml")
