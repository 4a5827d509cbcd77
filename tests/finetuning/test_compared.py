"""Baselines of a fine-tuning: those without a network, and the same seeds from random initialization."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from electra.artifacts.finetuning import FinetuningFolder
from electra.commands.framework.main import main
from electra.finetuning.runner import baselines
from electra.finetuning.runner.all_seeds import finetune
from electra.finetuning.runner.compared import compare_with_baselines
from electra.foundation.errors import ConfigError, DataError
from electra.pages import finetuning as page
from electra.testing import toy_task


def test_baselines_are_scored_and_reported(
    tmp_path: Path, modern_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = toy_task.write_classification(tmp_path / "data", train=60, dev=20)
    said: list[str] = []

    def tuned(out: str, **changes: Any) -> dict[str, Any]:
        settings = toy_task.settings(tmp_path / out, data, "classification", **{"epochs": 1, **changes})
        return finetune(str(modern_folder), settings, said.append)

    results = tuned("out", baselines=True, untrained_baseline=True, seeds=2)
    assert results["baselines"]["TF-IDF"]["eval_accuracy"] > 0.7
    assert results["baselines"]["majority"]["eval_accuracy"] == 0.5
    fresh = tuned("fresh", init="random", seeds=2)
    assert results["untrained"]["eval_loss_by_seed"] == fresh["eval_loss_by_seed"]
    [line] = [line for line in said if "majority 0.5000, TF-IDF " in line]
    assert f"random initialization {results['untrained']['eval_accuracy']:.4f}" in line
    assert any(line.startswith("untrained, seed 1  dev: ") for line in said)
    others = {name: scores["eval_accuracy"] for name, scores in results["baselines"].items()}
    others["random initialization"] = results["untrained"]["eval_accuracy"]
    ahead = max(others, key=lambda name: others[name])
    behind = results["eval_accuracy"] <= others[ahead]
    advice = "--head frozen" if ahead == "frozen encoder" else "try --head bag"
    assert any(advice in line for line in said) == behind

    html = page.write_page(tmp_path / "out").read_text()
    assert re.search(
        r"TF-IDF</th>\s*<th[^>]*>frozen encoder</th>\s*<th[^>]*>random initialization</th>", html
    )
    assert page.verdict(results) in html
    assert not [
        baseline_scores.problem
        for baseline_scores in FinetuningFolder(tmp_path / "out").verify()
        if baseline_scores.problem
    ]

    monkeypatch.setattr(baselines, "scores", lambda *given: 1 / 0)
    again = tuned("out", baselines=True, seeds=2)
    assert again["baselines"] == results["baselines"] and again["untrained"] == results["untrained"]
    assert "baselines" not in fresh and "untrained" not in fresh


def test_a_baseline_that_is_not_beaten_is_reported() -> None:
    results: dict[str, Any] = {"primary_metric": "accuracy", "eval_accuracy": 0.7, "seeds": [0]}
    assert list(compare_with_baselines(results)) == []
    former = {"majority": {"eval_accuracy": 0.5}, "word counting": {"eval_accuracy": 0.6}}
    results["baselines"] = former  # the names of an earlier release
    [line] = compare_with_baselines(results)
    assert "majority 0.5000, TF-IDF or overlap 0.6000" in line
    assert "TF-IDF or overlap, by 0.100" in page.verdict(results)
    results["untrained"] = {"eval_accuracy": 0.7}
    assert "'random initialization'" in list(compare_with_baselines(results))[1]
    advice = list(compare_with_baselines(results, "bag"))[1]
    assert "--head bag" in advice and "cannot be exported to ONNX" in advice
    results["eval_samples"] = 100
    assert "on 100 examples a difference below 0.10" in list(compare_with_baselines(results))[1]
    assert "does not beat the best baseline, random initialization" in page.verdict(results)
    results["eval_accuracy"] = None
    assert "undefined" in page.verdict(results)


def test_texts_without_answers_have_no_baselines_and_no_search(tmp_path: Path, modern_folder: Path) -> None:
    texts = tmp_path / "texts.csv"
    texts.write_text("text\n" + "".join(f"a {word} film of my town\n" for word in toy_task.OTHER * 2))
    settings = toy_task.settings(tmp_path / "out", texts, "contrastive", epochs=0.5, baselines=True)
    assert "baselines" not in finetune(str(modern_folder), settings)
    with pytest.raises(DataError):
        settings = toy_task.settings(tmp_path / "x", texts, "contrastive", learning_rate=None, search="2")
        finetune(str(modern_folder), settings)


def test_scored_pairs_have_baselines(tmp_path: Path, modern_folder: Path, regression_folder: Path) -> None:
    settings = toy_task.settings(
        tmp_path / "out", regression_folder, "similarity", epochs=0.1, baselines=True
    )
    baseline_scores = finetune(str(modern_folder), settings)["baselines"]
    assert (
        baseline_scores["majority"]["eval_spearmanr"] is None
        and baseline_scores["word overlap"]["eval_spearmanr"] is not None
    )


@pytest.mark.usefixtures("no_figures")
def test_baselines_are_the_default_and_can_be_left_out(
    tmp_path: Path, modern_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = toy_task.write_tagging(tmp_path / "data", train=20, dev=8)
    words = ["finetune", str(modern_folder), "--task", "tagging", "--data", str(data), "--epochs", "1"]
    assert main([*words, "--device", "cpu", "--out", str(tmp_path / "with")]) == 0
    out = capsys.readouterr().out
    assert "majority 0." in out and "most frequent tag of each word 0." in out
    assert main([*words, "--device", "cpu", "--out", str(tmp_path / "without"), "--no-baselines"]) == 0
    assert "to compare" not in capsys.readouterr().out
    assert "most frequent tag" not in (tmp_path / "without" / "report.html").read_text()


def test_the_strength_is_chosen_on_a_sample_of_a_large_table(monkeypatch: pytest.MonkeyPatch) -> None:
    from electra.finetuning.labelled.examples import Example
    from electra.finetuning.tasks import load_task

    monkeypatch.setattr(baselines, "MAX_TUNING_EXAMPLES", 30)
    rows = [Example(str(i), f"f:{i}", (f"word{i} {('good', 'bad')[i % 2]}",), str(i % 2)) for i in range(200)]
    task = load_task("classification").fit(rows)
    predict = baselines.fit(baselines.LINEAR, task, rows)
    assert predict is not None and task.score(predict(rows), rows)["accuracy"].value == 1.0
    numbers = [Example(e.id, e.where, e.texts, float(e.gold)) for e in rows]
    regression = load_task("regression").fit(numbers)
    guess = baselines.fit(baselines.LINEAR, regression, numbers)
    assert guess is not None and regression.score(guess(numbers), numbers)["pearson"].value > 0.9  # type: ignore[operator]
    blank = [Example(e.id, e.where, (" ",), e.gold) for e in rows]
    constant = baselines.fit(baselines.LINEAR, task, blank)
    assert constant is not None and constant(blank)[0].tolist() == [0.5, 0.5], "no word to count"


def test_an_untrained_baseline_of_fresh_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        toy_task.settings(tmp_path / "out", tmp_path, init="random", untrained_baseline=True)
