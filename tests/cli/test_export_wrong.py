"""`electra export` and folders with ONNX graphs: what cannot be is one line, and nothing is written."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from electra.artifacts.finetuning import FinetuningFolder
from electra.commands.framework.main import main
from electra.foundation import durable
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


@pytest.mark.parametrize("verb", ["detect", "embed", "serve", "predict"])
def test_a_damaged_graph_is_one_line(
    model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], verb: str
) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra `onnx`")
    pytest.importorskip("starlette", reason="needs the extra `serve`")
    folder = tmp_path / "graph"
    source = model / "discriminator"
    files = {
        str(path.relative_to(source)): path.read_bytes()
        for path in source.rglob("*")
        if path.is_file() and path.suffix != ".safetensors"
    }
    durable.commit_directory(folder, {**files, "model.onnx": b"\x08\x07 half a graph"})
    (tmp_path / "table.csv").write_text("text\na cat\n")
    given = {"predict": str(tmp_path / "table.csv"), "serve": ""}.get(verb, "a cat")
    words = [verb, str(folder), *([given, "--backend", "onnx"] if given else ["--port", "0"])]
    assert main(words) == 2
    error = capfd.readouterr().err
    assert "model.onnx: onnxruntime cannot" in error and error.count("\n") == 1
    (folder / "model.onnx").write_bytes(b"other bytes, so as long")
    assert main(words) == 2
    assert "Export it again" in capfd.readouterr().err
