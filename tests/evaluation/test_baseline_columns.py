"""Baselines that need no network, as columns of an evaluation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from electra.commands.framework.main import main
from electra.finetuning.runner import baselines

pytestmark = pytest.mark.slow


def test_baselines_are_columns_beside_the_models(model: Path, data: Path, tmp_path: Path) -> None:
    suite = tmp_path / "toys.toml"
    suite.write_text(
        'title = "toys"\n[[task]]\nname = "sst2"\nfolders = ["sst-2"]\n[[task]]\nname = "rte"\n'
        '[[average]]\ntitle = "both"\ntasks = ["sst2", "rte"]\n'
    )
    words = [
        "evaluate",
        str(model),
        "--suite",
        str(suite),
        "--data",
        str(data),
        "--out",
        str(tmp_path / "out"),
    ]
    words += ["--device", "cpu", "--finetune.epochs", "1", "--finetune.precision", "fp32"]
    words += ["--baseline-model", str(model)]
    assert main(words) == 0
    record = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    assert [entry["name"] for entry in record["models"]] == ["toy", "toy (frozen)", *baselines.NAMES]
    for row in record["rows"]:
        assert all(score["status"] == "done" and score["n"] == 1 for score in row["scores"].values())
    first = record["rows"][0]["scores"]
    results = json.loads((tmp_path / "out/tasks/TF-IDF-or-overlap/sst2/all_results.json").read_text())
    assert first[baselines.LINEAR]["median"] == results["eval_accuracy"]
    assert first[baselines.LINEAR]["train_samples"] == first["toy"]["train_samples"]
    mean = sum(row["scores"][baselines.MAJORITY]["median"] for row in record["rows"]) / 2
    assert record["averages"][0]["scores"][baselines.MAJORITY] == pytest.approx(mean)
    page = (tmp_path / "out" / "evaluation.html").read_text()
    assert baselines.LINEAR in page and "no network" in page
    assert main(words) == 0  # nothing is repeated or refused


def test_settings_of_training_do_not_concern_the_frozen_encoder(
    model: Path, data: Path, tmp_path: Path
) -> None:
    suite = tmp_path / "toys.toml"
    suite.write_text('title = "toys"\n[[task]]\nname = "sst2"\nfolders = ["sst-2"]\n')
    words = ["evaluate", str(model), "--suite", str(suite), "--data", str(data), "--device", "cpu"]
    words += ["--finetune.epochs", "0.1", "--finetune.limit-train", "16", "--no-baselines"]
    frozen = ["--baseline-model", str(model)]
    assert main([*words, "--out", str(tmp_path / "a"), *frozen]) == 0
    teacher = str(tmp_path / "a/tasks/toy/sst2")
    learning = ["--finetune.teacher", teacher, "--finetune.teacher-weight", "0.25"]
    assert main([*words, "--out", str(tmp_path / "b"), *frozen, *learning]) == 0
    linear = ["--finetune.head", "linear"]
    assert main([*words, "--out", str(tmp_path / "c"), *frozen, *linear]) == 0
    rows = [json.loads((tmp_path / name / "evaluation.json").read_text())["rows"][0] for name in "abc"]
    assert len({row["scores"]["toy (frozen)"]["median"] for row in rows}) == 1
