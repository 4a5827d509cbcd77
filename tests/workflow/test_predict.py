"""`electra predict`: the user's own columns, every format, standard input and output."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import electra
from electra.artifacts import FinetuningFolder
from electra.commands.framework.main import main
from electra.finetuning.runner.finetune import finetune
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


def test_only_a_line_feed_ends_a_text_of_standard_input(
    tuned: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = ["a fine\u2028film", "my\x85grim town", "", "a fine film"]
    given = "\n".join(texts) + "\r\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
    assert main(["predict", tuned, "-", "--out", "-", "--format", "jsonl"]) == 0
    rows = capsys.readouterr().out.removesuffix("\n").split("\n")
    assert [json.loads(row)["sentence"] for row in rows] == texts


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


def test_a_spreadsheet_is_predicted(tuned: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "new.csv").write_bytes("sentence\nein schöner film\n".encode("cp1252"))
    words = ["predict", tuned, str(tmp_path / "new.csv"), "--format", "jsonl"]
    assert main(words) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["sentence"] == "ein schöner film" and "read as cp1252" in said.err
    assert main([*words, "--encoding", "cp1251"]) == 0
    assert json.loads(capsys.readouterr().out)["sentence"] == "ein schцner film"


def test_rows_of_a_frame_come_back_with_their_own_values(tuned: str) -> None:
    pandas = pytest.importorskip("pandas")
    day = pandas.Timestamp("2026-11-23")
    frame = pandas.DataFrame(
        {
            "number": [7, 8],
            "day": [day, None],
            "sentence": ["a fine film", "my grim town"],
            "label": [1, None],
        },
        index=["x", "y"],
    )
    model = electra.open(tuned)
    assert isinstance(model, electra.FineTuned)
    rows = model.predict(frame)
    assert [list(row) for row in rows] == [["number", "day", *COLUMNS[1:]]] * 2
    assert rows[0]["number"] == 7 and rows[0]["day"] == day and rows[0]["label"] == 1.0
    assert rows == model.predict(frame.to_dict("records")) or rows[0] == model.predict(frame)[0]
    plain = model.predict(list(frame["sentence"]))
    assert list(plain[0]) == ["text", *COLUMNS[3:]]
    assert [row["predicted"] for row in plain] == [row["predicted"] for row in rows]
    assert (
        model.predict(frame["sentence"])
        == plain
        == model.predict(("a fine film", "my grim town")[i] for i in (0, 1))
    )
    assert list(model.predict(frame.assign(predicted="old", more="x"))[0]) == [
        "number",
        "day",
        "sentence",
        "label",
        "predicted (input)",
        "more",
        *COLUMNS[3:],
    ]
    assert model.predict([]) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["a fine film", None], "text 2"),
        ([1.5], "text 1"),
        ([("a", "b", "c")], "text 1"),
        ([{"sentence": "a"}, "b"], "text 2"),
        ([{"sentence": "a"}, {"sentence": None}], "row 2.*'sentence'"),
        ([{"body": "a"}], "sentence.*text.*body"),
    ],
)
def test_input_that_is_not_text_is_named_by_its_number(given: list[object], message: str, tuned: str) -> None:
    with pytest.raises(electra.ElectraError, match=message):
        electra.FineTuned(tuned).predict(given)  # type: ignore[arg-type]


def test_a_text_and_a_label_may_hold_any_end_of_a_line(tmp_path: Path) -> None:
    model = toy_task.save_encoder(tmp_path / "model", "modern")
    data = toy_task.write_classification(tmp_path / "data", train=40, dev=10)
    for file in data.iterdir():
        file.write_bytes(
            file.read_bytes().replace(b" ", "\u2028".encode()).replace(b"\t1", "\tgo\x85od".encode())
        )
    finetune(str(model), toy_task.settings(tmp_path / "out", data, "classification", epochs=1))
    dev = FinetuningFolder(tmp_path / "out").read_dev()
    assert len(dev) == 10 and {row["gold"] for row in dev} == {"0", "go\x85od"}
    assert any("\u2028" in row["text"] for row in dev)
    assert len(electra.FineTuned(tmp_path / "out").mistakes()) <= 10


def test_dev_and_its_mistakes_have_the_users_other_columns(tuned: str, tmp_path: Path) -> None:
    train = "".join(f"{i},a {('grim', 'fine')[i % 2]} film,{i % 2},web,{i}\n" for i in range(20))
    dev = "5,a fine film,0,<b>book</b>,old\n6,my grim town,0,web,older\n"
    header = "number,body,topic,source,predicted\n"
    (tmp_path / "train.csv").write_text(header + train)
    (tmp_path / "dev.csv").write_text(header + dev)
    out = tmp_path / "out"
    words = ["finetune", tuned, "--task", "classification", "--data", str(tmp_path), "--text-column", "body"]
    words += [
        "--label-column",
        "topic",
        "--epochs",
        "8",
        "--no-baselines",
        "--device",
        "cpu",
        "--out",
        str(out),
    ]
    assert main(words) == 0
    model = electra.FineTuned(out)
    first = model.folder.read_dev()[0]
    assert list(first) == ["id", "number", "source", "text", "gold", *COLUMNS[3:]]
    assert first["text"] == "a fine film" and first["source"] == "<b>book</b>" and first["gold"] == "0"
    [wrong] = model.mistakes()
    assert wrong == first and wrong["predicted"] == "1"
    html = (out / "report.html").read_text()
    assert "a fine film<br>" in html and "source: &lt;b&gt;book&lt;/b&gt;" in html and "<b>book" not in html
    (out / "dev.jsonl").unlink()
    with pytest.raises(electra.ElectraError, match=str(out)):
        model.mistakes()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda record: record.pop("settings"), "not the task of a fine-tuned model"),
        (lambda record: record.update(task=5), "not the task of a fine-tuned model"),
        (lambda record: record.update(settings={}), "head, max_length, pooling"),
        (lambda record: record["settings"].update(max_length="x"), "is not a whole number"),
        (lambda record: record["settings"].update(text_column=5), "5 is not a list"),
        (
            lambda record: record["settings"].update(max_length=10**6),
            "1,000,000 tokens",
        ),
    ],
)
def test_a_damaged_record_is_one_line(  # noqa: PLR0917
    damage: Callable[[dict[str, Any]], Any],
    said: str,
    tuned: str,
    table: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(tuned, tmp_path / "copy")
    path = tmp_path / "copy" / "finetune.json"
    record = json.loads(path.read_text())
    damage(record)
    path.write_text(json.dumps(record))
    assert main(["predict", str(tmp_path / "copy"), table]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_a_number_too_large_for_parquet_is_one_line(
    tuned: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"sentence": "a fine film", "n": 10**30}) + "\n")
    assert main(["predict", tuned, str(rows), "--out", str(tmp_path / "o.parquet")]) == 2
    error = capsys.readouterr().err
    assert "jsonl" in error and error.count("\n") == 1
    assert main(["predict", tuned, str(rows), "--out", str(tmp_path / "o.jsonl")]) == 0


@pytest.mark.parametrize("given", [[["a"], []], [{"tokens": ["a"]}, {"tokens": []}]])
def test_a_sentence_without_words_is_named(given: list[Any], tmp_path: Path) -> None:
    """It was dropped, or a traceback."""
    model = toy_task.save_encoder(tmp_path / "model", "modern")
    data = toy_task.write_tagging(tmp_path / "data", train=20, dev=4)
    finetune(str(model), toy_task.settings(tmp_path / "out", data, "pos", epochs=1, limit_train=8))
    tagger = electra.FineTuned(tmp_path / "out")
    with pytest.raises(electra.ElectraError, match="row 2"):
        tagger.predict(given)
    assert [row["word"] for row in tagger.predict([["en:a"], ["en:b"]])] == ["en:a", "en:b"]


def test_the_lines_of_a_text_file_are_classified(
    tuned: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = tmp_path / "new.txt"
    texts.write_text("a fine film\nmy grim town\n")
    assert main(["predict", tuned, str(texts), "--format", "jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["sentence"] for row in rows] == ["a fine film", "my grim town"]
    assert main(["predict", tuned, "grim"]) == 2
    assert "error: grim: no such file. Pipe a text of one word" in capsys.readouterr().err
