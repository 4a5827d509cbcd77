"""task.json of a fine-tuned model's folder, which may come from anybody."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from electra.finetuning.runner.task_file import read_task, task_file
from electra.foundation.errors import ModelError

GOOD = {
    "head": "bag",
    "pooling": "mean",
    "epochs": 1.0,
    "learning_rate": 1e-3,
    "layer_decay": 0.8,
    "max_length": 128,
    "text_column": ["review"],
    "search": True,
    "a_later_setting": 3,
}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert read_task(tmp_path) is None
    (tmp_path / "task.json").write_bytes(task_file("sst2", GOOD))
    assert read_task(tmp_path) == {"task": "sst2", "settings": GOOD}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "JSON"),
        ("[]", "not the task"),
        (json.dumps({"task": "sst2"}), "not the task"),
        (json.dumps({"task": ["sst2"], "settings": GOOD}), "not the task"),
        (json.dumps({"task": "sst2", "settings": {**GOOD, "head": "crown"}}), "no head named 'crown'"),
        (json.dumps({"task": "sst2", "settings": {**GOOD, "max_length": "long"}}), "'long' is not a whole"),
        (json.dumps({"task": "sst2", "settings": {**GOOD, "max_length": 0}}), "at least 1"),
        (json.dumps({"task": "sst2", "settings": {**GOOD, "text_column": 7}}), "7 is not a list"),
        (json.dumps({"task": "sst2", "settings": {"head": "bag"}}), "lacks max_length, pooling"),
    ],
)
def test_what_a_stranger_wrote_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    (tmp_path / "task.json").write_text(text.replace("HERE", str(tmp_path)))
    (tmp_path / "mine.py").write_text("raise SystemExit")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=said) as caught:
        read_task(tmp_path)
    assert str(tmp_path / "task.json") in str(caught.value) and "\n" not in str(caught.value)
