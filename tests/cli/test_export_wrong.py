"""`electra export` and folders with ONNX graphs: what cannot be is one line, and nothing is written."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from electra.artifacts.finetuning import FinetuningFolder
from electra.commands.framework.main import main
from electra.testing import small


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.write_pair(tmp_path_factory.mktemp("export") / "toy", "modern")


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        ("toy", ["--format", "onnx", "--network", "generator"], "ONNX export supports discriminators"),
        ("toy", ["--format", "onnx", "--dtype", "bfloat16"], "float32 or int8"),
        ("toy", ["--step", "3"], "no checkpoints to choose from. Omit --step"),
        ("tuned", ["--format", "onnx", "--step", "2"], "not a run folder"),
        ("missing", ["--format", "onnx"], "missing"),
        ("toy", ["--format", "onnx", "--out", "busy"], "other files (notes.txt)"),
        ("toy", ["--format", "onnx", "--out", "file"], "file: "),
        ("toy", ["--format", "onnx", "--out", "toy/discriminator"], "Choose another --out"),
    ],
)
def test_wrong_input_is_one_line(  # noqa: PLR0917
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
    source: str, options: list[str], said: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    shutil.copytree(model, "toy")
    for folder in ("busy", "tuned"):
        Path(folder).mkdir()
    for name in ("busy/notes.txt", "file", f"tuned/{FinetuningFolder.RECORD}"):
        Path(name).write_text("mine")
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert main(["export", source, *([] if "--out" in options else ["--out", "out"]), *options]) == 2
    error = capfd.readouterr().err
    assert said in error and error.count("\n") == 1
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before
