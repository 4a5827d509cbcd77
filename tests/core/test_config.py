"""Recipes: what is wrong is named with its dotted path, and what is written reads back the same."""

from __future__ import annotations

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
    names_in,
    read_toml,
    write_toml,
)
from electra.foundation.errors import ConfigError
from electra.training.recipe import Recipe, make_recipe


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        (
            {"training": {"learnin_rate": 1}},
            "training.learnin_rate: no such key. Did you mean 'learning_rate'?",
        ),
        ({"trainin": {}}, "trainin: no such key. Did you mean 'training'?"),
        ({"training": {"steps": "many"}}, "training.steps: 'many' is not a whole number"),
        ({"training": {"steps": True}}, "training.steps: True is not a whole number"),
        (
            {"training": {"schedule": "lineer"}},
            "training.schedule: 'lineer' is not one of 'linear', 'reference', 'wsd'. Did you mean 'linear'?",
        ),
        ({"training": 3}, "training: expected a table, got 3"),
        ({"training": {"batch_size": 0}}, "training.batch_size: must be at least 1, not 0"),
        ({"training": {"warmup": 1.5}}, "training.warmup: must be a share from 0 to below 1, not 1.5"),
        ({"data": {"heldout": 0.0}}, "data.heldout: must lie between 0 and 1, not 0.0"),
        ({"training": {"betas": [0.9]}}, "training.betas: [0.9] is not a list of 2"),
        ({"training": {"betas": [1, 1]}}, "training.betas: must be shares from 0 to below 1, not 1.0 1.0"),
        ({"model": {"dropout": 1}}, "model.dropout: must be a share from 0 to below 1, not 1.0"),
        ({"model": {"attention_dropout": 1}}, "model.attention_dropout: must be a share from 0 to below 1"),
        ({"training": {"learning_rate": math.nan}}, "training.learning_rate: must be 0 or more, not nan"),
        ({"training": {"learning_rate": math.inf}}, "training.learning_rate: must be 0 or more, not inf"),
        ({"training": {"weight_decay": math.nan}}, "training.weight_decay: must be 0 or more, not nan"),
        ({"training": {"clip": math.nan}}, "training.clip: must be above 0, not nan"),
        ({"training": {"epsilon": math.nan}}, "training.epsilon: must be above 0, not nan"),
        ({"training": {"threads": 1_000_000}}, "training.threads: must be at most 1024, not 1000000"),
        ({"training": {"threads": 0}}, "training.threads: must be at least 1, not 0"),
        ({"training": {"checkpoint_every": 0}}, "training.checkpoint_every: must be at least 1, not 0"),
        ({"training": {"evaluate_every": 0}}, "training.evaluate_every: must be at least 1, not 0"),
        ({"training": {"seed": 2**80}}, "training.seed: must be a number of at most 64 bits"),
        ({"evaluation": {"rows": 0}}, "evaluation.rows: must be at least 1, not 0"),
    ],
)
def test_what_is_wrong_is_said(sections: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_recipe(sections)
    assert str(caught.value).startswith(said)


def test_broken_and_missing_files(tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_text("[model\nsize = 1")
    with pytest.raises(ConfigError, match=r"broken\.toml: not valid TOML: .*line 1"):
        read_toml(tmp_path / "broken.toml")
    with pytest.raises(ConfigError, match="no such recipe file"):
        find_recipe(str(tmp_path / "none.toml"))
    with pytest.raises(ConfigError, match="Did you mean 'tiny'"):
        find_recipe("tinny")


@pytest.mark.parametrize("name", names_in(RECIPES))
def test_our_recipes_are_valid_and_survive_writing(name: str) -> None:
    recipe = make_recipe(read_toml(find_recipe(name)))
    assert recipe.training.steps or recipe.training.budget
    assert make_recipe(tomllib.loads(write_toml(recipe.to_sections()))) == recipe


def test_dashes_and_integers_for_floats_are_welcome() -> None:
    recipe = make_recipe({"training": {"learning-rate": 1, "betas": [0, 0.5]}})
    assert recipe.training.learning_rate == 1.0 and recipe.training.betas == (0.0, 0.5)


def test_merge_and_differences() -> None:
    assert merge({"a": {"x": 1, "y": 2}, "b": 3}, {"a": {"y": 5}}) == {"a": {"x": 1, "y": 5}, "b": 3}
    assert differences({"a": {"x": 1}, "b": 2}, {"a": {"x": 3}, "c": 4}) == [
        ("a.x", 1, 3),
        ("b", 2, None),
        ("c", None, 4),
    ]
    assert Recipe() == make_recipe({})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a = " + "[" * 100_000, "nested too deeply"),
        (".".join("a" * 200_000) + " = 1", "a key of too many parts"),
        ("[" + ".".join("a" * 200_000) + "]", "a key of too many parts"),
    ],
)
def test_toml_that_would_hang(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "hostile.toml").write_text(text)
    began = time.monotonic()
    with pytest.raises(ConfigError, match=rf"hostile\.toml: not valid TOML: {told}"):
        read_toml(tmp_path / "hostile.toml")
    assert time.monotonic() - began < 5
    (tmp_path / "fine.toml").write_text(f'a = "{"." * 5000}"')
    assert read_toml(tmp_path / "fine.toml") == {"a": "." * 5000}


def test_numbers_of_numpy_are_numbers_and_anything_may_be_no_choice() -> None:
    count, share = convert(int, np.int64(3), "n"), convert(float, np.float32(0.5), "x")
    assert (type(count), count, type(share), share) == (int, 3, float, 0.5)
    for value in (1.5, np.float64(1.0), np.bool_(True), None):
        with pytest.raises(ConfigError, match=r"n: .* is not a whole number"):
            convert(int, value, "n")
    with pytest.raises(ConfigError, match=r"x: array\(\['a', 'b'\].* is not one of 'a', 'b'"):
        convert(Literal["a", "b"], np.array(["a", "b"]), "x")


def test_a_guess_is_near() -> None:
    with pytest.raises(ConfigError) as caught:
        make_recipe({"training": {"device": "gpu"}})
    assert "'cuda'" in str(caught.value) and "Did you mean" not in str(caught.value)  # not 'cpu'
