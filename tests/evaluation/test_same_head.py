"""All arms of a study, and all models of an evaluation, are scored by one head."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from contracts import toy_task

from electra.finetuning.score import choose_head
from electra.finetuning.train import prepared
from electra.laboratory.ablation import runs
from electra.laboratory.evaluation import tasks
from electra.laboratory.evaluation.score_table import ModelEntry
from electra.laboratory.evaluation.suite import load_suite

SUITE = """
title = "Few labels"
[[task]]
name = "sst2"
folders = ["sst-2"]
settings = {{ {} }}
"""


@pytest.mark.parametrize(
    ("settings", "head"),
    [
        ("", "transformers"),
        ('head = "auto"', "transformers"),
        ("batch_size = 8", "transformers"),
        ('head = "frozen"', "frozen"),
        ('head = "linear", epochs = 1', "linear"),
    ],
)
def test_the_head_does_not_depend_on_the_model(  # noqa: PLR0917
    settings: str, head: str, model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The labels are so few that `auto` would choose."""
    other = toy_task.save_encoder(tmp_path / "models" / "modern", "modern")
    monkeypatch.setattr(prepared, "MIN_UPDATES", 2)
    tried = list[str]()

    monkeypatch.setattr(choose_head, "linear_answers", lambda *given: tried.append("linear"))
    suite = tmp_path / "few.toml"
    suite.write_text(SUITE.format(settings))
    panel, used = runs.panel_record(data, str(suite)), set[str]()
    for number, encoder in enumerate((model, other)):
        arm = tmp_path / f"arm{number}"
        shutil.copytree(encoder, arm)
        how: Any = {"say": lambda line: None, "stop": lambda: False}
        runs.panel_scores(str(arm), panel, arm, seed=3, **how)
        out = tmp_path / f"evaluated{number}"
        [ready] = tasks.find_tasks(load_suite(str(suite)), {}, [data])
        tasks.score_task(ready, ModelEntry("toy", str(encoder)), out, 1, "cpu", **how)
        records = [json.loads((f / "finetune.json").read_text()) for f in (arm / "panel" / "sst2", out)]
        used |= {record["settings"]["head"] for record in records}
    assert used == {head} and not tried
