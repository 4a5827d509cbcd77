"""The head `frozen`: the encoder is not trained, and the linear model is scikit-learn's."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from electra.exchange.load import load
from electra.finetuning.heads import frozen
from electra.finetuning.predict import predict
from electra.finetuning.runner.all_seeds import finetune
from electra.foundation.errors import ConfigError
from electra.inference.embedding import embed
from electra.testing import toy_task

COLOURS = ("red", "green", "blue")


def three_classes(folder: Path, name: str, count: int) -> list[tuple[str, str]]:
    """Texts whose second word is their label."""
    rows = [
        (f"a {toy_task.OTHER[i % len(toy_task.OTHER)]} film of my town {i % 3}", COLOURS[i % 3])
        for i in range(count)
    ]
    folder.mkdir(exist_ok=True)
    with (folder / f"{name}.csv").open("w", newline="") as out:
        csv.writer(out).writerows([("text", "label"), *rows])
    return rows


@pytest.mark.parametrize("encoder", ["modern_folder", "electra_folder"])
def test_probabilities_are_those_of_logistic_regression_on_the_mean_of_the_states(
    tmp_path: Path, encoder: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frozen, "STRENGTHS", (1.0,))
    model = str(request.getfixturevalue(encoder))
    train = three_classes(tmp_path / "data", "train", 90)
    dev = three_classes(tmp_path / "data", "dev", 12)
    settings = toy_task.settings(
        tmp_path / "out", tmp_path / "data", "classification", head="frozen", epochs=None, learning_rate=None
    )
    results = finetune(model, settings)
    assert results["steps"] == 0

    loaded = load(model, "encoder")
    x, y = (embed(loaded, [text for text, _ in rows], "mean").astype(float) for rows in (train, dev))
    mean, scale = x.mean(0), x.std()
    expected = LogisticRegression(C=1.0, max_iter=1000, tol=1e-8).fit(
        (x - mean) / scale, [label for _, label in train]
    )
    answers = predict(str(tmp_path / "out"), tmp_path / "data/dev.csv")
    for prediction, probability in zip(
        answers.values, expected.predict_proba((y - mean) / scale), strict=True
    ):
        probabilities = [prediction[answers.task.label_names.index(label)] for label in expected.classes_]
        assert np.allclose(probabilities, probability, atol=2e-3)


def test_tags_are_learned_without_training_the_encoder(tmp_path: Path, modern_folder: Path) -> None:
    data = toy_task.write_tagging(tmp_path / "data", train=100, dev=20)
    settings = toy_task.settings(
        tmp_path / "out", data, "tagging", head="frozen", epochs=None, baselines=True
    )
    results = finetune(str(modern_folder), settings)
    assert results["steps"] == 0
    assert results["eval_accuracy"] > results["baselines"]["majority"]["eval_accuracy"]
    assert "frozen encoder" not in results["baselines"]  # it is the model itself


def test_the_frozen_head_is_a_baseline_of_fine_tunings(tmp_path: Path, modern_folder: Path) -> None:
    data = toy_task.write_classification(tmp_path / "data", train=60, dev=20)
    settings = toy_task.settings(tmp_path / "out", data, "classification", epochs=0.1, baselines=True)
    results = finetune(str(modern_folder), settings)
    alone = toy_task.settings(tmp_path / "alone", data, "classification", head="frozen", epochs=None)
    expected = finetune(str(modern_folder), alone)["eval_accuracy"]
    assert results["baselines"]["frozen encoder"]["eval_accuracy"] == expected


def test_spans_are_refused(tmp_path: Path, modern_folder: Path) -> None:
    with pytest.raises(ConfigError):
        finetune(str(modern_folder), toy_task.settings(tmp_path / "out", tmp_path, "qa", head="frozen"))
