"""`electra predict`: the user's own columns, every format, standard input and output."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import pytest

from electra.cli.main import main
from electra.finetuning.all_seeds import finetune
from electra.testing import toy_task

TABLE = "number,sentence,label\n7,a fine film,1\n8,my grim town,0\n"


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tuned")
    model = toy_task.save_encoder(folder / "model", "modern")
    data = toy_task.write_classification(folder / "data", train=40, dev=10)
    finetune(str(model), toy_task.settings(folder / "out", data, "classification", epochs=1))
    return str(folder / "out")


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "new.csv"
    path.write_text(TABLE)
    return str(path)


COLUMNS = ["number", "sentence", "label", "predicted", "probability", "p(0)", "p(1)"]


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet", "json"])
def test_own_columns_come_first_in_every_format(ending: str, tuned: str, table: str, tmp_path: Path) -> None:
    import pyarrow.parquet

    out = tmp_path / f"said.{ending}"
    assert main(["predict", tuned, table, "--out", str(out)]) == 0
    if ending == "parquet":
        rows = pyarrow.parquet.read_table(out).to_pylist()
    elif ending == "jsonl":
        rows = [json.loads(line) for line in out.read_text().splitlines()]
    elif ending == "json":
        rows = json.loads(out.read_text())
    else:
        delimiter = {"csv": ",", "tsv": "\t"}[ending]
        rows = list(csv.DictReader(io.StringIO(out.read_text()), delimiter=delimiter))
    assert [list(row) for row in rows] == [COLUMNS, COLUMNS]
    assert [row["sentence"] for row in rows] == ["a fine film", "my grim town"]
    best = max(("0", "1"), key=lambda label: float(rows[0][f"p({label})"]))
    assert rows[0]["predicted"] == best
    assert float(rows[0]["probability"]) == float(rows[0][f"p({best})"]) >= 0.5


@pytest.mark.parametrize(
    "given",
    [TABLE, TABLE.replace(",", "\t"), "a fine film\nmy grim town\n", '{"sentence": "a fine film"}\n'],
    ids=["csv", "tsv", "lines", "jsonl"],
)
def test_standard_input_is_read(
    given: str, tuned: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("-", "/dev/stdin"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
        assert main(["predict", tuned, name, "--out", "-", "--format", "jsonl"]) == 0
        first, *_ = map(json.loads, capsys.readouterr().out.splitlines())
        assert first["sentence"] == "a fine film" and first["predicted"] in ("0", "1")


@pytest.mark.parametrize("name", ["said.xlsx", "said", "said.txt"])
def test_an_unknown_ending_is_refused_unless_a_format_is_given(
    name: str, tuned: str, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / name
    assert main(["predict", tuned, table, "--out", str(out)]) == 2
    assert "End the name in .tsv, .csv, .jsonl, .parquet, .json, or pass --format" in capsys.readouterr().err
    assert not out.exists()
    assert main(["predict", tuned, table, "--out", str(out), "--format", "csv"]) == 0
    assert out.read_text().startswith("number,sentence,label,predicted")
