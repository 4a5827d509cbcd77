"""The temperature and the threshold that are chosen on dev."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import precision_recall_curve

from electra.finetuning.labelled.examples import Example
from electra.finetuning.predict import predict
from electra.finetuning.runner.calibration import LOWEST_THRESHOLD, RANGE, f1_threshold, fit_temperature
from electra.finetuning.runner.finetune import finetune
from electra.finetuning.tasks import load_task
from electra.finetuning.tasks.parts.task import Outputs
from electra.finetuning.tasks.parts.text_class import TextClassification
from electra.finetuning.windows.features import Windows
from electra.testing import toy_task


def logits_of(true_temperature: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Logits whose probabilities are right if they are divided by the temperature, and drawn labels."""
    right = rng.normal(size=(20_000, 3))
    probabilities = np.exp(right) / np.exp(right).sum(1, keepdims=True)
    labels = (probabilities.cumsum(1) < rng.random((len(right), 1))).sum(1)
    return (right * true_temperature).astype(np.float32), labels.astype(np.int64)


@pytest.mark.parametrize("true_temperature", [0.7, 1.0, 3.0])
def test_temperature_undoes_a_known_overconfidence(true_temperature: float) -> None:
    logits, labels = logits_of(true_temperature, np.random.default_rng(5))
    for task in ("classification", "tagging"):
        fitted = fit_temperature(load_task(task), logits, labels)
        # 20,000 draws determine the inverse temperature to about 1 / sqrt(20,000 * Var(logit)) = .01 (1 sd).
        assert fitted / true_temperature == pytest.approx(1, abs=0.04)


def test_a_model_without_errors_stays_within_the_range() -> None:
    logits = np.eye(3, dtype=np.float32)[np.arange(300) % 3] * 5
    fitted = fit_temperature(load_task("classification"), logits, np.arange(300) % 3)
    assert RANGE[0] <= fitted < RANGE[0] * 1.01


def noisy_data(folder: Path) -> Path:
    """Sentences of which every fifth has the wrong label, in training and dev data."""
    toy_task.write_classification(folder, train=120, dev=120)
    for split in ("train", "dev"):
        header, *lines = (folder / f"{split}.tsv").read_text().splitlines()
        for index in range(0, len(lines), 5):
            lines[index] = lines[index][:-1] + str(1 - int(lines[index][-1]))
        (folder / f"{split}.tsv").write_text("\n".join([header, *lines]) + "\n")
    return folder


def test_saved_probabilities_are_calibrated_and_labels_unchanged(
    electra_folder: Path, tmp_path: Path
) -> None:
    data = noisy_data(tmp_path / "data")
    records = {}
    for calibrate in (True, False):
        out = tmp_path / str(calibrate)
        settings = toy_task.settings(out, data, epochs=12, calibrate=calibrate)
        results = finetune(str(electra_folder), settings)
        table = predict(str(out), data / "dev.tsv").table()[1:]  # id, label, a probability for 0 and for 1
        lines = (data / "dev.tsv").read_text().splitlines()[1:]
        gold = [int(line.rpartition("\t")[2]) for line in lines]
        probability = np.array([row[2 + label] for row, label in zip(table, gold, strict=True)])
        loss = float(-np.log(probability).mean())
        records[calibrate] = results, [row[1] for row in table], loss
    (calibrated, labels, loss), (plain, same_labels, plain_loss) = records[True], records[False]
    assert labels == same_labels
    # The recorded loss is that of training, before the temperature, and the same with or without it.
    assert calibrated["eval_loss"] == pytest.approx(plain["eval_loss"]) == pytest.approx(plain_loss, rel=1e-4)
    assert loss < plain_loss - 0.01


def test_a_task_with_its_own_predictions_is_not_calibrated() -> None:
    class Own(TextClassification):
        def predict(self, outputs: Outputs, windows: Windows, examples: Sequence[Example]) -> list[Any]:
            return [output.max() for output in outputs]

    class Inherited(TextClassification):
        pass

    assert (Own.outputs_are_logits, Inherited.outputs_are_logits) == (False, True)


def test_threshold_of_uniform_probabilities_is_the_known_one() -> None:
    """With p uniform on [0, 1], F1(t) = (1 - t^2) / (3/2 - t), greatest at t = (3 - sqrt 5) / 2."""
    uniform = (np.arange(30_000) + 0.5) / 30_000
    threshold = f1_threshold(np.random.default_rng(1).permutation(uniform).reshape(-1, 3))
    assert threshold == pytest.approx((3 - math.sqrt(5)) / 2, abs=1e-3)
    assert f1_threshold(uniform * 0.05) == LOWEST_THRESHOLD and f1_threshold(np.ones(4)) == 0.5


@pytest.mark.parametrize(("a", "b"), [(0.5, 1.0), (2.0, 2.0), (1.0, 0.5)])
def test_threshold_without_labels_is_as_good_as_with_them(a: float, b: float) -> None:
    draw = np.random.default_rng(4)
    p = draw.beta(a, b, 40_000)
    labels = draw.random(len(p)) < p
    precision, recall, _ = precision_recall_curve(labels, p)
    predicted = p > f1_threshold(p)
    reached = 2 * (predicted & labels).sum() / (predicted.sum() + labels.sum())
    best = (2 * precision * recall / np.maximum(precision + recall, 1e-9)).max()
    assert reached > best - 0.003


def several_labels(folder: Path) -> Path:
    """Sentences labelled "praise" and "film" if they have such a word; a fifth of the labels is wrong."""
    folder.mkdir()
    for split, size in (("train", 200), ("dev", 150)):
        draw, lines = np.random.default_rng(size), []
        for _ in range(size):
            here = draw.random(2) < 0.3
            words = [toy_task.OTHER[3], *np.array([toy_task.GOOD[0], "film"])[here]]
            labels = np.array(["praise", "film"])[here != (draw.random(2) < 0.2)]
            lines.append(
                json.dumps({"text": [str(word) for word in words], "labels": labels.tolist()}) + "\n"
            )
        (folder / f"{split}.jsonl").write_text("".join(lines))
    return folder


def test_the_threshold_of_several_labels_is_part_of_the_saved_weights(
    electra_folder: Path, tmp_path: Path
) -> None:
    data, logits, results = several_labels(tmp_path / "data"), {}, {}
    for name, changes in {
        "on": {},
        "off": {"calibrate": False},
        "balanced": {"class_weights": "balanced"},
    }.items():
        out, options = tmp_path / name, {"multi_label": True, "label_column": "labels", **changes}
        chosen = toy_task.settings(out, data, "classification", epochs=6, learning_rate=5e-3, **options)
        scores = finetune(str(electra_folder), chosen)
        results[name] = json.loads((out / "seeds" / "seed-0" / "results.json").read_text())
        values = np.stack(predict(str(out), data / "dev.jsonl").values)
        logits[name] = np.log(values / (1 - values))
        rows = [json.loads(line) for line in (data / "dev.jsonl").read_text().splitlines()]
        gold = np.array([[label in row["labels"] for label in ("film", "praise")] for row in rows])
        predicted = values > 0.5
        f1 = 2 * (predicted & gold).sum() / (predicted.sum() + gold.sum())
        assert scores["eval_f1_micro"] == pytest.approx(f1)
    temperature, threshold = results["on"]["temperature"], results["on"]["threshold"]
    assert LOWEST_THRESHOLD <= threshold < 0.5
    shifted = logits["off"] / temperature - math.log(threshold / (1 - threshold))
    np.testing.assert_allclose(logits["on"], shifted, atol=1e-3)
    assert results["off"]["threshold"] is None and results["balanced"]["threshold"] is None
    assert results["balanced"]["temperature"] is not None
