"""electra embed: texts from wherever they are, vectors into each kind of file."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from contracts import small

from electra.commands.framework.main import main
from electra.exchange.load import load
from electra.inference.embedding import embed

TEXTS = ["the chef cooked the meal .", "", "a cat"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.write_pair(tmp_path_factory.mktemp("model") / "pair")


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\r\n".join(TEXTS) + "\n", encoding="utf-8")
    return path


def test_each_file_holds_the_same_vectors(
    model: Path, lines: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    expected = embed(load(model), TEXTS)
    for ending in ("npy", "jsonl"):
        assert main(["embed", str(model), str(lines), "--out", str(tmp_path / f"v.{ending}")]) == 0
    assert "3 vectors of 32" in capfd.readouterr().out
    saved = np.load(tmp_path / "v.npy")
    assert saved.dtype == np.float32
    np.testing.assert_array_equal(saved, expected)
    rows = [json.loads(line) for line in (tmp_path / "v.jsonl").read_text().splitlines()]
    assert [row["text"] for row in rows] == TEXTS
    assert rows[1]["vector"] is None
    vectors = [row["vector"] for row in rows[::2]]
    np.testing.assert_array_equal(np.array(vectors, np.float32), expected[::2])


def test_a_table_keeps_its_columns(model: Path, tmp_path: Path) -> None:
    table = tmp_path / "reviews.csv"
    table.write_text('id,review,vector\n7,"a cat, ate",old\n8,the meal,old\n')
    out = tmp_path / "v.jsonl"
    assert main(["embed", str(model), str(table), "--text-column", "review", "--out", str(out)]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["id"], len(row["vector"])) for row in rows] == [("7", 32), ("8", 32)]
    assert [*rows[0]] == ["id", "review", "vector"]


def test_a_text_and_standard_input_go_to_the_terminal(
    model: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["embed", str(model), TEXTS[0], "--pooling", "cls"]) == 0
    [line] = capfd.readouterr().out.splitlines()
    expected = embed(load(model), TEXTS[:1], "cls")[0]
    np.testing.assert_array_equal(np.array(json.loads(line)["vector"], np.float32), expected)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\n".join(TEXTS).encode())))
    assert main(["embed", str(model), "-"]) == 0
    assert [json.loads(line)["text"] for line in capfd.readouterr().out.splitlines()] == TEXTS


@pytest.mark.parametrize("source", ["-", "empty.txt"])
def test_input_without_text_is_refused(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.txt").touch()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert main(["embed", "tiny-en", source]) == 2
    named = "standard input" if source == "-" else source
    assert capsys.readouterr().err.startswith(f"error: {named}: ")
