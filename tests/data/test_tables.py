"""Tables: bytes of many formats and the rows or the place of the error that they give; bombs are refused."""

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pandas
import pyarrow
import pytest
from corpora import COMPRESSIONS, in_parquet
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import ipc, parquet

from electra.data.tables import columnar, lines
from electra.data.tables.delimited import format_csv, format_tsv
from electra.data.tables.lines import Place
from electra.data.tables.table import ReadOptions, open_table
from electra.data.tables.table_files import Given, parts_of, parts_pattern, split_name
from electra.foundation.errors import DataError

ROWS = [
    {"text": "one, two", "n": "1"},
    {"text": 'said "three"\nfour', "n": "2"},
    {"text": "tab\there é", "n": "3"},
]
FRAME = pandas.DataFrame(ROWS)
CSV = FRAME.to_csv(index=False)


def read(path: Any, **options: Any) -> list[dict[str, Any]]:
    return [row for _, row in open_table(path, ReadOptions(**options)).rows]


def in_arrow(**columns: Any) -> bytes:
    content, table = io.BytesIO(), pyarrow.table(columns)
    with ipc.new_file(content, table.schema) as file:
        file.write_table(table)
    return content.getvalue()


def as_json(*texts: str | None) -> pyarrow.Array:
    return pyarrow.ExtensionArray.from_storage(pyarrow.json_(), pyarrow.array(texts, pyarrow.string()))


# As Polars writes them (string and list views), and other tools.
ARROW_TYPES = {
    "view": pyarrow.array(["a", None], pyarrow.string_view()),
    "lists": pyarrow.array([["a", "b"], None], pyarrow.list_view(pyarrow.string())),
    "pairs": pyarrow.array([[1, 2], None], pyarrow.list_(pyarrow.int64(), 2)),
    "repeated": pyarrow.array(["a", "b"]).dictionary_encode(),
    "runs": pyarrow.RunEndEncodedArray.from_arrays(pyarrow.array([2], pyarrow.int32()), pyarrow.array(["a"])),
    "json": as_json('{"a": [1]}', "null"),
    "messages": pyarrow.ListArray.from_arrays([0, 1, 1], pyarrow.StructArray.from_arrays([as_json('"x"')], ["c"])),
    "map": pyarrow.array([[("k", "v")], None], pyarrow.map_(pyarrow.string(), pyarrow.string())),
}
ARROW_ROWS = [
    {"view": "a", "lists": ["a", "b"], "pairs": [1, 2], "repeated": "a", "runs": "a", "json": {"a": [1]},
     "messages": [{"c": "x"}], "map": [["k", "v"]]},
    {"view": None, "lists": None, "pairs": None, "repeated": "b", "runs": "a", "json": None,
     "messages": [], "map": None},
]  # fmt: skip


def encoded(text: str, encoding: str = "utf-8") -> bytes:
    return text.encode(encoding)


COLUMNS = ("source", "label", "mark", "sentence")  # of CoLA, whose files may lack them
HEADER = {"header": COLUMNS, "required": (("sentence",),)}
# The name of the file, its bytes, and the rows, or the line that the error names (0: only the file).
NULLS = pyarrow.ListArray.from_arrays([0, 1 << 24], pyarrow.nulls(1 << 24))
SURROGATES = b'{"a": "the \\ud800 film", "\\udfff": "\\uD834\\uDD1E"}'
FILES: dict[str, tuple[str, bytes, Any]] = {
    "utf-8 with a mark": ("a.csv", encoded("\ufeff" + CSV), ROWS),
    "utf-16": ("a.csv", encoded(CSV, "utf-16"), ROWS),
    "utf-16-le without a mark": ("a.csv", encoded(CSV, "utf-16-le"), ROWS),
    "cp1252": ("a.csv", encoded("t\nein schönes Haus\n", "cp1252"), [{"t": "ein schönes Haus"}]),
    "cp1251": ("a.tsv", encoded("t\tl\nшл\t1\n", "cp1251"), 2),
    "nothing": ("a.tsv", b"", 0),
    "no quotes": ("a.tsv", b'a\tb\n"open\t1\nboth "x" \t0\r\n', [["a", '"open', 'both "x" '], "10"]),
    "line feeds": ("a.tsv", encoded("t\tl\n1\u20282\x853\x1c\t1\n"), [["t", "1\u20282\x853\x1c"]]),
    "a note for Excel": ("a.csv", encoded("\ufeffsep=;\r\nt;n\r\none, two;1\r\n"), [["t", "one, two"]]),
    "semicolons in quotes": ("a.csv", b't;s\n"one; two, three";1,5\n', [["t", "one; two, three"], ["1,5"]]),
    "columns without names": ("a.csv", b"v1,,\nham,x,\n", [["column 2", "x"]]),
    "spaces": ("a.csv", b't, l\n"one, two", "a"\nplain, "c"\n', [["t", "one, two", "plain"], "ac"]),
    "tabs with more cells": ("a.csv", b"t\tl\none, two\t1\tx\ntwo\t2\n", 2),
    "quotes after a space": ("a.csv", b't,l\nsays "no", a\n', [["t", 'says "no"']]),
    "another number of cells": ("a.tsv", b"t\tl\none\t1\ntwo\n", 3),
    "more cells": ("a.csv", b"t,l\nhello, world,1\n", 2),
    "a quote that stays open": ("a.csv", b't,l\n"never closed,1\n', 2),
    "two columns of a name": ("a.tsv", b"x\tx\n1\t2\n", 1),
    "the header again": ("a.tsv", encoded("\ufefft\tl\none\t1\n\ufefft\tl\n"), 3),
    "a stray carriage return": ("a.csv", b"t,l\none,1\ntwo,2\rthree,3\n", 3),
    "a NUL": ("a.csv", b"t,l\nx,y\nz,b\0d\n", 3),
    "a NUL in utf-16": ("a.tsv", encoded("t\tl\nx\ty\nz\tb\0d\n", "utf-16"), 3),
    "a web page": ("a.csv", b"\n<!DOCTYPE html><html>404</html>", 0),
    "a pointer of Git LFS": ("a.tsv", b"version https://git-lfs.github.com/spec/v1\n", 0),
    "JSON in a csv": ("a.csv", b'[{"text": "a, b", "label": 1}]', 0),
    "an unknown ending": ("a.txt", b"x", 0),
    "a spreadsheet": ("a.xlsx", b"PK\x03\x04", 0),
    "JSON lines": ("a.jsonl", encoded("\n\n".join(map(json.dumps, ROWS))), ROWS),
    "not JSON": ("a.jsonl", b'{"text": "x"}\n{"text": \n', 2),
    "not an object": ("a.jsonl", b'{"text": "x"}\n["x"]\n', 2),
    "an escaped NUL": ("a.jsonl", b'{"a": "x"}\n{"a": ["b", "b\\u0000d"]}\n', 2),
    "a backslash": ("a.jsonl", b'{"a": "\\\\u0000"}', [["a", "\\u0000"]]),
    "lone surrogates": ("a.jsonl", SURROGATES, [["a", "the ? film"], "𝄞"]),
    "a list": ("a.json", encoded(FRAME.to_json(orient="records")), ROWS),
    "a list in an object": ("a.json", encoded(json.dumps({"version": "1", "data": ROWS}, indent=2)), ROWS),
    "objects on lines": ("a.json", encoded("\n".join(map(json.dumps, ROWS))), ROWS),
    "one object": ("a.json", encoded(json.dumps(ROWS[0])), ROWS[:1]),
    "an open list": ("a.json", b'[{"a": 1},\n{"a": 2}', 2),
    "a comma too many": ("a.json", b'[\n{"a": 1},\n{"a": 2,}\n]', 3),
    "a list of lists": ("a.json", b"[[1], [2]]", 1),
    "a zip": ("a.zip", b"PK\3\4", 0),
    "no parquet": ("a.parquet", b"PAR1 no parquet PAR1", 0),
    "a NUL in parquet": ("a.parquet", in_parquet(t=["b\0d"]), 1),
    "Arrow's types": ("a.arrow", in_arrow(**ARROW_TYPES), ARROW_ROWS),
    "JSON in parquet": (
        "a.parquet",
        in_parquet(t=as_json('"a\\nb"', '["x", {"y": null}]')),
        [["t", "a\nb", ["x", {"y": None}]]],
    ),
    "no JSON in parquet": ("a.parquet", in_parquet(t=as_json('{"a":')), 0),
    "nulls in parquet": ("a.parquet", in_parquet(t=pyarrow.nulls(3 << 20)), 0),
    "nulls in Arrow": ("a.arrow", in_arrow(t=pyarrow.nulls(1 << 24)), 0),
    "a list of nulls": ("a.arrow", in_arrow(t=NULLS), 0),
    "words": ("a.parquet", in_parquet(t=[["a", "b"], None], n=[{"x": 1.5}] * 2), [["t", ["a", "b"], None]]),
    "parquet in gzip": ("a.parquet.gz", gzip.compress(in_parquet(t=["a"])), 0),
    "damaged gzip": ("a.csv.gz", gzip.compress(encoded(CSV))[:-9], 0),
}


@pytest.mark.parametrize("case", FILES)
def test_bytes_give_rows_or_an_error_with_a_place(case: str, tmp_path: Path) -> None:
    name, content, expected = FILES[case]
    path = tmp_path / name
    path.write_bytes(content)
    if isinstance(expected, int):
        with pytest.raises(DataError) as caught:
            read(path)
        places = {str(Place(str(path), expected, is_line)) for is_line in (True, False)}
        assert caught.value.where in places and "\n" not in str(caught.value)
        return
    rows = read(path)
    if isinstance(expected[0], dict):
        assert rows == expected
    else:  # the name and the cells of a column, and the cells of the last
        (column, *cells), *last = expected
        assert [row[column] for row in rows] == cells
        assert not last or [[*row.values()][-1] for row in rows] == list(last[0])


@pytest.mark.parametrize(("kind", "content"), [(".csv", encoded(CSV)), (".jsonl", FILES["JSON lines"][1])])
def test_data_in_memory_is_read_like_a_file(kind: str, content: bytes) -> None:
    assert read(Given("standard input", content, kind)) == read(Given("the texts", rows=ROWS)) == ROWS
    numbers = pandas.DataFrame({"text": ["a"], "n": [1.5], "w": [["x"]]}).to_dict("records")
    [(place, row)] = open_table(Given("the texts", rows=numbers)).rows
    assert (str(place), row) == ("the texts: row 1", {"text": "a", "n": 1.5, "w": ["x"]})
    with pytest.raises(DataError) as caught:
        read(Given("standard input", b"a,b\n1\n", ".csv"))
    assert caught.value.where == "standard input:2"


REVIEWS = "".join(f"film {i} was fine,{('neg', 'pos')[i % 2]}\n" for i in range(9))
HEADS = [  # the first line before REVIEWS, the number of rows with the columns t and l, whether it is noted
    ("review,sentiment\n", 9, True),
    ("a fine film!,pos\n", 10, False),
    ("Great,pos\n", 10, True),
    ("t,l\n", 9, False),
    ("Great,2\n", 10, False),
]


@pytest.mark.parametrize(("first", "count", "is_noted"), HEADS)
def test_names_of_columns_are_not_a_row(first: str, count: int, is_noted: bool, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(first + REVIEWS)
    table = open_table(tmp_path / "a.csv", ReadOptions(header=("t", "l"), required=(("t",),)))
    assert len(list(table.rows)) == count and bool(table.notes) == is_noted


def test_a_header_is_recognised_by_its_columns(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("gj04\t1\t\tOur friends.\n")
    assert [row["sentence"] for row in read(tmp_path / "a.tsv", **HEADER)] == ["Our friends."]
    (tmp_path / "b.tsv").write_text("index\tsentence\n0\tBill whistled.\n")
    assert read(tmp_path / "b.tsv", **HEADER) == [{"index": "0", "sentence": "Bill whistled."}]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("ending", ["csv", "tsv"])
@pytest.mark.parametrize("quoting", [0, 1])
@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_pandas_tables_are_read(separator: str, ending: str, quoting: Any, ends: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{ending}"
    FRAME.to_csv(path, sep=separator, quoting=quoting, index=False, lineterminator=ends)
    assert read(path) == ROWS
    if separator in ",\t" and ends == "\n":  # as MySQL and Spark escape quotes
        FRAME.to_csv(path, sep=separator, quoting=1, index=False, escapechar="\\", doublequote=False)
        assert read(path) == ROWS and open_table(path).notes


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=6), separator=st.sampled_from(",;"))
def test_any_text_survives_a_quoted_csv(rows: list[tuple[str, str]], separator: str, tmp_path: Path) -> None:
    content = io.StringIO(newline="")
    csv.writer(content, delimiter=separator, quoting=csv.QUOTE_ALL).writerows([("text", "label"), *rows])
    (tmp_path / "a.csv").write_bytes(content.getvalue().encode())
    try:
        read_back = [tuple(row.values()) for row in read(tmp_path / "a.csv")]
    except DataError as error:  # rows equal to the header
        assert ("text", "label") in rows and error.where
    else:
        assert read_back == rows


@pytest.mark.parametrize("ending", COMPRESSIONS)
def test_compressed_members_are_one_table_and_damage_is_an_error(ending: str, tmp_path: Path) -> None:
    rows = [json.dumps({"text": f"number {i} {i * 7919 % 101}", "label": i}).encode() + b"\n" for i in range(500)]
    compress, path = COMPRESSIONS[ending], tmp_path / f"train.jsonl{ending}"
    packed = compress(b"".join(rows[:200])) + compress(b"".join(rows[200:]))
    path.write_bytes(packed)
    assert [row["label"] for row in read(path)] == list(range(500))
    for content in (packed[: len(packed) // 2], packed[:-3], packed + b"garbage"):
        path.write_bytes(content)
        with pytest.raises(DataError):
            read(path)


@pytest.mark.parametrize("kind", ["string", "large_string", "binary", "string_view", "dictionary"])
@pytest.mark.parametrize("ending", ["parquet", "arrow", "feather"])
def test_columnar_files_are_read(kind: str, ending: str, tmp_path: Path) -> None:
    if kind == "string_view" and int(pyarrow.__version__.partition(".")[0]) < 26:
        pytest.skip("older versions of pyarrow cannot write them all")
    texts = ["one", None, "été"]
    column = pyarrow.array(texts)
    column = column.dictionary_encode() if kind == "dictionary" else column.cast(getattr(pyarrow, kind)())
    table = pyarrow.table({"text": column, "n": [1, 2, 3], "of": [{"x": 1.5}] * 3})
    path, content = tmp_path / f"a.{ending}", io.BytesIO()
    if ending == "parquet":
        parquet.write_table(table, content)
    else:
        write = ipc.new_stream if ending == "arrow" else ipc.new_file
        with write(content, table.schema, options=ipc.IpcWriteOptions(compression="lz4")) as writer:
            writer.write_table(table)
    path.write_bytes(content.getvalue())
    assert read(path) == [{"text": t, "n": n, "of": {"x": 1.5}} for n, t in enumerate(texts, 1)]


def test_a_saved_dataset_is_read_with_the_names_of_its_classes(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    label = datasets.ClassLabel(names=["bad", "good"])
    features = datasets.Features(text=datasets.Value("string"), label=label, tags=datasets.Sequence(label))
    given = {"text": ["a", "b", "c"], "label": [0, 1, -1], "tags": [[0], [1, 0], []]}
    saved = datasets.Dataset.from_dict(given, features=features)
    saved.save_to_disk(tmp_path / "saved", num_shards=2)
    saved.to_parquet(tmp_path / "a.parquet")
    expected = [("a", "bad", ["bad"]), ("b", "good", ["good", "bad"]), ("c", None, [])]
    for path in (tmp_path / "saved", tmp_path / "a.parquet"):
        assert [tuple(row.values()) for row in read(path)] == expected
    beyond = pyarrow.table({"text": ["a"], "label": [7]}).replace_schema_metadata(
        parquet.read_schema(tmp_path / "a.parquet").metadata
    )
    parquet.write_table(beyond, tmp_path / "beyond.parquet")
    with pytest.raises(DataError, match="class 7"):
        read(tmp_path / "beyond.parquet")
    datasets.DatasetDict(train=saved, test=saved).save_to_disk(tmp_path / "both")
    assert len(read(tmp_path / "both" / "train")) == 3
    for folder in ("both", "."):
        with pytest.raises(DataError):
            read(tmp_path / folder)


def test_all_parts_of_a_file_are_read_together(tmp_path: Path) -> None:
    for number in range(2):
        FRAME.to_parquet(tmp_path / f"train-{number:05}-of-00002.parquet")
    whole = parts_pattern(tmp_path / "train-00000-of-00002.parquet")
    assert read(whole) == ROWS * 2 and len(parts_of(whole)) == 2
    assert split_name(whole) == split_name(tmp_path / "train.parquet") == ("train", ".parquet")
    (tmp_path / "train-00001-of-00002.parquet").unlink()
    with pytest.raises(DataError):
        read(whole)


def test_decompression_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "EXPANSION_BYTES", 1 << 20)
    path = tmp_path / "bomb.tsv.gz"
    path.write_bytes(gzip.compress(b"a\tb\n" * (1 << 22)))
    with pytest.raises(DataError):
        open_table(path)
    path.write_bytes(gzip.compress(b"a\tb\n" + b"1\t2\n" * 1000))
    assert len(read(path)) == 1000
    monkeypatch.setattr(columnar, "EXPANDED_BYTES", 1 << 20)
    table = pyarrow.table({"t": ["b" * (1 << 22)]})
    parquet.write_table(table, tmp_path / "a.parquet", use_dictionary=False, compression="zstd")
    with pytest.raises(DataError):
        open_table(tmp_path / "a.parquet")


def test_written_tables_are_read_back_and_hold_no_formulas(tmp_path: Path) -> None:
    cells = ["=1+1", "+x", "-LRB-", "@SUM(A1)", "-0.5", "+3e-4", "plain", "a=b", ""]
    [row] = csv.reader(io.StringIO(format_csv([cells]).decode()))
    assert row == ["'=1+1", "'+x", "'-LRB-", "'@SUM(A1)", "-0.5", "+3e-4", "plain", "a=b", ""]
    cells = ["one\rtwo", "one\ntwo", 'a "b", c', "one\u2028two", ""]
    (tmp_path / "a.csv").write_bytes(format_csv([["text"], *([cell] for cell in cells)]))
    assert [row["text"] for row in read(tmp_path / "a.csv")] == cells
    assert format_tsv([("id", "label"), ("a\tb\nc", "x")]) == b"id\tlabel\na b c\tx\n"
