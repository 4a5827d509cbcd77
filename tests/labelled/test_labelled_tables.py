"""Tables in every format, and their errors."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from pathlib import Path

import pandas as pd
import pytest

from electra.data.delimited import format_csv, format_tsv
from electra.data.tables import ReadOptions, open_table
from electra.foundation.errors import DataError


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    return path


def rows(path: Path, **options: object) -> list[dict[str, object]]:
    return [dict(row) for _, row in open_table(path, ReadOptions(**options)).rows]  # type: ignore[arg-type]


def test_a_tsv_has_literal_quotes_and_a_csv_has_quoted_cells(tmp_path: Path) -> None:
    tsv = write(tmp_path / "a.tsv", 'sentence\tlabel\n"open quote\t1\nboth "x" here\t0\r\n')
    assert rows(tsv) == [
        {"sentence": '"open quote', "label": "1"},
        {"sentence": 'both "x" here', "label": "0"},
    ]
    csv = write(tmp_path / "a.csv", 'text,label\r\n"one, two\nthree ""four""",yes\r\n')
    assert rows(csv) == [{"text": 'one, two\nthree "four"', "label": "yes"}]


def test_only_a_line_feed_ends_a_row(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "sentence\tlabel\none\u2028two\x85three\x1cfour\t1\n")
    assert rows(path) == [{"sentence": "one\u2028two\x85three\x1cfour", "label": "1"}]


def test_a_byte_order_mark_is_not_part_of_a_column_name(tmp_path: Path) -> None:
    assert open_table(write(tmp_path / "a.tsv", "\ufeffQuality\tx\n1\t2\n")).columns == ("Quality", "x")


@pytest.mark.parametrize("ending", ["", ".gz", ".bz2", ".xz", ".zst"])
def test_compressed_files_give_the_same_rows_and_damage_is_an_error(tmp_path: Path, ending: str) -> None:
    content = "".join(
        json.dumps({"text": f"text number {i} {i * 7919 % 101}", "label": i % 3}) + "\n" for i in range(500)
    ).encode()
    if ending == ".zst":
        zstandard = pytest.importorskip("zstandard")
        packed = zstandard.compress(content[:700]) + zstandard.compress(content[700:])
    else:
        packed = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}[ending](
            content
        )
    path = tmp_path / f"train.jsonl{ending}"
    path.write_bytes(packed)
    assert [row["label"] for row in rows(path)] == [i % 3 for i in range(500)]
    if ending:
        path.write_bytes(packed[: len(packed) // 2])
        with pytest.raises(DataError):
            rows(path)


def test_a_header_is_recognised_by_its_required_columns(tmp_path: Path) -> None:
    header, wanted = ("source", "label", "mark", "sentence"), (("sentence",),)
    bare = write(tmp_path / "train.tsv", "gj04\t1\t\tOur friends.\ngj04\t0\t*\tWe friends.\n")
    assert [row["sentence"] for row in rows(bare, header=header, required=wanted)] == [
        "Our friends.",
        "We friends.",
    ]
    named = write(tmp_path / "test.tsv", "index\tsentence\n0\tBill whistled.\n")
    assert rows(named, header=header, required=wanted) == [{"index": "0", "sentence": "Bill whistled."}]


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("a.tsv", "sentence\tlabel\none\t1\ntwo\n", "a.tsv:3"),
        ("a.csv", "text,label\nhello, world,1\n", "a.csv:2"),
        ("a.csv", 'text,label\n"never closed,1\n', "a.csv:2"),
        ("a.jsonl", '{"text": "x"}\n{"text": \n', "a.jsonl:2"),
        ("a.jsonl", '["x"]\n', "a.jsonl:1"),
        ("a.tsv", "", "a.tsv"),
        ("a.tsv", "x\tx\n1\t2\n", "a.tsv:1"),
        ("a.txt", "x", "a.txt"),
        ("a.csv", "text,label\none,1\ntext,label\ntwo,2\n", "a.csv:3"),
        ("a.tsv", "\ufefftext\tlabel\none\t1\n\ufefftext\tlabel\n", "a.tsv:3"),
        ("a.csv", "text,label\none,1\ntwo,2\rthree,3\n", "a.csv:3"),
    ],
)
def test_bad_tables_are_refused(tmp_path: Path, name: str, content: str, place: str) -> None:
    with pytest.raises(DataError) as caught:
        rows(write(tmp_path / name, content))
    assert caught.value.where == f"{tmp_path}/{place}"


def test_spaces_before_quotes_are_removed(tmp_path: Path) -> None:
    """As pandas reads it with `skipinitialspace`."""
    content = 'text, label\n"one, two", "a"\n"he said ""no""", "b"\nplain, "c"\n'
    path = write(tmp_path / "a.csv", content)
    assert rows(path) == pd.read_csv(path, skipinitialspace=True).to_dict("records")
    path = write(tmp_path / "b.csv", 'text,label\nsays "no" and "yes", a\n')  # no quoted cell
    assert rows(path) == [{"text": 'says "no" and "yes"', "label": " a"}]


def test_the_error_of_invalid_utf8_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes("sentence\tlabel\nшл\t1\n".encode("cp1251"))
    with pytest.raises(DataError) as caught:
        rows(tmp_path / "a.tsv")
    assert "a.tsv:2" in caught.value.where


def test_the_error_of_a_nul_names_the_line(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    pyarrow_parquet = pytest.importorskip("pyarrow.parquet")
    files = {"a.csv": "text,label\nx,y\nz,b\0d\n", "a.tsv": "text\tlabel\nx\ty\nz\tb\0d\n"}
    for name, content in files.items():
        for encoding in ("utf-8", "utf-16"):
            (tmp_path / name).write_bytes(content.encode(encoding))
            with pytest.raises(DataError):
                rows(tmp_path / name)
    for value in ("b\0d", ["good", "b\0d"]):
        lines = [{"text": "x", "label": "y"}, {"text": "z", "label": value}]
        path = write(tmp_path / "a.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        with pytest.raises(DataError) as caught:
            rows(path)
        assert "a.jsonl:2" in caught.value.where
        pyarrow_parquet.write_table(pyarrow.Table.from_pylist(lines[1:]), tmp_path / "a.parquet")
        with pytest.raises(DataError) as caught:
            rows(tmp_path / "a.parquet")
        assert "a.parquet" in caught.value.where
    write(path, '{"text": "a backslash: \\\\u0000", "label": "y"}\n')
    assert rows(path) == [{"text": "a backslash: \\u0000", "label": "y"}]


def test_any_text_survives_a_csv_file(tmp_path: Path) -> None:
    cells = ["one\rtwo", "\r", "one\ntwo", 'a "b", c', "one\u2028two", ""]
    (tmp_path / "a.csv").write_bytes(
        format_csv(
            [
                ["text"],
                *(
                    [
                        cell,
                    ]
                    for cell in cells
                ),
            ]
        )
    )
    told = [str(row["text"]).removeprefix("'") for row in rows(tmp_path / "a.csv")]  # no formula: '\r
    assert told == cells


def test_each_prediction_is_one_row() -> None:
    assert format_tsv([("id", "label"), ("a\tb\nc", "x")]) == b"id\tlabel\na b c\tx\n"
