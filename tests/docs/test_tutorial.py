"""docs/from-a-csv.md, followed from top to bottom in an empty folder; with a small network and few rows."""

from __future__ import annotations

import csv
import io
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_snippets import FENCE, ROOT

from electra.cli.main import main
from electra.testing import toy_task

PAGE = (ROOT / "docs" / "from-a-csv.md").read_text(encoding="utf-8")
ROWS = 40


def commands() -> Iterator[tuple[str, list[str]]]:
    """(standard input, words after electra) of each line to type."""
    for line in PAGE.splitlines():
        if line.startswith("    ") and "electra " in line:
            before, _, command = line.strip().rpartition("| ")
            yield before.removeprefix("echo ").strip().strip('"'), shlex.split(command)[1:]


def test_the_tutorial_can_be_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    make, use = [block for language, block in FENCE.findall(PAGE) if language == "python"]
    exec(compile(make, "from-a-csv.md", "exec"), {})
    with open("docstrings.csv", encoding="utf-8", newline="") as file:
        columns, *rows = csv.reader(file)
    assert len(rows) > 1000, "as the page says"
    shown = [line.strip() for line in PAGE.splitlines() if line.startswith(("    module,", "    a"))]
    assert [line.split(",")[0] for line in shown] == ["module", "argparse", "ast"]
    assert ",".join(columns) == shown[0] and all(line.split(",") in rows for line in shown[1:])
    with open("docstrings.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([columns, *rows[:: len(rows) // ROWS]])

    model = toy_task.save_encoder(tmp_path / "toy", "modern")
    instead = {"tiny-en": str(model), "10m": "2", "3": "1"}  # a model, a budget, seeds
    for typed, words in commands():
        if typed:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{typed}\n".encode())))
        quick = ["--epochs", "1"] if words[0] == "finetune" else []
        assert main([*(instead.get(word, word) for word in words), *quick]) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    assert "accuracy to compare: majority 0." in said and "fresh weights 0." in said and "search 2:" in said
    assert said.splitlines()[-1].startswith("Return the square root of x.\t")
    assert Path("runs/kinds/report.html").is_file() and Path("runs/searched/search.json").is_file()
    with open("predictions.csv", encoding="utf-8", newline="") as file:
        header = next(csv.reader(file))
    assert header == [*columns, "predicted", "probability", "p(class)", "p(function)"]
    exec(compile(use, "from-a-csv.md", "exec"), {})
