"""Baselines without a network: scores computed by hand, for every kind of task."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

import electra
from electra.finetuning.heads.parts.overlap import common_subsequence, overlap, weighted_overlap
from electra.finetuning.labelled.examples import Example
from electra.finetuning.runner import all_seeds, baselines, encoder_baselines
from electra.finetuning.runner.all_seeds import finetune
from electra.finetuning.settings import TaskOptions
from electra.finetuning.tasks import load_task
from electra.testing import toy_task


def examples(rows: list[tuple[object, ...]]) -> list[Example]:
    return [Example(str(i), f"f:{i}", tuple(texts), gold) for i, (gold, *texts) in enumerate(rows)]  # type: ignore[arg-type]


def test_overlap_by_hand() -> None:
    weight = {"the": 0.0, "cat": 1.0, "sat": 1.0, "dog": 2.0}.__getitem__
    words, of_first, of_second, neighbours, _, _, sequence, lengths = overlap("the cat sat", "The dog sat")
    weighted = weighted_overlap("the cat sat", "The dog sat", weight)
    assert (words, of_first, of_second) == (2 / 4, 2 / 3, 2 / 3)
    assert weighted == 1.0 / 4.0 and neighbours == 0.0
    assert sequence == 2 * 2 / 6 and lengths == 0.0
    assert overlap("a b", "a b") == [1.0] * 7 + [0.0]
    assert overlap("", "") == [0.0] * 8 and weighted_overlap("", "", len) == 0.0


@pytest.mark.parametrize(("a", "b", "length"), [("abcbdab", "bdcaba", 4), ("abc", "", 0), ("aaa", "aa", 2)])
def test_common_subsequence(a: str, b: str, length: int) -> None:
    assert common_subsequence(list(a), list(b)) == length


def test_a_linear_model_separates_pairs_by_overlap() -> None:
    rows = [("equivalent", f"word{i} is here", f"here is word{i}") for i in range(20)]
    rows += [("not_equivalent", f"word{i} is here", f"nothing like name{i}") for i in range(20)]
    train = examples(rows)  # type: ignore[arg-type]
    task = load_task("mrpc").fit(train)
    new = examples(
        [("equivalent", "red is here", "here is red"), ("not_equivalent", "red is here", "no blue")]
    )
    shares = {}
    for name in baselines.NAMES:
        predict = baselines.fit(name, task, train)
        assert predict is not None
        shares[name] = task.score(predict(new), new)["accuracy"].value
    assert shares == {baselines.MAJORITY: 0.5, baselines.LINEAR: 1.0}


def test_numbers_are_fitted_to_the_overlap_and_the_majority_is_their_mean() -> None:
    train = examples(
        [(str(5 * k / 10), "a b c d e f g h i j", " ".join("abcdefghij"[:k])) for k in range(1, 11)]
    )
    task = load_task("stsb").fit(train)
    predict, mean = (
        baselines.fit(baselines.LINEAR, task, train),
        baselines.fit(baselines.MAJORITY, task, train),
    )
    assert predict is not None and mean is not None
    assert task.score(predict(train), train)["spearmanr"].value == pytest.approx(1.0)
    assert task.score(mean(train), train)["spearmanr"].value is None
    assert mean(train)[0] == pytest.approx([2.75])


def test_the_tag_of_a_word_is_its_most_frequent_one() -> None:
    train = examples(
        [(("N", "V"), "time", "flies"), (("N", "N"), "fruit", "flies"), (("V", "N"), "flies", "flies")]
    )
    task = load_task("pos").fit(train)
    known = baselines.fit(baselines.LINEAR, task, train)
    assert known is not None
    [prediction] = known(examples([(None, "flies", "unseen", "time")]))
    assert [task.label_names[i] for i in prediction.argmax(-1)] == ["N", "N", "N"]
    assert prediction[0] == pytest.approx([2 / 4, 2 / 4]) or prediction[0].sum() == pytest.approx(1.0)
    [constant] = baselines.fit(baselines.MAJORITY, task, train)(examples([(None, "time", "x")]))  # type: ignore[misc]
    assert np.array_equal(constant[0], constant[1])


def test_multi_label_with_a_label_that_no_example_has() -> None:
    several = load_task("classification").configured(TaskOptions(multi_label=True))
    task = several.rebuilt(("fun", "sad", "never"), {})
    train = examples([(("fun",), "great joke")] * 8 + [(("sad",), "bad news")] * 8)
    predict = baselines.fit(baselines.LINEAR, task, train)
    assert predict is not None
    [scores] = predict(examples([(None, "great joke")]))
    assert scores[0] > 0.5 > scores[1] and scores[2] == 0.0


def test_spans_have_no_baseline() -> None:
    assert baselines.fit(baselines.LINEAR, load_task("squad"), []) is None


@pytest.mark.usefixtures("no_figures")
def test_scored_pairs_have_the_cosine_baseline(tmp_path: Path) -> None:
    """A fine-tuning that ends below what its encoder knew beforehand is told so."""
    folder = toy_task.save_encoder(tmp_path / "encoder")
    words = ["the", "film", "was", "slow", "new", "bright", "night", "town"]
    draw = np.random.default_rng(1)
    rows = [
        {
            "text": " ".join(draw.choice(words, 5)),
            "text2": " ".join(draw.choice(words, 5)),
            "score": float(i % 5),
        }
        for i in range(60)
    ]
    tuned = electra.finetune(
        folder,
        task="regression",
        data={"train": rows[:40], "dev": rows[40:]},
        out=tmp_path / "out",
        epochs=0.1,
        max_length=16,
    )
    model = electra.load(folder)
    first, second = (model.embed([row[name] for row in rows[40:]]) for name in ("text", "text2"))
    cosines = (first * second).sum(1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    expected = spearmanr(cosines, [row["score"] for row in rows[40:]]).statistic
    scores = tuned.results["baselines"]["cosine of the encoder's vectors"]
    assert scores["eval_spearmanr"] == pytest.approx(expected, abs=1e-6)


def test_another_encoder_is_scored_without_training(
    electra_folder: Path, modern_folder: Path, sst2_folder: Path, tmp_path: Path
) -> None:
    settings = toy_task.settings(
        tmp_path / "out", sst2_folder, epochs=0.1, baselines=True, baseline_model=str(modern_folder)
    )
    rows = finetune(str(electra_folder), settings)["baselines"]
    # One word decides the label, so a mean of word vectors is enough.
    assert rows["token vectors of modern"]["eval_accuracy"] > 0.95
    assert {"frozen encoder", "frozen encoder of modern"} <= rows.keys()

    without = replace(settings, out=tmp_path / "later", baseline_model=None)
    assert "token vectors of modern" not in finetune(str(electra_folder), without)["baselines"]
    later = replace(settings, out=tmp_path / "later")
    assert finetune(str(electra_folder), later)["baselines"] == rows


@pytest.mark.parametrize("pooling", [None, "cls"])
def test_the_frozen_baseline_is_the_model_of_the_frozen_head(
    pooling: str | None, modern_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (all_seeds, encoder_baselines):  # the pooling in an encoder's settings
        monkeypatch.setattr(module, "encoder_pooling", lambda loaded, task: pooling)
    data = toy_task.write_classification(tmp_path / "data", train=60, dev=40)
    settings = toy_task.settings(tmp_path / "out", data, "classification", epochs=0.1, baselines=True)
    frozen_settings = toy_task.settings(
        tmp_path / "frozen", data, "classification", head="frozen", epochs=None
    )
    baseline = finetune(str(modern_folder), settings)["baselines"]["frozen encoder"]
    results = finetune(str(modern_folder), frozen_settings)
    assert json.loads((tmp_path / "frozen/finetune.json").read_text())["settings"]["pooling"] == (
        pooling or "mean"
    )
    assert baseline == {key: results[key] for key in baseline}
