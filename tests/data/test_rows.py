"""Tables: every format gives the same rows, files of other libraries are read, bombs are refused."""

from __future__ import annotations

import gzip
import json
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest

from electra.data import tables
from electra.data.table_files import parts_of, parts_pattern, split_name
from electra.data.tables import ReadOptions, open_table, stream_table
from electra.foundation.errors import DataError

pandas = pytest.importorskip("pandas")
pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

RECORDS = [
    {"text": "one, two", "n": 1},
    {"text": 'said "three"\nfour', "n": 2},
    {"text": "tab\there é", "n": 3},
]


def read(path: Path, **options: Any) -> list[dict[str, Any]]:
    return [row for _, row in open_table(path, ReadOptions(**options)).rows]


def frame() -> Any:
    return pandas.DataFrame(RECORDS)


@pytest.mark.parametrize(
    "kind", ["string", "large_string", "binary", "large_binary", "string_view", "dictionary"]
)
@pytest.mark.parametrize("ending", ["parquet", "arrow", "feather", "parquet.gz"])
def test_columnar_files_are_read(kind: str, ending: str, tmp_path: Path) -> None:
    texts = ["one", None, "été"]
    output = pyarrow.array(texts)
    output = output.dictionary_encode() if kind == "dictionary" else output.cast(getattr(pyarrow, kind)())
    table = pyarrow.table(
        {"text": output, "n": [1, 2, 3], "words": [["a", "b"], [], None], "of": [{"x": 1.5}] * 3}
    )
    path = tmp_path / f"a.{ending}"
    if ending == "arrow":
        with pyarrow.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    elif ending == "feather":
        with (
            pyarrow.OSFile(str(path), "wb") as sink,
            pyarrow.ipc.new_file(
                sink, table.schema, options=pyarrow.ipc.IpcWriteOptions(compression="lz4")
            ) as writer,
        ):
            writer.write_table(table)
    else:
        parquet.write_table(table, tmp_path / "plain")
        content = (tmp_path / "plain").read_bytes()
        path.write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
    assert read(path) == [
        {"text": text, "n": n, "words": words, "of": {"x": 1.5}}
        for text, n, words in zip(texts, [1, 2, 3], [["a", "b"], [], None], strict=True)
    ]


def test_a_saved_dataset_is_read(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    names = ["bad", "good"]
    features = datasets.Features(
        text=datasets.Value("string"),
        label=datasets.ClassLabel(names=names),
        tags=datasets.Sequence(datasets.ClassLabel(names=names)),
    )
    given = {"text": ["a", "b", "c"], "label": [0, 1, -1], "tags": [[0], [1, 0], []]}
    saved = datasets.Dataset.from_dict(given, features=features)
    saved.save_to_disk(tmp_path / "saved", num_shards=2)
    saved.to_parquet(tmp_path / "a.parquet")
    expected = [
        {"text": "a", "label": "bad", "tags": ["bad"]},
        {"text": "b", "label": "good", "tags": ["good", "bad"]},
        {"text": "c", "label": None, "tags": []},
    ]
    assert read(tmp_path / "saved") == read(tmp_path / "a.parquet") == expected
    datasets.DatasetDict(train=saved, test=saved).save_to_disk(tmp_path / "both")
    assert read(tmp_path / "both" / "train") == expected
    with pytest.raises(DataError, match=r"several splits.*train"):
        read(tmp_path / "both")


def test_all_parts_of_a_file_are_read_together(tmp_path: Path) -> None:
    for number in range(2):
        frame().to_parquet(tmp_path / f"train-{number:05}-of-00002.parquet")
    whole = parts_pattern(tmp_path / "train-00000-of-00002.parquet")
    assert read(whole) == RECORDS * 2 and len(parts_of(whole)) == 2
    assert split_name(whole) == split_name(tmp_path / "train.parquet") == ("train", ".parquet")


def test_a_zip_with_one_table_is_read(tmp_path: Path) -> None:
    path = tmp_path / "train.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("folder/train.csv", frame().to_csv(index=False))
        archive.writestr("__MACOSX/folder/._train.csv", "x")
        archive.writestr("README.txt", "x")
    table = open_table(path)
    assert [{**row, "n": int(row["n"])} for _, row in table.rows] == RECORDS
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("dev.csv", "text,n\nx\n")
    with pytest.raises(DataError):
        read(path)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("ending", ["csv", "tsv"])
@pytest.mark.parametrize("quoting", [0, 1, 2])  # minimal, all, all but numbers
@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_tables_written_by_pandas_are_read(
    separator: str, ending: str, quoting: Any, ends: str, tmp_path: Path
) -> None:
    path = tmp_path / f"a.{ending}"
    frame().to_csv(
        path, sep=separator, quoting=quoting, index=False, lineterminator=ends, encoding="utf-8-sig"
    )
    assert [{**row, "n": int(row["n"])} for row in read(path)] == RECORDS


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_backslash_escaped_quotes_are_read(ending: str, tmp_path: Path) -> None:
    """As MySQL and Spark write them."""
    path = tmp_path / f"a.{ending}"
    options = {"escapechar": "\\", "doublequote": False, "quoting": 1, "lineterminator": "\n"}
    frame().to_csv(path, index=False, sep="," if ending == "csv" else "\t", **options)
    table = open_table(path)
    assert [{**row, "n": int(row["n"])} for _, row in table.rows] == RECORDS
    assert any("backslash" in note for note in table.notes)


def test_quotes_of_texts_stay_in_a_tsv(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    texts = ['"Come in," she said', "plain", '"All of it is quoted"', 'an inch is 1"', '"open']
    path.write_text("text\tlabel\n" + "".join(f"{row}\tx\n" for row in texts))
    assert [row["text"] for row in read(path)] == texts


def test_tables_without_a_header_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("v1,v2,,\nham,a text,,\n")
    [row] = read(path)
    assert row["v1"] == "ham" and row["v2"] == "a text" and len(row) == 4
    [row] = read(path, header=("v1", "v2", "x", "y"), required=(("v2",),))
    assert row == {"v1": "ham", "v2": "a text", "x": "", "y": ""}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_table_encodings_are_detected(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(frame().to_csv(index=False).encode(encoding))
    assert [{**row, "n": int(row["n"])} for row in read(path)] == RECORDS


@pytest.mark.parametrize("kind", ["dictionary", "large_string", "binary", "string_view", "list", "struct"])
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_repeated_parquet_values_take_little_memory(
    kind: str, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value of 1 MiB in each of 500 rows: refused when the rows that were read are over the bound."""
    monkeypatch.setattr(tables, "EXPANSION_BYTES", 4 << 20)
    value, path, pool = "b" * (1 << 20), tmp_path / f"a.{ending}", pyarrow.default_memory_pool()
    once = pyarrow.DictionaryArray.from_arrays([0] * 500, pyarrow.array([value]))
    if kind in ("large_string", "binary", "string_view"):
        if ending == "arrow":
            pytest.skip("this format repeats only what is a dictionary")
        once = pyarrow.array([value] * 40).cast(getattr(pyarrow, kind)())
    elif kind == "list":
        once = pyarrow.ListArray.from_arrays(pyarrow.array([0, 500]), once)  # in one row
    elif kind == "struct":
        once = pyarrow.StructArray.from_arrays([once], ["inner"])
    table = pyarrow.table({"text": once})
    if ending == "parquet":
        parquet.write_table(table, path, compression="zstd")
    else:
        with pyarrow.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    del once, table
    monkeypatch.setattr(tables, "EXPANSION_RATIO", 2)
    used, before = 0, pool.bytes_allocated()
    tracemalloc.start()
    try:
        with pytest.raises(DataError):
            for _ in stream_table(path, ReadOptions(ratio=2)).rows:
                used = max(used, pool.bytes_allocated() - before)
        assert tracemalloc.get_traced_memory()[1] < 12 << 20 and used < 12 << 20
    finally:
        tracemalloc.stop()


def test_a_first_line_that_names_the_delimiter_for_excel_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("\ufeffsep=;\r\ntext;n\r\none, two;1\r\n;\r\n".encode())
    [first, second] = open_table(tmp_path / "a.csv").rows
    assert (str(first[0]), first[1]) == (f"{tmp_path / 'a.csv'}:3", {"text": "one, two", "n": "1"})
    assert second[0].number == 4


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "\n<!DOCTYPE html><html>404</html>", "a.csv: is a web page, not a table"),
        ("a.jsonl", "<html lang=en>", "a.jsonl: is a web page"),
        (
            "a.tsv",
            "version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
            "a.tsv: is a pointer of Git LFS",
        ),
        (
            "a.csv",
            '[{"text": "a, b", "label": 1}]',
            "a.csv: is JSON, not csv. End its name in .json or .jsonl",
        ),
        ("a.csv", '{"text": "a, b", "label": 1}\n', "is JSON, not csv"),
    ],
)
def test_other_content_than_the_name_says_is_refused(
    name: str, content: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        list(open_table(tmp_path / name).rows)


@pytest.mark.parametrize("name", ["a.xlsx", "A.XLS", "a.ods"])
def test_a_spreadsheet_is_to_be_saved_as_csv(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"PK\x03\x04")
    with pytest.raises(DataError) as refused:
        open_table(tmp_path / name)
    assert refused.value.fix == "Save it as csv"


JSON_FILES = {
    "pandas' records": (pandas.DataFrame(RECORDS).to_json(orient="records"), True),
    "a list in an object": (json.dumps({"version": "1", "data": RECORDS}, indent=2), True),
    "one object per line": ("\n".join(map(json.dumps, RECORDS)), True),
    "one object": (json.dumps(RECORDS[0]), None),
    "pandas' columns": (pandas.DataFrame(RECORDS).to_json(orient="columns"), False),
    "an open list": ('[{"a": 1},\n{"a": 2}', False),
    "a comma too many": ('[\n{"a": 1},\n{"a": 2,}\n]', False),
    "a list of lists": ("[[1], [2]]", False),
}


@pytest.mark.parametrize("name", JSON_FILES)
def test_json_is_a_list_of_objects_or_an_object_per_line(name: str, tmp_path: Path) -> None:
    content, valid = JSON_FILES[name]
    (tmp_path / "a.json").write_text(content)
    if valid is False:
        with pytest.raises(DataError):
            read(tmp_path / "a.json")
    else:
        assert read(tmp_path / "a.json") == (RECORDS if valid else RECORDS[:1])
