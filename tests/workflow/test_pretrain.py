"""What a run that starts from trained weights takes from the recipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from electra.artifacts.run import RunFolder
from electra.commands.parts.recipes import compose
from electra.commands.parts.warm_start import SHARE_OF_RATE, learning_rate_is_set, with_reduced_rate
from electra.training.networks import WarmStart

WARM = WarmStart({"discriminator": "there"}, {})


def test_trained_weights_continue_at_a_share_of_the_rate(tmp_path: Path) -> None:
    given = compose("tiny", {"training.generator_learning_rate": 1e-3}, "5steps")
    recipe, warm = with_reduced_rate(given, WARM, tmp_path / "new")
    rate = given.training.learning_rate * SHARE_OF_RATE
    assert recipe.training.learning_rate == pytest.approx(rate)
    assert recipe.training.generator_learning_rate == pytest.approx(1e-3 * SHARE_OF_RATE)
    assert f"learning rate {rate:.3g}, 0.2 of the recipe's" in warm.notes[-1]
    RunFolder(tmp_path).write_record({"training": {"learning_rate": 5e-4}})  # begun by an older version
    recipe, _ = with_reduced_rate(given, WARM, tmp_path)
    assert (recipe.training.learning_rate, recipe.training.generator_learning_rate) == (5e-4, 1e-3)


def test_options_of_the_objective_alone_leave_its_name() -> None:
    recipe = compose("tiny", {"objective.mask_fraction": 0.2}, "5steps")
    assert (recipe.objective["name"], recipe.objective["mask_fraction"]) == ("rtd", 0.2)


def test_a_chosen_rate_is_not_touched(tmp_path: Path) -> None:
    assert not learning_rate_is_set("tiny", ["training.steps"])
    assert learning_rate_is_set("tiny", ["training.learning-rate"])
    mine = tmp_path / "mine.toml"
    mine.write_text('[model]\nsize = "tiny"\n')
    assert not learning_rate_is_set(str(mine), [])
    mine.write_text("[training]\nlearning_rate = 1e-3\n")
    assert learning_rate_is_set(str(mine), [])
