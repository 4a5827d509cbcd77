"""Baselines: scores computed by hand for every kind of task, and what a fine-tuning says of them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from electra.artifacts.finetuning import FinetuningFolder
from electra.finetuning.heads.parts import linear_fit
from electra.finetuning.labelled.examples import Example
from electra.finetuning.runner import baselines
from electra.finetuning.runner import finetune as runner
from electra.finetuning.runner.finetune import finetune
from electra.finetuning.runner.summary import compare_with_baselines
from electra.finetuning.settings import TaskOptions
from electra.finetuning.tasks import load_task
from electra.foundation.errors import ConfigError
from electra.pages import finetuning as page
from electra.testing import toy_task


def examples(rows: list[tuple[object, ...]]) -> list[Example]:
    return [Example(str(i), f"f:{i}", tuple(texts), gold) for i, (gold, *texts) in enumerate(rows)]  # type: ignore[arg-type]


def fitted(baseline: str, task: Any, train: list[Example]) -> baselines.Predict:
    predict = baselines.fit(baseline, task, train)
    assert predict is not None
    return predict


def test_overlap_by_hand() -> None:
    weight = {"the": 0.0, "cat": 1.0, "sat": 1.0, "dog": 2.0}.__getitem__
    words, of_first, of_second, neighbours, *_, lengths = baselines.overlaps("the cat sat", "The dog sat")
    weighted = baselines.weighted_overlap("the cat sat", "The dog sat", weight)
    assert (words, of_first, of_second) == (2 / 4, 2 / 3, 2 / 3)
    assert weighted == 1.0 / 4.0 and neighbours == 0.0 and lengths == 0.0
    assert [*baselines.overlaps("a b", "a b")] == [1.0] * 6 + [0.0]
    assert baselines.overlaps("abcd", "bcd!")[4] == 2 * 2 / 6
    assert not baselines.overlaps("", "").any() and baselines.weighted_overlap("", "", len) == 0.0


def test_a_linear_model_separates_pairs_by_overlap() -> None:
    rows = [("equivalent", f"word{i} is here", f"here is word{i}") for i in range(20)]
    rows += [("not_equivalent", f"word{i} is here", f"nothing like name{i}") for i in range(20)]
    train = examples(rows)  # type: ignore[arg-type]
    task = load_task("mrpc").fit(train)
    new = examples(
        [("equivalent", "red is here", "here is red"), ("not_equivalent", "red is here", "no blue")]
    )
    shares = {
        name: task.score(fitted(name, task, train)(new), new)["accuracy"].value for name in baselines.NAMES
    }
    assert shares == {baselines.MAJORITY: 0.5, baselines.LINEAR: 1.0}


def test_numbers_are_fitted_to_the_overlap_and_the_majority_is_their_mean() -> None:
    train = examples(
        [(str(5 * k / 10), "a b c d e f g h i j", " ".join("abcdefghij"[:k])) for k in range(1, 11)]
    )
    task = load_task("stsb").fit(train)
    guess, mean = (fitted(name, task, train)(train) for name in (baselines.LINEAR, baselines.MAJORITY))
    assert task.score(guess, train)["spearmanr"].value == pytest.approx(1.0)
    assert task.score(mean, train)["spearmanr"].value is None
    assert mean[0] == pytest.approx([2.75])


def test_the_tag_of_a_word_is_its_most_frequent_one() -> None:
    train = examples(
        [(("N", "V"), "time", "flies"), (("N", "N"), "fruit", "flies"), (("V", "N"), "flies", "flies")]
    )
    task = load_task("pos").fit(train)
    [prediction] = fitted(baselines.LINEAR, task, train)(examples([(None, "flies", "unseen", "time")]))
    assert prediction.tolist() == [[2 / 4, 2 / 4], [4 / 6, 2 / 6], [1.0, 0.0]]
    [constant] = fitted(baselines.MAJORITY, task, train)(examples([(None, "time", "x")]))
    assert constant.tolist() == [[4 / 6, 2 / 6]] * 2
    assert baselines.fit(baselines.LINEAR, load_task("squad"), []) is None


def test_labels_that_few_examples_have() -> None:
    """None has `never`, one has `once`; with single labels, too few to hold any out."""
    several = load_task("classification").configured(TaskOptions(multi_label=True))
    task = several.rebuilt(("fun", "sad", "once", "never"), {})
    rows = [(("fun",), "great joke")] * 8 + [(("sad",), "bad news")] * 8 + [(("sad", "once"), "bad luck")]
    [found] = fitted(baselines.LINEAR, task, examples(rows))(examples([(None, "great joke")]))  # type: ignore[arg-type]
    assert found[0] > 0.5 > max(found[1:3]) and found[3] == 0.0
    train = examples([("a", "good"), ("b", "bad"), ("c", "dull")])
    single = load_task("classification").fit(train)
    assert single.score(fitted(baselines.LINEAR, single, train)(train), train)["accuracy"].value == 1.0


def test_the_strength_is_chosen_on_a_sample_of_a_large_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_fit, "SELECTION_ROWS", 30)
    rows = examples([(str(i % 2), f"word{i} {('good', 'bad')[i % 2]}") for i in range(200)])
    task = load_task("classification").fit(rows)
    assert task.score(fitted(baselines.LINEAR, task, rows)(rows), rows)["accuracy"].value == 1.0
    numbers = [replace(example, gold=float(example.gold)) for example in rows]
    regression = load_task("regression").fit(numbers)
    guess = fitted(baselines.LINEAR, regression, numbers)(numbers)
    assert regression.score(guess, numbers)["pearson"].value > 0.9  # type: ignore[operator]
    blank = [replace(example, texts=(" ",)) for example in rows]
    assert fitted(baselines.LINEAR, task, blank)(blank)[0].tolist() == [0.5, 0.5], "no word to count"


def test_baselines_are_scored_once_and_reported(
    tmp_path: Path, modern_folder: Path, electra_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = toy_task.write_classification(tmp_path / "data", train=60, dev=20)
    said: list[str] = []

    def tuned(out: str, **changes: Any) -> dict[str, Any]:
        settings = toy_task.settings(tmp_path / out, data, "classification", **{"epochs": 1, **changes})
        return finetune(str(modern_folder), settings, said.append)

    results = tuned("out", baselines=True, untrained_baseline=True, seeds=2)
    rows = results["baselines"]
    assert rows["TF-IDF"]["eval_accuracy"] > 0.7 and rows["majority"]["eval_accuracy"] == 0.5
    fresh = tuned("fresh", init="random", seeds=2)
    assert results["untrained"]["eval_loss_by_seed"] == fresh["eval_loss_by_seed"]
    [line] = [line for line in said if "majority 0.5000, TF-IDF " in line]
    assert f"random initialization {results['untrained']['eval_accuracy']:.4f}" in line

    html = page.write_page(tmp_path / "out").read_text()
    assert all(name in html for name in ("TF-IDF", "frozen encoder", "random initialization"))
    assert not [finding for finding in FinetuningFolder(tmp_path / "out").verify() if finding.problem]

    alone = tuned("alone", head="frozen", epochs=None)
    assert rows["frozen encoder"]["eval_accuracy"] == alone["eval_accuracy"]
    monkeypatch.setattr(baselines, "scores", lambda *given: 1 / 0)
    again = tuned("out", baselines=True, seeds=2)
    assert again["baselines"] == rows and again["untrained"] == results["untrained"]
    assert "baselines" not in fresh and "untrained" not in fresh
    monkeypatch.undo()
    more = tuned("out", baselines=True, seeds=2, baseline_model=str(electra_folder))
    assert {"frozen encoder", "frozen encoder of electra"} <= more["baselines"].keys()


@pytest.mark.parametrize("pooling", [None, "cls"])
def test_the_frozen_baseline_pools_as_the_frozen_head_does(
    pooling: str | None, modern_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (runner, baselines):  # the pooling in an encoder's settings
        monkeypatch.setattr(module, "encoder_pooling", lambda loaded: pooling)
    data = toy_task.write_classification(tmp_path / "data", train=60, dev=40)
    settings = toy_task.settings(tmp_path / "out", data, "classification", epochs=0.0, baselines=True)
    frozen = toy_task.settings(tmp_path / "frozen", data, "classification", head="frozen", epochs=None)
    baseline = finetune(str(modern_folder), settings)["baselines"]["frozen encoder"]
    results = finetune(str(modern_folder), frozen)
    recorded = json.loads((tmp_path / "frozen/finetune.json").read_text())["settings"]["pooling"]
    assert recorded == (pooling or "mean")
    assert baseline == {key: results[key] for key in baseline}


def test_a_baseline_that_is_not_beaten_is_reported() -> None:
    results: dict[str, Any] = {"primary_metric": "accuracy", "eval_accuracy": 0.7, "seeds": [0]}
    assert list(compare_with_baselines(results)) == []
    former = {"majority": {"eval_accuracy": 0.5}, "word counting": {"eval_accuracy": 0.6}}
    results["baselines"] = former  # the names of an earlier version
    [line] = compare_with_baselines(results)
    assert "majority 0.5000, TF-IDF or overlap 0.6000" in line
    results["untrained"] = {"eval_accuracy": 0.7}
    assert "'random initialization'" in list(compare_with_baselines(results))[1]
    results["eval_samples"] = 100
    assert re.search("0.10 .*chance", list(compare_with_baselines(results))[1])
    results["baselines"]["frozen encoder"] = {"eval_accuracy": 0.8}
    assert "--head frozen" in list(compare_with_baselines(results))[1]


def test_a_random_model_has_no_untrained_baseline(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        toy_task.settings(tmp_path / "out", tmp_path, init="random", untrained_baseline=True)
