"""Study files: ours are valid, and an error in your own is one line that names the place."""

from collections.abc import Callable
from pathlib import Path

import pytest
from toy_study import STUDY

from electra.foundation.config import toml_names
from electra.foundation.errors import ConfigError
from electra.laboratory.ablation.study import STUDIES, arm_recipe, find_study, read_study


@pytest.mark.parametrize("name", toml_names(STUDIES))
def test_every_arm_of_our_studies_has_a_valid_recipe(name: str) -> None:
    study = read_study(find_study(name))
    recipes = {arm.name: arm_recipe(study, arm, study.recipe) for arm in study.arms.values()}
    assert len(recipes) > 1
    assert len({repr(recipe) for recipe in recipes.values()}) == len(recipes), "two arms are the same"
    titles = [arm.title for arm in study.arms.values()]
    assert study.question and max(map(len, titles)) <= 36  # longer ones are cut in figures


def test_options_carry_over_to_an_objective_that_has_them() -> None:
    study = read_study(find_study("objectives"))
    mlm, rtd = (arm_recipe(study, study.arms[name], "budget-tiny") for name in ("mlm", "rtd"))
    assert rtd.objective == {"name": "rtd", "mask_fraction": 0.5, "final_mask_fraction": 0.15}
    assert mlm.objective == {"name": "mlm", "mask_fraction": 0.5, "final_mask_fraction": 0.15}
    changed = read_study(find_study("lambda"))
    over = arm_recipe(changed, changed.arms["lambda-10"], "budget-tiny")
    assert over.objective == rtd.objective | {"discriminator_weight": 10.0}
    assert (over.training.steps, over.training.budget) == (None, None)


def test_base_sections_lie_between_recipe_and_arms(study_file: Callable[[str], Path]) -> None:
    base = "model.size = 'small'\nobjective = {mask_fraction = 0.3, discriminator_weight = 7.0}\n"
    text = f"{STUDY}model.size = 'mini'\n[base]\n{base}training.length = 64\n"
    study = read_study(study_file(text))
    mlm, rtd = (arm_recipe(study, study.arms[name], "budget-tiny") for name in ("mlm", "rtd"))
    assert (mlm.model.size, rtd.model.size) == ("small", "mini")
    assert mlm.objective["mask_fraction"] == rtd.objective["mask_fraction"] == 0.3
    assert (rtd.objective["discriminator_weight"], "discriminator_weight" in mlm.objective) == (7.0, False)
    assert mlm.training.length == 64


# What is appended to the toy study ("+") or replaces it, and the facts that the message holds: the key, and a
# likely name for a misspelt one.
BAD = [
    ("title = ", "TOML"),
    ("baseline = 'a'", "arms"),
    ("[arms.a]\nmodel.size = 'tiny'", "baseline"),
    (STUDY.replace('baseline = "mlm"', 'baseline = "mln"'), "baseline", "'mln'", "'mlm'"),
    ("+\n[basis]\n", "basis", "'base'"),
    ("+modle.size = 'tiny'", "arms.rtd.modle", "'model'"),
    ("+\n[arms.'../x']\n", "arms.../x"),
    ("+data.unit = 'line'", "arms.rtd.data.unit", "[base]"),
    ("+evaluation.mask_fraction = 0.3", "evaluation.mask_fraction", "[base]"),
    ("+training.seed = 3", "arms.rtd.training.seed", "`seed`"),
    ("+\n[base]\ntraining.budget = '3steps'", "base.training.budget", "`budget`"),
    ("budgets = [0.5, 2.0]\n" + STUDY, "budgets"),
    (STUDY.replace('objective.name = "mlm"', "objective = 3"), "arms.mlm.objective", "3"),
    ("+baseline = 'mln'", "arms.rtd.baseline", "'mln'", "'mlm'"),
    ("+at = 'wide'", "arms.rtd.at", "'wide'"),
]


@pytest.mark.parametrize("row", BAD, ids=lambda row: row[0][:30])
def test_an_invalid_study_names_its_file_and_key(row: tuple[str, ...], study_file: Callable[[str], Path]) -> None:
    text, *facts = row
    with pytest.raises(ConfigError) as caught:
        read_study(study_file(STUDY + text[1:] if text.startswith("+") else text))
    assert all(fact in str(caught.value) for fact in [*facts, "toml"])
