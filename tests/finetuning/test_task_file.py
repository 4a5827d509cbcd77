"""task.json in the folder of a fine-tuned model, which may be untrusted."""

import json
from pathlib import Path

import pytest

from electra.finetuning.train.saved_model import read_task
from electra.foundation.errors import ModelError

GOOD = {
    "head": "linear",
    "pooling": "mean",
    "epochs": 1.0,
    "learning_rate": 1e-3,
    "layer_decay": 0.8,
    "max_length": 128,
    "text_column": ["review"],
    "search": True,
    "a_later_setting": 3,
}


def test_a_written_task_is_read_back(tmp_path: Path) -> None:
    assert read_task(tmp_path) is None
    (tmp_path / "task.json").write_text(json.dumps(record := {"task": "sst2", "settings": GOOD}))
    assert read_task(tmp_path) == record


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        *((text, "task.json") for text in ("{", "[]", '{"task": "sst2"}')),
        (json.dumps({"task": "sst2", "settings": {**GOOD, "head": "crown"}}), "crown"),
        (json.dumps({"task": "sst2", "settings": {**GOOD, "max_length": "long"}}), "max_length"),
        (json.dumps({"task": "sst2", "settings": {**GOOD, "max_length": 0}}), "max_length"),
        (json.dumps({"task": "sst2", "settings": {**GOOD, "text_column": 7}}), "text_column"),
        (json.dumps({"task": "sst2", "settings": {"head": "linear"}}), "max_length, pooling"),
    ],
)
def test_an_invalid_task_file_is_refused(tmp_path: Path, text: str, fact: str) -> None:
    (tmp_path / "task.json").write_text(text)
    with pytest.raises(ModelError) as caught:
        read_task(tmp_path)
    error = str(caught.value)
    assert fact in error and str(tmp_path / "task.json") in error and "\n" not in error
