"""Labelled data that unfolds without end, or is no text; cells that a spreadsheet would calculate."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import pytest

from electra.errors import DataError
from electra.labelled import files
from electra.labelled.tables import format_csv, open_table


def test_a_small_file_that_unfolds_to_gigabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "SMALL", 1 << 20)
    path = tmp_path / "bomb.tsv.gz"
    path.write_bytes(gzip.compress(b"a\tb\n" * (1 << 22)))
    with pytest.raises(DataError, match=r"bomb\.tsv\.gz: unfolds to more than \d+ MiB"):
        open_table(path)
    path.write_bytes(gzip.compress(b"a\tb\n" + b"1\t2\n" * 1000))
    assert len(list(open_table(path).rows)) == 1000


def test_a_small_parquet_that_unfolds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(files, "SMALL", 1 << 20)
    path = tmp_path / "bomb.parquet"
    parquet.write_table(pyarrow.table({"text": ["x" * 10_000] * 3000}), path)
    assert path.stat().st_size < 100_000
    with pytest.raises(DataError, match=r"bomb\.parquet: unfolds to more than"):
        open_table(path)
    parquet.write_table(pyarrow.table({"text": ["one", "two"], "n": [1, 2]}), path)
    assert [dict(row) for _, row in open_table(path).rows] == [
        {"text": "one", "n": 1},
        {"text": "two", "n": 2},
    ]


def test_nul_characters(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    path.write_bytes(b"text,label\nfine,1\nno\0text,0\n")
    with pytest.raises(DataError, match=r"train\.csv:3: a NUL character: not text"):
        list(open_table(path).rows)


def test_a_line_of_a_hundred_megabytes(tmp_path: Path) -> None:
    path = tmp_path / "long.tsv"
    path.write_bytes(b"text\tlabel\n" + b"a" * (100 << 20) + b"\t1\n")
    [(line, row)] = open_table(path).rows
    assert line == 2 and len(row["text"]) == 100 << 20


def test_cells_that_a_spreadsheet_would_calculate() -> None:
    cells = ["=1+1", "+x", "-LRB-", "@SUM(A1)", "-0.5", "+3e-4", "plain", "a=b", ""]
    [row] = csv.reader(io.StringIO(format_csv([cells]).decode()))
    assert row == ["'=1+1", "'+x", "'-LRB-", "'@SUM(A1)", "-0.5", "+3e-4", "plain", "a=b", ""]
