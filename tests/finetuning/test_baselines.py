"""Baselines: scores computed by hand for every kind of task, and what a fine-tuning says of them."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from contracts import toy_task
from scipy.stats import binomtest

from electra.artifacts.finetuning_files import verdict
from electra.finetuning import counts, linear_fit
from electra.finetuning.labelled.examples import Example
from electra.finetuning.score import baselines
from electra.finetuning.settings import TaskOptions
from electra.finetuning.tasks import load_task
from electra.finetuning.train.all_seeds import describe_results, finetune
from electra.pages import finetuning_page as page


def examples(rows: list[tuple[object, ...]]) -> list[Example]:
    return [Example(str(i), f"f:{i}", tuple(texts), gold) for i, (gold, *texts) in enumerate(rows)]  # type: ignore[arg-type]


def fitted(baseline: str, task: Any, train: list[Example]) -> baselines.Predict:
    predict = baselines.fit(baseline, task, train)
    assert predict is not None
    return predict


def test_overlap_by_hand() -> None:
    weight = {"the": 0.0, "cat": 1.0, "sat": 1.0, "dog": 2.0}.__getitem__
    words, of_first, of_second, neighbours, *_, lengths = counts.overlaps("the cat sat", "The dog sat")
    weighted = counts.weighted_overlap("the cat sat", "The dog sat", weight)
    assert (words, of_first, of_second) == (2 / 4, 2 / 3, 2 / 3)
    assert weighted == 1.0 / 4.0 and neighbours == 0.0 and lengths == 0.0
    assert [*counts.overlaps("a b", "a b")] == [1.0] * 6 + [0.0]
    assert counts.overlaps("abcd", "bcd!")[4] == 2 * 2 / 6
    assert not counts.overlaps("", "").any() and counts.weighted_overlap("", "", len) == 0.0


def test_a_linear_model_separates_pairs_by_overlap() -> None:
    rows = [("equivalent", f"word{i} is here", f"here is word{i}") for i in range(20)]
    rows += [("not_equivalent", f"word{i} is here", f"nothing like name{i}") for i in range(20)]
    train = examples(rows)  # type: ignore[arg-type]
    task = load_task("mrpc").fit(train)
    new = examples([("equivalent", "red is here", "here is red"), ("not_equivalent", "red is here", "no blue")])
    shares = {name: task.score(fitted(name, task, train)(new), new)["accuracy"].value for name in baselines.NAMES}
    assert shares == {baselines.MAJORITY: 0.5, baselines.COUNTS: 1.0}


def test_numbers_are_fitted_to_the_overlap_and_the_majority_is_their_mean() -> None:
    train = examples([(str(5 * k / 10), "a b c d e f g h i j", " ".join("abcdefghij"[:k])) for k in range(1, 11)])
    task = load_task("stsb").fit(train)
    guess, mean = (fitted(name, task, train)(train) for name in (baselines.COUNTS, baselines.MAJORITY))
    assert task.score(guess, train)["spearmanr"].value == pytest.approx(1.0)
    assert task.score(mean, train)["spearmanr"].value is None
    assert mean[0] == pytest.approx([2.75])


def test_the_tag_of_a_word_is_its_most_frequent_one() -> None:
    train = examples([(("N", "V"), "time", "flies"), (("N", "N"), "fruit", "flies"), (("V", "N"), "flies", "flies")])
    task = load_task("pos").fit(train)
    [prediction] = fitted(baselines.WORD_TAGS, task, train)(examples([(None, "flies", "unseen", "time")]))
    assert prediction.tolist() == [[2 / 4, 2 / 4], [4 / 6, 2 / 6], [1.0, 0.0]]
    [constant] = fitted(baselines.MAJORITY, task, train)(examples([(None, "time", "x")]))
    assert constant.tolist() == [[4 / 6, 2 / 6]] * 2
    assert baselines.fit(baselines.COUNTS, load_task("squad"), []) is None


def test_labels_that_few_examples_have() -> None:
    """None has `never`, one has `once`; with single labels, too few to hold any out."""
    several = load_task("classification").with_options(TaskOptions(multi_label=True))
    task = several.rebuilt(("fun", "sad", "once", "never"), {})
    rows = [(("fun",), "great joke")] * 8 + [(("sad",), "bad news")] * 8 + [(("sad", "once"), "bad luck")]
    [found] = fitted(baselines.COUNTS, task, examples(rows))(examples([(None, "great joke")]))  # type: ignore[arg-type]
    assert found[0] > 0.5 > max(found[1:3]) and found[3] < 0.01
    train = examples([("a", "good"), ("b", "bad"), ("c", "dull")])
    single = load_task("classification").fit(train)
    assert single.score(fitted(baselines.COUNTS, single, train)(train), train)["accuracy"].value == 1.0


def test_the_strength_is_chosen_on_a_sample_of_a_large_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_fit, "FEW_ROWS", 30)
    rows = examples([(str(i % 2), f"word{i} {('good', 'bad')[i % 2]}") for i in range(200)])
    task = load_task("classification").fit(rows)
    assert task.score(fitted(baselines.COUNTS, task, rows)(rows), rows)["accuracy"].value == 1.0
    numbers = [replace(example, gold=float(example.gold)) for example in rows]
    regression = load_task("regression").fit(numbers)
    guess = fitted(baselines.COUNTS, regression, numbers)(numbers)
    assert regression.score(guess, numbers)["pearson"].value > 0.9  # type: ignore[operator]
    blank = [replace(example, texts=(" ",)) for example in rows]
    assert fitted(baselines.COUNTS, task, blank)(blank)[0].tolist() == [0.5, 0.5], "no word to count"


def test_baselines_are_scored_once_and_reported(
    tmp_path: Path, modern_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, said = toy_task.write_classification(tmp_path / "data", train=60, dev=20), list[str]()
    settings = toy_task.settings(tmp_path / "out", data, "classification", epochs=0.5, baselines=True)
    rows = finetune(str(modern_folder), settings, said.append)["baselines"]
    assert rows["counts"]["eval_accuracy"] > 0.7 and rows["majority"]["eval_accuracy"] == 0.5
    assert [line for line in said if "majority 0.5000, counts " in line]
    html = page.write_page(tmp_path / "out").read_text()
    assert "counts" in html and "majority" in html
    monkeypatch.setattr(baselines, "predictions", lambda *given: 1 / 0)
    again = finetune(str(modern_folder), replace(settings, seeds=2))["baselines"]
    for found in (rows, again):
        assert {values.pop("eval_paired")["examples"] for values in found.values()} == {20}
    assert again == rows
    fitted_only = toy_task.settings(tmp_path / "frozen", data, "classification", head="frozen", epochs=None)
    results = finetune(str(modern_folder), fitted_only)
    assert rows["frozen encoder"] == {key: results[key] for key in rows["frozen encoder"]}


def test_many_examples_times_labels_are_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(f"label{i % 9}", f"word{i % 9} is here {i}") for i in range(90)]
    train = examples(rows)  # type: ignore[arg-type]
    task = load_task("classification").fit(train)
    monkeypatch.setattr(baselines, "MANY_FITS", 9 * 45)
    assert len(baselines.limited(task, train)) == 45
    guess = fitted(baselines.COUNTS, task, train)(train)
    assert task.score(guess, train)["accuracy"].value == 1.0 and guess[0].shape == (9,)


@pytest.mark.parametrize(("won", "lost"), [(0, 0), (1, 0), (0, 1), (4, 0), (9, 2), (8, 1), (20, 18), (3, 14)])
def test_the_paired_comparison_is_the_sign_test(won: int, lost: int) -> None:
    """With one seed it is the exact test of scipy."""
    exact = binomtest(won, won + lost).pvalue if won + lost else 1.0
    right = [i < won for i in range(40)]  # where the baseline is wrong; it is right on the next
    wrong = [i for i in range(40) if not won <= i < won + lost]
    found: dict[str, dict[str, Any]] = {"TF-IDF": {"eval_wrong": wrong}}
    baselines.compare(found, [right], range(40))
    assert found["TF-IDF"]["eval_paired"]["difference"] == pytest.approx((won - lost) / 40)
    assert found["TF-IDF"]["eval_paired"]["p"] == pytest.approx(exact, abs=0.015)
    both: dict[str, dict[str, Any]] = {"TF-IDF": {"eval_wrong": wrong}}
    baselines.compare(both, [right, right], range(40))
    assert both["TF-IDF"] == found["TF-IDF"], "two equal seeds are not twice the evidence"


def test_a_verdict_says_whether_it_may_be_chance() -> None:
    results: dict[str, Any] = {"primary_metric": "accuracy", "eval_accuracy": 0.6, "seeds": [0]}
    assert list(describe_results(results, ["accuracy"])) == ["dev: accuracy 0.6000"]
    results |= {"baselines": {"majority": {"eval_accuracy": 0.5}, "TF-IDF": {"eval_accuracy": 0.6}}}
    results["eval_samples"] = 100
    _, listed, note = describe_results(results, ["accuracy"])
    assert "majority 0.5000, TF-IDF 0.6000" in listed
    assert "TF-IDF" in note and re.search("0.10 .*chance", note)
    for p, may_be in ((0.2, True), (0.01, False)):
        results["baselines"]["TF-IDF"]["eval_paired"] = {"examples": 160, "difference": 0.05, "p": p}
        assert ("chance" in verdict(results)) is may_be and "160" in verdict(results)
    results["baselines"]["frozen encoder"] = {"eval_accuracy": 0.8}
    assert "--head frozen" in list(describe_results(results, ["accuracy"]))[2]
