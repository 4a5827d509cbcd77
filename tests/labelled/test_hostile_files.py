"""Hostile files: decompression bombs, files that are not text, and cells that spreadsheets would evaluate."""

from __future__ import annotations

import csv
import gzip
import io
import random
from pathlib import Path

import pytest

from electra.data import tables
from electra.data.delimited import format_csv
from electra.data.tables import open_table
from electra.foundation.errors import DataError


def test_a_decompression_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "EXPANSION_BYTES", 1 << 20)
    path = tmp_path / "bomb.tsv.gz"
    path.write_bytes(gzip.compress(b"a\tb\n" * (1 << 22)))
    with pytest.raises(DataError) as caught:
        open_table(path)
    assert "tsv.gz" in caught.value.where
    path.write_bytes(gzip.compress(b"a\tb\n" + b"1\t2\n" * 1000))
    assert len(list(open_table(path).rows)) == 1000


def test_a_parquet_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(tables, "EXPANSION_BYTES", 1 << 20)
    path = tmp_path / "bomb.parquet"
    parquet.write_table(pyarrow.table({"text": ["x" * 10_000] * 3000}), path)
    assert path.stat().st_size < 100_000
    with pytest.raises(DataError) as caught:
        open_table(path)
    assert "bomb.parquet" in caught.value.where
    parquet.write_table(pyarrow.table({"text": ["one", "two"], "n": [1, 2]}), path)
    assert [dict(row) for _, row in open_table(path).rows] == [
        {"text": "one", "n": 1},
        {"text": "two", "n": 2},
    ]


def test_nul_characters_are_refused_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    path.write_bytes(b"text,label\nfine,1\nno\0text,0\n")
    with pytest.raises(DataError) as caught:
        list(open_table(path).rows)
    assert "train.csv:3" in caught.value.where


def test_a_line_of_a_hundred_megabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "long.tsv"
    path.write_bytes(b"text\tlabel\n" + b"a" * (100 << 20) + b"\t1\n")
    [(where, row)] = open_table(path).rows
    assert str(where) == f"{path}:2" and len(row["text"]) == 100 << 20


def test_formulas_in_cells_are_escaped() -> None:
    cells = ["=1+1", "+x", "-LRB-", "@SUM(A1)", "-0.5", "+3e-4", "plain", "a=b", ""]
    [row] = csv.reader(io.StringIO(format_csv([cells]).decode()))
    assert row == ["'=1+1", "'+x", "'-LRB-", "'@SUM(A1)", "-0.5", "+3e-4", "plain", "a=b", ""]


@pytest.mark.parametrize("codec", ["snappy", "zstd", "none"])
def test_a_damaged_parquet_file_is_a_one_line_error(codec: str, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path, draw = tmp_path / "rows.parquet", random.Random(1)
    texts = [f"a fine film, the {number}th, très bon" for number in range(400)]
    parquet.write_table(pyarrow.table({"text": texts, "n": range(400)}), path, compression=codec)
    whole, refused = path.read_bytes(), 0
    for _ in range(40):
        content = bytearray(whole)
        for _ in range(60):
            content[draw.randrange(len(content))] = draw.randrange(256)
        path.write_bytes(content)
        try:
            list(open_table(path).rows)
        except DataError as error:
            refused += 1
            assert "\n" not in str(error) and str(path) in str(error)
    assert refused > 20


def test_a_lone_surrogate_in_json_is_replaced_everywhere(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"text": "the \\ud800 film", "of": {"\\udfff": ["\\uD834\\uDD1E"]}}\n')
    [(_, row)] = open_table(path).rows
    assert row == {"text": "the ? film", "of": {"?": ["𝄞"]}}
