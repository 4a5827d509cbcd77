"""`search`: its trials, its budget, the data it uses, and bit-identical resumption."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from electra.artifacts.finetuning import FinetuningFolder
from electra.finetuning.runner import search as module
from electra.finetuning.runner.dataset import choose_task, read_dataset
from electra.finetuning.runner.finetune import finetune
from electra.finetuning.runner.search import neighbours, next_values
from electra.finetuning.settings import Settings, search_budget
from electra.foundation.errors import ConfigError, DataError, Interrupted
from electra.testing import toy_task


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_task.write_classification(tmp_path_factory.mktemp("data") / "sst2", train=60, dev=10)


def wanted(out: Path, data: Path, search: str = "3", **changes: Any) -> Settings:
    changes = {"epochs": 1.0, "learning_rate": None, "search": search, **changes}
    return toy_task.settings(out, data, **changes)


def without_times(found: dict[str, Any]) -> dict[str, Any]:
    trainings = [{**one, "seconds": 0} for one in found["trainings"]]
    return {**found, "seconds": 0, "trainings": trainings}


def test_the_best_trial_is_trained_and_all_are_recorded(
    tmp_path: Path, data: Path, modern_folder: Path
) -> None:
    said: list[str] = []
    results = finetune(str(modern_folder), wanted(tmp_path / "out", data), said.append)
    folder = FinetuningFolder(tmp_path / "out")
    found = folder.read_search()
    assert results["search"] == found and found["settings"] == ["learning_rate"]
    assert (found["trained_on"], found["scored_on"]) == (48, 12)
    assert [one["values"]["learning_rate"] for one in found["trainings"]][:2] == [1e-3, 2e-3]
    best = max(found["trainings"], key=lambda one: (one["score"], -one["loss"]))
    assert found["chosen"] == best["values"]
    assert results["learning_rate"] == best["values"]["learning_rate"]
    assert sum(" trial " in line for line in said) >= len(found["trainings"])
    assert not (folder.path / "checkpoints").exists() or not list((folder.path / "checkpoints").iterdir())
    alone = finetune(
        str(modern_folder),
        wanted(tmp_path / "alone", data, learning_rate=results["learning_rate"], search=None),
    )
    assert alone["eval_loss"] == results["eval_loss"], "the seeds are those without a search"
    assert list(folder.verify())


def test_trials_on_large_tables_are_scored_on_a_part(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = wanted(Path("out"), data)
    dataset = read_dataset(settings, choose_task(settings))
    monkeypatch.setattr(module, "MAX_DEV", 6)
    part = module.split_for_search(dataset).splits
    assert (len(part["train"]), len(part["dev"])) == (54, 6)
    assert sorted(e.id for e in (*part["train"], *part["dev"])) == sorted(
        e.id for e in dataset.splits["train"]
    )


def test_a_resumed_search_is_bit_identical(tmp_path: Path, data: Path, modern_folder: Path) -> None:
    whole = finetune(str(modern_folder), wanted(tmp_path / "whole", data))
    polls, stopped = iter(range(1, 1000)), 0
    for _ in range(20):
        try:
            settings = wanted(tmp_path / "parts", data)
            parts = finetune(str(modern_folder), settings, stop=lambda: next(polls) % 2 == 0)
            break
        except Interrupted:
            stopped += 1
    assert stopped >= 3 and without_times(parts["search"]) == without_times(whole["search"])
    assert parts["eval_loss_by_seed"] == whole["eval_loss_by_seed"]


def test_a_search_can_be_extended_until_a_seed_is_trained(
    tmp_path: Path, data: Path, modern_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    with monkeypatch.context() as patched:
        patched.setattr("electra.finetuning.runner.finetune.run_seed", lambda *given, **more: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            finetune(str(modern_folder), wanted(out, data, "2"))
    assert len(FinetuningFolder(out).read_search()["trainings"]) == 2
    made: list[dict[str, float]] = []
    train = module.train_and_score
    monkeypatch.setattr(module, "train_and_score", lambda *given: made.append(given[1]) or train(*given))
    assert len(finetune(str(modern_folder), wanted(out, data, "3"))["search"]["trainings"]) == 3
    assert len(finetune(str(modern_folder), wanted(out, data, "9"))["search"]["trainings"]) == 3
    assert len(made) == 1, "the first two are not trained again"


def test_the_search_continues_from_the_best_trial() -> None:
    start = {"learning_rate": 1e-3, "epochs": 3.0, "layer_decay": 1.0}
    made = list(neighbours(start, start))
    assert made[0] == {**start, "learning_rate": 2e-3} and made[1] == {**start, "learning_rate": 5e-4}
    assert [one["epochs"] for one in made[2:4]] == [6.0, 1.5]
    assert [one["layer_decay"] for one in made[4:]] == [0.9], "no layer learns faster than the one above"
    far = {**start, "learning_rate": 16e-3}
    assert all(one["learning_rate"] <= 16e-3 for one in neighbours(far, start))

    class Twice:
        """Steps follow the epochs."""

        def with_settings(self, **values: float) -> Any:
            return type("Steps", (), {"total_steps": int(100 * values.get("epochs", 3.0))})

    def trial(score: float | None, **values: float) -> dict[str, Any]:
        return {"values": {**start, **values}, "score": score, "loss": 1.0, "steps": 300, "seconds": 10.0}

    tried: Any = Twice()
    trials = [trial(0.5), trial(0.6, learning_rate=2e-3), trial(None, learning_rate=4e-3)]
    assert next_values(trials, start, "60s", tried) == {**start, "learning_rate": 2e-3, "epochs": 6.0}
    assert next_values(trials, start, "45s", tried) == {**start, "learning_rate": 2e-3, "epochs": 1.5}
    assert next_values(trials, start, "32s", tried) is None, "nothing fits"
    assert next_values(trials, start, "3", tried) is None
    assert next_values([], start, "2", tried) == start


@pytest.mark.parametrize("value", ["", "1", "0", "x", "10", "-3", "5steps", "1e9tokens", "3 trainings"])
def test_budgets(value: str, tmp_path: Path, data: Path) -> None:
    if value == "10":
        assert search_budget(value) == (10.0, "trials") and search_budget("2m") == (120.0, "seconds")
        return
    with pytest.raises(ConfigError) as caught:
        wanted(tmp_path / "out", data, value)
    assert caught.value.key == "search"


def test_bad_searches_write_nothing(tmp_path: Path, data: Path, modern_folder: Path) -> None:
    settings = wanted(tmp_path / "out", data, learning_rate=1e-3)
    with pytest.raises(ConfigError):
        finetune(str(modern_folder), settings)
    assert not (tmp_path / "out").exists()
    with pytest.raises(DataError):
        finetune(str(modern_folder), wanted(tmp_path / "few", data, limit_train=12))
    assert not (tmp_path / "few").exists()


def test_a_diverging_training_has_no_score(
    tmp_path: Path, data: Path, modern_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "neighbours", lambda *given: [{"learning_rate": 1e30}])
    found = finetune(str(modern_folder), wanted(tmp_path / "out", data))["search"]
    assert found["chosen"] == {"learning_rate": 1e-3}
    assert found["trainings"][1]["score"] is None and "not finite" in found["trainings"][1]["failed"]
    assert json.loads((tmp_path / "out" / "search.json").read_text()) == found
