"""Training on the answers of a fine-tuned teacher."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from electra.finetuning.labelled.examples import Example
from electra.finetuning.runner.finetune import finetune
from electra.finetuning.runner.soft_labels import reorder_labels
from electra.finetuning.settings import Settings
from electra.finetuning.tasks import load_task
from electra.finetuning.tasks.parts.losses import cross_entropy
from electra.foundation.errors import ConfigError, DataError, Interrupted, RunFolderError
from electra.testing import toy_task


@pytest.fixture(scope="module")
def teacher(electra_folder: Path, sst2_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("teacher") / "out"
    finetune(str(electra_folder), toy_task.settings(out, sst2_folder, epochs=4))
    return out


def settings(out: Path, data: Path, **more: Any) -> Settings:
    return toy_task.settings(out, data, epochs=1, **more)


def weights_of(out: Path) -> dict[str, torch.Tensor]:
    return load_file(out / "model" / "model.safetensors")


@pytest.mark.parametrize("weights", [(), (0.5, 2.0, 1.0)])
def test_the_loss_is_the_weighted_sum_of_both_cross_entropies(weights: tuple[float, ...]) -> None:
    """Hinton et al. 2015, section 2, at temperature 1."""
    torch.manual_seed(0)
    task = load_task("classification").rebuilt(("a", "b", "c"), {})
    logits, gold = torch.randn(5, 3), [0, 2, 1, 1, 0]
    answers = torch.softmax(torch.randn(5, 3), -1).numpy()
    examples = [Example(str(n), "file:1", ("text",), task.label_names[g]) for n, g in enumerate(gold)]
    targets = np.stack([task.soft_target(e, a, 0.3) for e, a in zip(examples, answers, strict=True)])
    total, count = cross_entropy(logits, torch.from_numpy(targets), weights)
    per_class = torch.tensor(weights or (1.0, 1.0, 1.0))
    logs = F.log_softmax(logits, -1) * per_class
    expected = -0.3 * (torch.from_numpy(answers) * logs).sum() - 0.7 * logs[range(5), gold].sum()
    assert float(total) == pytest.approx(float(expected), rel=1e-5)
    in_all = 0.3 * float((torch.from_numpy(answers) * per_class).sum()) + 0.7 * float(per_class[gold].sum())
    assert count == pytest.approx(in_all, rel=1e-5)


def test_a_number_is_mixed_on_the_scale_of_the_targets(regression_folder: Path) -> None:
    task = load_task("regression")
    task = task.fit(task.read(regression_folder / "train.csv").examples)
    low, high = task.bounds  # type: ignore[attr-defined]
    example = Example("1", "file:1", ("text",), str(low))
    assert float(task.soft_target(example, np.array([high]), 0.25)) == pytest.approx(0.25)
    assert float(task.soft_target(example, np.array([high]), 1.0)) == pytest.approx(1.0)


def test_labels_in_another_order_are_brought_into_the_tasks_order() -> None:
    assert reorder_labels([np.array([0.1, 0.7, 0.2])], "xyz", "zxy")[0].tolist() == [0.2, 0.1, 0.7]


def test_a_student_agrees_with_its_teacher_on_texts_that_nobody_labelled(
    electra_folder: Path, sst2_folder: Path, teacher: Path, tmp_path: Path
) -> None:
    rows = (sst2_folder / "train.tsv").read_text().splitlines()
    few = tmp_path / "few"
    few.mkdir()
    (few / "train.tsv").write_text("\n".join(rows[:13]) + "\n")
    (few / "dev.tsv").write_text((sst2_folder / "dev.tsv").read_text())
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(row.split("\t")[0] for row in rows[13:]) + "\n\n")
    alone = finetune(str(electra_folder), toy_task.settings(tmp_path / "alone", few, epochs=4))
    chosen = toy_task.settings(tmp_path / "taught", few, epochs=4, teacher=teacher, unlabelled=texts)
    taught = finetune(str(electra_folder), chosen)
    assert taught["eval_accuracy"] > 0.9 > alone["eval_accuracy"]
    record = json.loads((tmp_path / "taught" / "finetune.json").read_text())
    assert {"teacher", "data"} <= set(record["identity"]) and "unlabelled" in record["identity"]["data"]
    assert any("288" in note for note in taught["notes"])


def test_a_stopped_run_goes_on_to_the_same_weights_and_another_teacher_is_refused(
    electra_folder: Path, sst2_folder: Path, teacher: Path, tmp_path: Path
) -> None:
    whole, parts = (settings(tmp_path / name, sst2_folder, teacher=teacher) for name in ("whole", "parts"))
    finetune(str(electra_folder), whole)
    asked = iter([False, False, True])
    with pytest.raises(Interrupted):
        finetune(str(electra_folder), parts, stop=lambda: next(asked, True))
    finetune(str(electra_folder), parts)
    first, second = weights_of(tmp_path / "whole"), weights_of(tmp_path / "parts")
    assert all(torch.equal(first[name], second[name]) for name in first)
    retrained = tmp_path / "retrained"  # the same settings, one weight differs
    shutil.copytree(teacher, retrained)
    weights = weights_of(retrained)
    next(value for name, value in sorted(weights.items()) if "layer" in name)[0] += 0.25
    save_file(weights, retrained / "model" / "model.safetensors", {"format": "pt"})
    for other in ({}, {"teacher": teacher, "teacher_weight": 0.9}, {"teacher": retrained}):
        with pytest.raises(RunFolderError):
            finetune(str(electra_folder), settings(tmp_path / "whole", sst2_folder, **other))


def test_what_cannot_teach_is_refused_before_anything_is_written(
    electra_folder: Path, sst2_folder: Path, regression_folder: Path, teacher: Path, tmp_path: Path
) -> None:
    out, student = tmp_path / "out", str(electra_folder)
    with pytest.raises(ConfigError) as other_answers:
        finetune(student, toy_task.settings(out, regression_folder, task="regression", teacher=teacher))
    assert other_answers.value.key == "teacher"
    with pytest.raises(ConfigError) as fitted:
        finetune(student, replace(settings(out, sst2_folder, teacher=teacher, head="frozen"), epochs=None))
    assert fitted.value.key == "head"
    with pytest.raises(ConfigError, match="teacher_weight"):
        finetune(student, settings(out, sst2_folder, teacher=None, teacher_weight=0.25))
    with pytest.raises(ConfigError):
        settings(out, sst2_folder, unlabelled=tmp_path / "texts.txt")
    with pytest.raises(ConfigError):
        settings(out, sst2_folder, teacher=teacher, search="3")
    with pytest.raises(DataError) as absent:
        finetune(student, settings(out, sst2_folder, teacher=teacher, unlabelled=tmp_path / "texts.txt"))
    assert "texts.txt" in absent.value.where
    (tmp_path / "empty.txt").write_text(" \n\n")
    with pytest.raises(DataError):
        finetune(student, settings(out, sst2_folder, teacher=teacher, unlabelled=tmp_path / "empty.txt"))
    assert not out.exists()


def test_unlabelled_texts_that_are_also_in_dev_are_noted(
    teacher: Path, electra_folder: Path, sst2_folder: Path, tmp_path: Path
) -> None:
    said, texts = list[str](), tmp_path / "texts.txt"
    dev = [line.split("\t")[0] for line in (sst2_folder / "dev.tsv").read_text().splitlines()[1:]]
    texts.write_text(f"{dev[0].upper()}\nnever seen before\n")
    given = settings(tmp_path / "out", sst2_folder, teacher=str(teacher), unlabelled=texts)
    finetune(str(electra_folder), given, said.append)
    assert [line for line in said if "also in the texts without labels" in line]
