"""`electra predict`: the user's own columns, every format, standard input and output."""

import io
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from contracts import toy_task

import electra
from electra.commands.framework.main import main
from electra.data.tables.table import open_table
from electra.finetuning.train.all_seeds import finetune

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


def run(
    words: list[str], capsys: pytest.CaptureFixture[str], stdin: str | None = None
) -> tuple[list[dict[str, Any]], str]:
    """Returns the predictions as records, and what was noted."""
    if stdin is not None:
        sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()))
    assert main(["predict", *words, "--format", "jsonl"]) == 0
    said = capsys.readouterr()
    return [json.loads(line) for line in said.out.removesuffix("\n").split("\n")], said.err


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "json"])
def test_own_columns_come_first_in_every_format(ending: str, tuned: str, table: str, tmp_path: Path) -> None:
    out = tmp_path / f"said.{ending}"
    assert main(["predict", tuned, table, "--out", str(out)]) == 0
    rows = json.loads(out.read_text()) if ending == "json" else [row for _, row in open_table(out).rows]
    assert [list(row) for row in rows] == [COLUMNS, COLUMNS]
    assert [row["sentence"] for row in rows] == ["a fine film", "my grim town"]
    best = max(("0", "1"), key=lambda label: float(rows[0][f"p({label})"]))
    assert rows[0]["predicted"] == best
    assert float(rows[0]["probability"]) == float(rows[0][f"p({best})"]) >= 0.5


OWN = [["12345678901.0", "-LRB-", "0.10", "=1+1", "007"], ["12345678902.0", "+49 30", "1e3", "", "-0"]]
NUMBERS = [12345678901.5, 0.1, 1e22, 2**60, -0.0]


def test_own_columns_are_copied_as_they_are(tuned: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given, out = tmp_path / "new.csv", tmp_path / "said.csv"
    given.write_text("a,b,c,d,e,text\n" + "".join(",".join(row) + ",a fine film\n" for row in OWN))
    assert main(["predict", tuned, str(given), "--out", str(out)]) == 0
    for line, said in zip(given.read_text().split("\n")[:3], out.read_text().split("\n"), strict=False):
        assert said.startswith(f"{line},")
    given = tmp_path / "new.jsonl"
    given.write_text(json.dumps({"text": "a fine film"} | dict(zip("abcde", NUMBERS, strict=True))))
    for ending in ("csv", "tsv"):
        out = tmp_path / f"numbers.{ending}"
        assert main(["predict", tuned, str(given), "--out", str(out)]) == 0
        [(_, row)] = open_table(out).rows
        assert [json.loads(row[name]) for name in "abcde"] == NUMBERS


@pytest.mark.parametrize(
    "given",
    [TABLE, TABLE.replace(",", "\t"), "a fine film\nmy grim town\n", '{"sentence": "a fine film"}\n'],
    ids=["csv", "tsv", "lines", "jsonl"],
)
def test_standard_input_is_read(
    given: str, tuned: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)  # restored afterwards
    for name in ("-", "/dev/stdin"):
        first = run([tuned, name, "--out", "-"], capsys, given)[0][0]
        assert first["sentence"] == "a fine film" and first["predicted"] in ("0", "1")


def test_only_a_line_feed_ends_a_text(
    tuned: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    texts = ["a fine\u2028film", "my\x85grim town", "", "a fine film"]
    given = "\n".join(texts) + "\r\n"
    (tmp_path / "new.txt").write_text(given, newline="")
    for name in ("-", str(tmp_path / "new.txt")):
        assert [row["sentence"] for row in run([tuned, name], capsys, given)[0]] == texts


@pytest.mark.parametrize("name", ["said.xlsx", "said"])
def test_an_unknown_ending_is_refused_unless_a_format_is_given(
    name: str, tuned: str, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / name
    assert main(["predict", tuned, table, "--out", str(out)]) == 2
    assert "--format" in capsys.readouterr().err
    assert not out.exists()
    assert main(["predict", tuned, table, "--out", str(out), "--format", "csv"]) == 0
    assert out.read_text().startswith("number,sentence,label,predicted")


def test_rows_of_a_frame_come_back_with_their_own_values(tuned: str) -> None:
    pandas = pytest.importorskip("pandas")
    day = pandas.Timestamp("2026-11-23")
    texts = ["a fine film", "my grim town"]
    columns = {"number": [7, 8], "day": [day, None], "sentence": texts, "label": [1, None]}
    frame = pandas.DataFrame(columns, index=["x", "y"])
    model = electra.open(tuned)
    assert isinstance(model, electra.FineTuned)
    rows = model.predict(frame)
    assert [list(row) for row in rows] == [["number", "day", *COLUMNS[1:]]] * 2
    assert rows[0]["number"] == 7 and rows[0]["day"] == day and rows[0]["label"] == 1.0
    assert rows == model.predict(frame.to_dict("records")) or rows[0] == model.predict(frame)[0]
    plain = model.predict(texts)
    assert list(plain[0]) == ["text", *COLUMNS[3:]]
    assert [row["predicted"] for row in plain] == [row["predicted"] for row in rows]
    assert model.predict(frame["sentence"]) == plain == model.predict(text for text in texts)
    others = list(model.predict(frame.assign(predicted="old", more="x"))[0])
    assert others == [*columns, "predicted (input)", "more", *COLUMNS[3:]]
    assert model.predict([]) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([1.5], "text 1"),
        ([("a", "b", "c")], "text 1"),
        ([{"sentence": "a"}, "b"], "text 2"),
        ([{"body": "a"}], "sentence.*text.*body"),
    ],
)
def test_input_that_is_not_text_is_named_by_its_number(given: list[object], message: str, tuned: str) -> None:
    with pytest.raises(electra.ElectraError, match=message):
        electra.FineTuned(tuned).predict(given)  # type: ignore[arg-type]


def test_dev_and_its_mistakes_have_the_users_other_columns(tuned: str, tmp_path: Path) -> None:
    """A text may hold any end of a line."""
    end = "\u2028"
    train = "".join(f"{i},a{end}{('grim', 'fine')[i % 2]} film,{i % 2},web,{i}\n" for i in range(20))
    dev = f"5,a{end}fine film,0,<b>book</b>,old\n6,my grim town,0,web,older\n"
    header = "number,body,topic,source,predicted\n"
    for name, rows in (("train", train), ("dev", dev)):
        (tmp_path / f"{name}.csv").write_text(header + rows, newline="")
    columns = {"text_column": "body", "label_column": "topic"}
    model = electra.finetune(
        tuned, task="classification", data=tmp_path, out=tmp_path / "out", epochs=8, baselines=False,
        device="cpu", **columns,
    )  # fmt: skip
    first, second = model.folder.read_dev()
    assert list(first) == ["id", "number", "source", "text", "gold", *COLUMNS[3:]]
    assert first["text"] == f"a{end}fine film" and first["source"] == "<b>book</b>"
    assert first["gold"] == second["predicted"] == "0" and model.mistakes() == [first]
    (tmp_path / "out" / "dev.jsonl").unlink()
    with pytest.raises(electra.ElectraError, match=str(tmp_path)):
        model.mistakes()


def test_a_damaged_record_is_one_line(
    tuned: str, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(tuned, tmp_path / "copy")
    path = tmp_path / "copy" / "finetune.json"
    record = json.loads(path.read_text())
    long = record["settings"] | {"max_length": 10**6}
    for settings, said in ((None, "not the task"), (long, "1,000,000 tokens")):
        path.write_text(json.dumps(record | {"settings": settings}))
        assert main(["predict", str(tmp_path / "copy"), table]) == 2
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1


def test_a_word_that_is_no_file_is_one_line(tuned: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", tuned, "grim"]) == 2
    assert "error: grim: no such file" in capsys.readouterr().err
