"""Recipes: errors name the dotted path, and what is written is read back unchanged."""

import math
import time
import tomllib
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from electra.foundation.config import (
    RECIPES,
    convert,
    differences,
    find_recipe,
    merge,
    read_toml,
    toml_names,
    write_toml,
)
from electra.foundation.errors import ConfigError
from electra.training.recipe import Recipe, make_recipe


@pytest.mark.parametrize(
    ("sections", "setting"),
    [
        ({"training": {"learnin_rate": 1}}, "training.learnin_rate"),
        ({"trainin": {}}, "trainin"),
        ({"training": {"steps": "many"}}, "training.steps"),
        ({"training": {"steps": True}}, "training.steps"),
        ({"training": {"schedule": "lineer"}}, "training.schedule"),
        ({"training": 3}, "training"),
        ({"training": {"batch_size": 0}}, "training.batch_size"),
        ({"training": {"warmup": 1.5}}, "training.warmup"),
        ({"data": {"heldout": 0.0}}, "data.heldout"),
        ({"training": {"betas": [0.9]}}, "training.betas"),
        ({"training": {"betas": [1, 1]}}, "training.betas"),
        ({"model": {"dropout": 1}}, "model.dropout"),
        ({"model": {"attention_dropout": 1}}, "model.attention_dropout"),
        ({"training": {"learning_rate": math.nan}}, "training.learning_rate"),
        ({"training": {"learning_rate": math.inf}}, "training.learning_rate"),
        ({"training": {"weight_decay": math.nan}}, "training.weight_decay"),
        ({"training": {"clip": math.nan}}, "training.clip"),
        ({"training": {"epsilon": math.nan}}, "training.epsilon"),
        ({"training": {"threads": 1_000_000}}, "training.threads"),
        ({"training": {"threads": 0}}, "training.threads"),
        ({"training": {"checkpoint_every": 0}}, "training.checkpoint_every"),
        ({"training": {"evaluate_every": 0}}, "training.evaluate_every"),
        ({"training": {"seed": 2**80}}, "training.seed"),
        ({"evaluation": {"rows": 0}}, "evaluation.rows"),
    ],
)
def test_an_error_names_the_wrong_setting(sections: dict[str, object], setting: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_recipe(sections)
    assert str(caught.value).startswith(f"{setting}: ")


@pytest.mark.parametrize("name", toml_names(RECIPES))
def test_bundled_recipes_are_valid_and_survive_writing(name: str) -> None:
    recipe = make_recipe(read_toml(find_recipe(name)))
    assert recipe.training.steps or recipe.training.budget
    assert make_recipe(tomllib.loads(write_toml(recipe.to_sections()))) == recipe


def test_dashes_and_integers_for_floats_are_accepted() -> None:
    recipe = make_recipe({"training": {"learning-rate": 1, "betas": [0, 0.5]}})
    assert recipe.training.learning_rate == 1.0 and recipe.training.betas == (0.0, 0.5)


def test_merge_overrides_and_differences_lists_changes() -> None:
    assert merge({"a": {"x": 1, "y": 2}, "b": 3}, {"a": {"y": 5}}) == {"a": {"x": 1, "y": 5}, "b": 3}
    changed = [("a.x", 1, 3), ("b", 2, None), ("c", None, 4)]
    assert differences({"a": {"x": 1}, "b": 2}, {"a": {"x": 3}, "c": 4}) == changed
    left = {"mix_seed": 0, "mix_exponent": None}  # of earlier versions, without effect
    assert Recipe() == make_recipe({}) == make_recipe({"data": left})
    assert not differences({"data": left}, {"data": {}})
    with pytest.raises(ConfigError):
        make_recipe({"data": {"mix_exponent": 0.5}})


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 100_000, ".".join("a" * 200_000) + " = 1", "[" + ".".join("a" * 200_000) + "]"]
)
def test_toml_that_would_hang_the_parser_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "hostile.toml").write_text(text)
    began = time.monotonic()
    with pytest.raises(ConfigError, match=r"hostile\.toml"):
        read_toml(tmp_path / "hostile.toml")
    assert time.monotonic() - began < 5
    (tmp_path / "fine.toml").write_text(f'a = "{"." * 5000}"')
    assert read_toml(tmp_path / "fine.toml") == {"a": "." * 5000}


def test_numpy_numbers_convert_and_unhashable_values_are_no_choice() -> None:
    count, share = convert(int, np.int64(3), "n"), convert(float, np.float32(0.5), "x")
    assert (type(count), count, type(share), share) == (int, 3, float, 0.5)
    for value in (1.5, np.float64(1.0), np.bool_(True), None):
        with pytest.raises(ConfigError):
            convert(int, value, "n")
    with pytest.raises(ConfigError):
        convert(Literal["a", "b"], np.array(["a", "b"]), "x")


def test_suggestions_are_close() -> None:
    with pytest.raises(ConfigError) as caught:
        make_recipe({"training": {"device": "gpu"}})
    assert "'cuda'" in str(caught.value) and "Did you mean" not in str(caught.value)  # not 'cpu'
