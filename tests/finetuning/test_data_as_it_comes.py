"""Tables as exported: spreadsheets, empty answers, labels absent from training, leaked rows."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from electra.commands.framework.main import main
from electra.finetuning.predict import open_predictor, predict
from electra.finetuning.runner.dataset import Dataset, choose_task, describe_labels, read_dataset
from electra.finetuning.runner.finetune import finetune
from electra.finetuning.settings import Settings
from electra.foundation.errors import ConfigError, DataError
from electra.testing import toy_task

TRAIN = "text;topic\n" + "".join(f"Fall {i}, schön;{('Küche', 'Straße')[i % 2]}\n" for i in range(20))


def chosen(tmp_path: Path, train: str | bytes, task: str = "classification", **changes: object) -> Settings:
    path = tmp_path / "train.csv"
    path.write_bytes(train if isinstance(train, bytes) else train.encode())
    return replace(toy_task.settings(tmp_path / "out", path, task), **changes)  # type: ignore[arg-type]


def read(settings: Settings) -> Dataset:
    return read_dataset(settings, choose_task(settings))


def test_encodings_of_other_scripts_must_be_named(tmp_path: Path) -> None:
    table = "text,label\n" + "".join(f"Добрый день {i},{i % 2}\n" for i in range(20))
    dataset = read(chosen(tmp_path, table.encode("cp1251"), encoding="cp1251"))
    assert dataset.splits["train"][0].texts[0].startswith("Добрый день")
    with pytest.raises(ConfigError):
        read(chosen(tmp_path, table, encoding="cp9"))
    with pytest.raises(ConfigError):
        read(chosen(tmp_path, table, "tagging", encoding="cp1251"))


def test_empty_and_nan_answers_are_missing(tmp_path: Path) -> None:
    rows = [f"film {i},{label}" for i, label in enumerate(["good", "bad", "", "NaN", "nan"] * 10)]
    table = "text,label\n" + "\n".join(rows) + "\n"
    with pytest.raises(DataError) as caught:
        read(chosen(tmp_path, table))
    assert "train.csv:4" in caught.value.where
    dataset = read(chosen(tmp_path, table, skip_unlabelled=True))
    assert dataset.task.label_names == ("bad", "good")
    assert "train: 30 rows without an answer left out" in dataset.notes
    numbers = table.replace("good", "1.5").replace("bad", "2")
    assert len(read(chosen(tmp_path, numbers, "regression", skip_unlabelled=True)).splits["train"]) == 18
    with pytest.raises(DataError):
        read(chosen(tmp_path, "text,label\nfilm,\n", skip_unlabelled=True))


def test_a_file_without_a_header_needs_column_names(tmp_path: Path) -> None:
    table = "".join(f"a film {i},{('good', 'bad')[i % 2]}\n" for i in range(20))
    with pytest.raises(DataError):
        read(chosen(tmp_path, table))
    (tmp_path / "test.csv").write_text("a film\nanother\n")
    settings = chosen(tmp_path, table, columns=("text", "label"), test=tmp_path / "test.csv")
    assert [e.texts for e in read(settings).splits["test"]] == [("a film",), ("another",)]


def test_other_files_are_read_from_the_columns_of_the_training_file(
    tmp_path: Path, modern_folder: Path
) -> None:
    """Also if they have others with usual names, which would otherwise be preferred."""
    data, rows = tmp_path / "data", [(f"a film {i}", f"my town {i % 5}", str(i % 2)) for i in range(40)]
    data.mkdir()
    plain = "text_a,text_b,class\n" + "".join(f"{a},{b},{label}\n" for a, b, label in rows)
    more = "sentence1,sentence2,label,text_a,text_b,class\n"
    more += "".join(f"x,y,{1 - int(label)},{a},{b},{label}\n" for a, b, label in rows)
    (data / "train.csv").write_text(plain)
    for name, table in (("dev", more), ("test", more)):
        (data / f"{name}.csv").write_text(table)
    settings = toy_task.settings(tmp_path / "out", data, "pair", epochs=0.1)
    dataset = read(settings)
    for split in ("dev", "test"):
        assert [(*example.texts, example.gold) for example in dataset.splits[split]] == rows
    finetune(str(modern_folder), settings)
    expected = predict(str(tmp_path / "out"), data / "train.csv")
    actual = predict(str(tmp_path / "out"), data / "dev.csv")
    assert np.array_equal(np.stack(actual.values), np.stack(expected.values))


@pytest.mark.parametrize("head", ["transformers", "frozen"])
def test_numbers_of_pairs_and_of_single_texts_are_not_mixed(
    head: str, tmp_path: Path, modern_folder: Path
) -> None:
    tables = {
        "pairs": "text_a,text_b,score\n" + "".join(f"a film {i},my town,{i / 10}\n" for i in range(20)),
        "single": "text,score\n" + "".join(f"a film {i},{i / 10}\n" for i in range(20)),
    }
    files = {name: tmp_path / f"{name}.csv" for name in tables}
    for name, table in tables.items():
        files[name].write_text(table)
        settings = toy_task.settings(
            tmp_path / name, files[name], "regression", head=head, epochs=None if head == "frozen" else 0.1
        )
        finetune(str(modern_folder), settings)
    for name, other, inputs in (("pairs", "single", ["a film"]), ("single", "pairs", [("a film", "a town")])):
        with pytest.raises(DataError, match="no column"):
            predict(str(tmp_path / name), files[other])
        with pytest.raises(ConfigError, match="must name"):
            open_predictor(str(tmp_path / name)).texts(inputs)


def test_predictions_keep_the_input_and_name_it(
    tmp_path: Path, modern_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for task, table in (
        ("classification", "text,label\n" + "".join(f"a film {i},{i % 2}\n" for i in range(20))),
        ("pair", "text_a,text_b,label\n" + "".join(f"a film {i},my town,{i % 2}\n" for i in range(20))),
    ):
        (tmp_path / f"{task}.csv").write_text(table)
        settings = toy_task.settings(tmp_path / task, tmp_path / f"{task}.csv", task, epochs=0.1)
        finetune(str(modern_folder), settings)
    model, file = str(tmp_path / "classification"), tmp_path / "new.csv"
    file.write_text("text,predicted,probability\na film,mine,sure\n")
    capsys.readouterr()

    def refused(*words: str) -> str:
        assert main(["predict", *words]) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert "/electra-" not in line and "standard-input" not in line
        return line

    assert "--out" in refused(model, str(file), "--out", str(file))
    assert file.read_text() == "text,predicted,probability\na film,mine,sure\n"
    assert "the text" in refused(model, "")
    assert "the text: no column" in refused(str(tmp_path / "pair"), "a fine film")

    def pipe(content: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))

    pipe(b"a film\n\xff\xfe\n")
    assert "standard input:2: not UTF-8" in refused(model, "-")
    pipe(b"Review,Sentiment\na film,1\n")
    assert "standard input: no column body" in refused(model, "-", "--text-column", "body")
    encoded = "café\n".encode("cp1252")
    for content, options in ((encoded, ["--encoding", "cp1252"]), ("\ufeffTEXT,x\ncafé,1\n".encode(), [])):
        pipe(content)
        capsys.readouterr()
        assert main(["predict", model, "-", "--format", "jsonl", *options]) == 0
        [row] = map(json.loads, capsys.readouterr().out.splitlines())
        assert "café" in row.values()
    assert main(["predict", model, "text, a fine film"]) == 0  # not a header


def test_labels_absent_from_training_are_scored_as_wrong(tmp_path: Path, modern_folder: Path) -> None:
    said: list[str] = []
    data = toy_task.write_classification(tmp_path / "data", train=60, dev=10)
    with open(data / "dev.tsv", "a") as file:
        file.write("a fine film\tnever\nmy town\tnever\n")
    (data / "test.tsv").write_text("sentence\tlabel\na fine film\t1\na grim film\todd\n")
    settings = toy_task.settings(tmp_path / "out", data, "classification", epochs=1)
    results = finetune(str(modern_folder), settings, said.append)
    [note] = [note for note in results["notes"] if note.startswith("dev: 2 of 12 examples with")]
    assert "('never' 2)" in note and note in said
    assert any(note.startswith("test: 1 of 2 examples with a label") for note in results["notes"])
    assert results["eval_accuracy"] <= 10 / 12 and results["test_accuracy"] <= 0.5
    dataset = read(settings)
    for split, right in (("dev", 10 / 12), ("test", 1 / 2)):  # whatever is said where nothing is right
        examples = dataset.splits[split]
        for other in (0, 1):
            targets = map(dataset.task.target, examples)
            classes = [other if target < 0 else target for target in targets]
            predictions = [np.eye(2)[number] for number in classes]
            assert dataset.task.score(predictions, examples)["accuracy"].value == pytest.approx(right)
    assert results["labels"]["dev"] == {"0": 5, "1": 5, "never": 2}
    assert "train: 0 30, 1 30" in said


def test_all_tasks_score_unseen_labels_as_wrong() -> None:
    """Several labels, and tags: a right answer for all that was learned is no full score."""
    from electra.finetuning.labelled.examples import Example
    from electra.finetuning.tasks import load_task
    from electra.finetuning.tasks.parts.text_label_set import MULTI_LABEL_METRICS, MultiLabelClassification

    several = MultiLabelClassification.like(
        load_task("classification"),
        labels=("a", "b"),
        metrics=MULTI_LABEL_METRICS,  # type: ignore[arg-type]
    )
    examples = [Example("0", "f:1", ("x",), ("a", "never"))]
    scores = several.score([np.array([0.9, 0.1])], examples)
    assert scores["accuracy"].value == 0 and scores["f1_micro"].value == pytest.approx(2 / 3)
    tags = load_task("tagging").fit([Example("0", "f:1", ("x", "y"), ("A", "B"))])
    right = np.eye(2, dtype=np.float32)
    scored = tags.score([right], [Example("0", "f:1", ("x", "y"), ("A", "C"))])
    assert scored["accuracy"].value == 0.5


def test_rows_that_a_stray_quote_swallows_are_noted(tmp_path: Path) -> None:
    lines = [f"film {number} is fine,{('good', 'bad')[number % 2]}" for number in range(40)]
    lines[5], lines[9] = f'"{lines[5]}', lines[9].replace(",", '",')
    [note] = [
        each for each in read(chosen(tmp_path, "\n".join(["text,label", *lines]))).notes if "stray" in each
    ]
    assert note.startswith(f"train: {tmp_path / 'train.csv'}:7: a text has a line that looks like a row")
    letters = [
        f'"Dear all,\nfilm {number}, a good one\nBob",{("good", "bad")[number % 2]}' for number in range(40)
    ]
    dataset = read(chosen(tmp_path, "\n".join(["text,label", *letters])))
    assert not [note for note in dataset.notes if "stray" in note], "a cell may have several lines"


def test_a_held_out_dev_set_has_every_label_that_ten_examples_have(tmp_path: Path) -> None:
    """Whichever texts have the smallest hashes."""
    for start in range(0, 2000, 100):
        rows = [f"text {start + n},{'rare' if n < 10 else 'usual'}" for n in range(60)]
        splits = read(chosen(tmp_path, "\n".join(["text,label", *rows, "single,once"]))).splits
        assert {"rare", "usual"} <= {example.gold for example in splits["dev"]}
        assert not {e.texts for e in splits["dev"]} & {e.texts for e in splits["train"]}
        assert len(splits["dev"]) + len(splits["train"]) == 61


def rows(*cells: object) -> str:
    return "".join(f"text {number},{cell}\n" for number, cell in enumerate(cells))


FEW = "".join(f"text {number % 7},{('a', 'b')[number % 2]}\n" for number in range(700))
SEVERAL = "".join(f"a {number},{'' if number < 3 else 'b'},{number % 2}\n" for number in range(40))
EXPECTED_NOTES = {  # task, training file, what a note says
    "empty texts": (
        "classification",
        f"text,label\n   ,1\n{rows(*[0, 1] * 20)}",
        "train: 1 example with an empty text, kept",
    ),
    "halves": ("pair", f"sentence1,sentence2,label\n{SEVERAL}", "train: 3 examples with an empty text, kept"),
    "few texts": ("classification", f"text,label\n{FEW}", "1 different text: too few for a reliable score"),
}


@pytest.mark.parametrize("case", EXPECTED_NOTES)
def test_doubtful_data_is_noted(case: str, tmp_path: Path) -> None:
    task, train, said = EXPECTED_NOTES[case]
    assert [note for note in read(chosen(tmp_path, train, task)).notes if said in note]


def test_leaks_are_noted(tmp_path: Path) -> None:
    (tmp_path / "dev.csv").write_text("text,label\nTEXT\u00a0\uff13,1\na film of my own,0\n")
    dataset = read(chosen(tmp_path, f"text,label\n{rows(*[0, 1] * 10)}", dev=tmp_path / "dev.csv"))
    assert any(note.startswith("dev: 1 of 2 examples also in") for note in dataset.notes)
    assert list(describe_labels(dataset)) == ["train: 0 10, 1 10", "dev: 0 1, 1 1"]
