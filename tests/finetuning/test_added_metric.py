"""A metric that a task gets later: finished fine-tunings have it when they are rerun."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from contracts import toy_task
from sklearn.metrics import balanced_accuracy_score

from electra.artifacts.finetuning_files import FinetuningFolder
from electra.finetuning.score import baselines
from electra.finetuning.score import metrics as scores
from electra.finetuning.score.metrics import Score
from electra.finetuning.tasks import classification
from electra.finetuning.train.all_seeds import finetune
from electra.pages import finetuning_page as page


def new(predicted: Any, gold: Any) -> Score:
    return Score(float(balanced_accuracy_score(gold, predicted)))


def undefined(predicted: Any, gold: Any) -> Score:
    return Score(None, "never")


@pytest.fixture(scope="module")
def finished(modern_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A fine-tuning of two seeds with baselines and test, and its results."""
    folder = tmp_path_factory.mktemp("metric")
    data = toy_task.write_classification(folder / "data", train=40, dev=21)
    options: dict[str, Any] = {"epochs": 1, "seeds": 2, "baselines": True, "test": data / "dev.tsv"}
    settings = toy_task.settings(folder / "out", data, "classification", **options)
    return settings, finetune(str(modern_folder), settings)


@pytest.mark.parametrize("place", [0, 1, 3])
@pytest.mark.parametrize("metric", [new, undefined])
def test_a_metric_that_an_old_record_lacks_is_computed(
    place: int, metric: Any, finished: Any, modern_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, before = finished
    monkeypatch.setitem(scores.METRICS, "added", metric)
    names = list(classification.TASK.metrics)
    names.insert(place, "added")
    monkeypatch.setattr(classification, "TASK", replace(classification.TASK, metrics=tuple(names)))
    found = finetune(str(modern_folder), replace(settings))
    folder = FinetuningFolder(settings.out)
    if metric is new:
        rows = folder.read_dev()
        expected = balanced_accuracy_score([r["gold"] for r in rows], [r["predicted"] for r in rows])
        assert found["eval_added_by_seed"][found["seeds"].index(found["kept_seed"])] == expected
        assert found["test_added_by_seed"] == found["eval_added_by_seed"]
    else:
        assert found["eval_added"] is None and found["eval_added_reason"] == "never"
    assert found["primary_metric"] == names[0]
    assert all("eval_added" in values for values in found["baselines"].values())
    kept = ("eval_accuracy_by_seed", "test_f1_macro_by_seed", "eval_loss_by_seed")
    assert [found[key] for key in kept] == [before[key] for key in kept]
    assert "added" in page.write_page(settings.out).read_text()


def test_a_record_without_a_metric_of_today(
    finished: Any, modern_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The baselines of an older version lack it too, and are measured once more, not at each call."""
    settings, before = finished
    folder = FinetuningFolder(settings.out)
    known = json.loads(folder.baselines.read_text())
    less = {name: {k: v for k, v in of.items() if "f1_macro" not in k} for name, of in known.items()}
    folder.baselines.write_text(json.dumps(less))
    again = finetune(str(modern_folder), replace(settings))
    assert {n: v["eval_f1_macro"] for n, v in again["baselines"].items()} == {
        n: v["eval_f1_macro"] for n, v in before["baselines"].items()
    }
    monkeypatch.setattr(baselines, "predictions", lambda *given: 1 / 0)
    finetune(str(modern_folder), replace(settings))
