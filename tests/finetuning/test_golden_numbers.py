"""Numbers that fine-tuning gave before its rooms were rebuilt (commit 5746d1b): the same to rounding, so that
no change of structure is a change of what is computed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import toy_questions

from electra.finetuning.runner.finetune import finetune
from electra.testing import toy_task

SMALL = {"learning_rate": 2e-3, "layer_decay": 0.9, "epochs": 2.0}
GOLDEN = {
    "classification": {"eval_accuracy": 1.0, "eval_loss": 0.22447004, "train_loss": 0.12634018},
    "regression": {"eval_pearson": 0.85496447, "eval_mae": 1.11161994, "train_loss": 0.10048915},
    "tagging": {"eval_accuracy": 0.77073171, "eval_f1": 0.35365854, "train_loss": 1.08295189},
    "squad": {"eval_exact_match": 0.73333333, "eval_f1": 0.91111111, "train_loss": 0.99588870},
}


@pytest.mark.parametrize("kind", GOLDEN)
def test_the_golden_numbers_are_unchanged(
    kind: str, electra_folder: Path, modern_folder: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    model, task, changes = {
        "classification": (modern_folder, "sst2", {"keep_epoch": "best"}),
        "regression": (electra_folder, "regression", {"both_orders": True}),
        "tagging": (electra_folder, "tagging", {"class_weights": "balanced"}),
        "squad": (electra_folder, "squad", {}),
    }[kind]
    write = {
        "classification": lambda: toy_task.write_classification(data, test=20),
        "regression": lambda: toy_task.write_regression(data),
        "tagging": lambda: toy_task.write_tagging(data),
        "squad": lambda: toy_questions.write_squad(data),
    }[kind]
    settings = toy_task.settings(tmp_path / "out", write(), task, **SMALL, **changes)  # type: ignore[arg-type]
    results = finetune(str(model), settings)
    assert {name: results[name] for name in GOLDEN[kind]} == pytest.approx(GOLDEN[kind], rel=1e-5)
