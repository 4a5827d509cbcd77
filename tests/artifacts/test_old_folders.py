"""Folders of older versions still open, verify, report and resume (tests/fixtures)."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from golden.record import machine
from safetensors.numpy import load_file

import electra as package
from electra.commands.framework.main import main
from electra.pages import figures

FIXTURES = Path(__file__).parents[1] / "fixtures"
EXPECTED = json.loads((FIXTURES / "expected.json").read_text())
OBJECTIVES = ("rtd", "coco_lm")
WORDS = """
recipe=tiny model.encoder=modern model.layers=1 model.hidden-size=8 model.generator-width=0.5
training.length=16 training.batch-size=8 training.steps=6 training.checkpoint-every=3
training.evaluate-every=3 training.precision=fp32 training.threads=1 evaluation.rows=8
"""
SETTINGS: dict[str, str] = dict(word.split("=") for word in WORDS.split())  # type: ignore[misc]


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a writable copy, which is the working directory."""
    monkeypatch.setattr(figures, "missing", lambda: "without figures")  # figures take seconds
    for path in FIXTURES.glob("old-*"):
        (shutil.copytree if path.is_dir() else shutil.copy)(path, tmp_path / path.name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def electra(*words: str, **options: str) -> int:
    return main([*words, *(word for name, value in options.items() for word in (f"--{name}", value))])


def pretrain(objective: str) -> int:
    source = (
        {"corpus": "old-corpus.txt", "data.unit": "line", "data.heldout": "0.1", "tokenizer.vocab-size": "90"}
        if objective == "rtd"
        else {"objective.name": objective, "store": "old-run-rtd/store"}
    )
    return electra("pretrain", out=f"old-run-{objective}", **SETTINGS, **source)


@pytest.mark.parametrize("folder", ["old-run-rtd", "old-run-coco_lm", "old-run-rtd/store", "old-finetuning"])
def test_an_old_folder_verifies(old: Path, folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert electra("verify", folder) == 0
    assert "DAMAGED" not in capsys.readouterr().out


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_an_old_run_gets_a_report(old: Path, objective: str) -> None:
    assert electra("report", f"old-run-{objective}") == 0
    assert objective in (old / f"old-run-{objective}" / "report.html").read_text()


def test_an_old_run_gives_the_same_detections(old: Path) -> None:
    shutil.rmtree(old / "old-run-rtd/generator")
    for source in ("old-run-rtd", "old-run-rtd/discriminator"):
        [detection] = package.load(source).detect([EXPECTED["text"]])
        assert [word.text for word in detection.words] == [name for name, _ in EXPECTED["words"]]
        actual = [word.p_replaced for word in detection.words]
        np.testing.assert_allclose(actual, [value for _, value in EXPECTED["words"]], atol=2e-6)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_an_old_stopped_run_resumes_to_the_same_weights(old: Path, objective: str) -> None:
    run = old / f"old-run-{objective}"
    last = run / "checkpoints" / "step-00000006"
    before = {name: load_file(last / name) for name in ("model.safetensors", "optimizer.safetensors")}
    for path in (last, run / "generator", run / "discriminator"):
        shutil.rmtree(path, ignore_errors=True)
    (run / "examples.json").unlink()
    assert pretrain(objective) == 0
    assert "resumed at step 3 of 6" in (run / "log.txt").read_text()
    for name, tensors in before.items():
        after = load_file(last / name)
        assert after.keys() == tensors.keys()
        for key, old_value in tensors.items():
            if machine() == EXPECTED["machine"]:
                np.testing.assert_array_equal(after[key], old_value, err_msg=key)
            np.testing.assert_allclose(after[key], old_value, rtol=1e-4, atol=1e-5, err_msg=key)
    steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert steps == sorted(steps) and steps[-1] == 6


def test_an_old_finished_run_is_not_retrained(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert electra("report", "old-run-rtd") == 0
    assert pretrain("rtd") == 0
    assert "is complete" in capsys.readouterr().out


@pytest.mark.parametrize(("option", "value"), [("batch-size", "16"), ("epochs", "2")])
def test_an_old_finished_fine_tuning_is_not_repeated(
    old: Path, option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its own settings, it is complete; other settings are refused by name."""
    settings = {"batch-size": "16", "epochs": "2", "max-length": "24", "seeds": "2", "precision": "fp32"}
    line = "finetune old-run-rtd --task classification --data old-reviews --out old-finetuning"
    words, seeds = line.split(), (old / "old-finetuning/seeds").rglob("*")
    digests = {path: path.read_bytes() for path in seeds if path.is_file()}
    assert electra(*words, **settings) == 0
    assert electra(*words, **(settings | {option: "3"})) == 2
    assert f"{option.replace('-', '_')} was {value}" in capsys.readouterr().err
    assert digests == {path: path.read_bytes() for path in digests}


def test_an_old_fine_tuning_gives_the_same_predictions(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its columns are the file's since then; labels and probabilities are what they were."""
    assert electra("predict", "old-finetuning", "old-reviews/dev.csv") == 0
    actual = list(csv.DictReader(capsys.readouterr().out.splitlines(), delimiter="\t"))
    expected = list(csv.DictReader(EXPECTED["predictions"], delimiter="\t"))
    for row, one in zip(actual, expected, strict=False):
        assert row["predicted"] == one["label"]
        names = [name for name in one if name.startswith("p(")]
        np.testing.assert_allclose(
            [float(row[name]) for name in names], [float(one[name]) for name in names], atol=1e-5
        )
