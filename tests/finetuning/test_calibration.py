"""The temperature that is fitted on dev."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contracts import toy_task

from electra.finetuning.labelled.examples import Example
from electra.finetuning.predict import open_predictor
from electra.finetuning.task import Outputs
from electra.finetuning.tasks import load_task
from electra.finetuning.text_answers import TextClassification
from electra.finetuning.train.all_seeds import finetune
from electra.finetuning.train.calibrate import RANGE, fit_temperature
from electra.finetuning.windows.features import Windows


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
        table = open_predictor(str(out))(data / "dev.tsv").table()[1:]  # with a probability for 0 and for 1
        lines = (data / "dev.tsv").read_text().splitlines()[1:]
        gold = [int(line.rpartition("\t")[2]) for line in lines]
        probability = np.array([row[2 + label] for row, label in zip(table, gold, strict=True)])
        loss = float(-np.log(probability).mean())
        records[calibrate] = results, [row[1] for row in table], loss
    (calibrated, labels, loss), (plain, same_labels, plain_loss) = records[True], records[False]
    assert labels == same_labels
    assert plain["eval_loss"] == pytest.approx(plain_loss, rel=1e-4)
    assert calibrated["eval_loss"] == pytest.approx(loss, rel=1e-4)
    assert loss < plain_loss - 0.01


def test_a_task_with_its_own_predictions_is_not_calibrated() -> None:
    class Own(TextClassification):
        def predict(self, outputs: Outputs, windows: Windows, examples: Sequence[Example]) -> list[Any]:
            return [output.max() for output in outputs]

    class Inherited(TextClassification):
        pass

    assert (Own.outputs_are_logits, Inherited.outputs_are_logits) == (False, True)
