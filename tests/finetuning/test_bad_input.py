"""Invalid input: one line on stderr, exit code 2, nothing written."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from contracts import toy_task
from contracts.toy_task import BAD, GOOD

import electra
from electra.commands.framework.main import main
from electra.foundation.errors import RunFolderError

TABLE = "sentence\tlabel\n" + "".join(
    f"{word} film\t{label}\n" for label, words in enumerate((BAD, GOOD)) for word in words
)


TWO = "sentence\tlabel\nx\t1\ny\t{}\n"
NUMBERED = '{"tokens": ["Ann", "came"], "ner_tags": [1, 0]}\n'
ANSWERED = '{"question": "who?", "context": "Ann came", "answers": ["Ann"]}\n'
BARE = '{"question": "why?", "context": "Ann came", "answers": []}\n'
NO_TRAIN = r"/data: .*train\*.*\.tsv, \.csv"
NO_LABEL = r"train.csv: .*label or labels or class.*text, mark.*--label-column"
GOOD_TABLE = {"train.tsv": TABLE}

QUESTIONS = {"train.jsonl": ANSWERED, "dev.jsonl": ANSWERED.replace("who", "when"), "test.jsonl": BARE}
CASES: list[tuple[dict[str, str], str, str]] = [  # files, a pattern in the error, options
    (GOOD_TABLE, r"train.tsv: .*Satz.*sentence, label.*--text-column", "--text-column Satz"),
    ({"train.csv": "text,mark\nx,1\n"}, NO_LABEL, ""),
    ({"train.tsv": TABLE + "fine\n"}, r"train.tsv:8: ", ""),
    (GOOD_TABLE | {"dev.tsv": "sentence\tlabel\nx\t7\n"}, r"dev.tsv:2: .*'7'", ""),
    (GOOD_TABLE | {"dev.tsv": "sentence\tlabel\nx\t\n"}, r"dev.tsv:2: .*'label'", ""),
    (GOOD_TABLE | {"dev.tsv": "sentence\tlabel\n"}, r"dev.tsv: ", ""),
    ({"train.tsv": TWO.format(1)}, r"train.tsv: .*'1'", ""),
    ({"train.tsv": TWO.format(0)}, r"train.tsv: ", ""),
    ({"train.tsv": "sentence\tlabel\n" + "x\t1\ny\t0\n" * 40}, r"train.tsv: ", ""),
    ({"train.tsv": ""}, r"train.tsv: ", ""),
    ({"dev.tsv": TABLE, "all.tsv": TABLE}, NO_TRAIN, ""),
    ({"train-a.tsv": TABLE, "train-b.tsv": TABLE}, r"train-a.tsv, train-b.tsv", ""),
    (GOOD_TABLE, r"--max-length: .*24", "--max-length 25"),
    (GOOD_TABLE, r"--task: .*'sst3'.*'sst2'", "--task sst3"),
    ({"train.tsv": "text\tscore\nx\tmuch\n"}, r"train.tsv:2: .*'much'", "--task regression"),
    ({"train.tsv": "text\tscore\nx\t1\ny\t1\n"}, r"train.tsv: ", "--task regression"),
    (GOOD_TABLE, r"--text-column: ", "--task pair --text-column sentence"),
    (GOOD_TABLE, r"--epochs: .*-1", "--epochs -1"),
    (GOOD_TABLE, r"--seed: ", "--seed -1"),
    (GOOD_TABLE, r"--threads: .*1024", "--threads 1000000"),
    (GOOD_TABLE, r"--epohcs", "--epohcs 3"),
    (GOOD_TABLE, r"--class-weights: regression", "--class-weights balanced --task regression"),
    ({"train.jsonl": NUMBERED}, r"train.jsonl:1: ", "--task ner"),
    ({"train.json": '{"data": [1]}'}, r"train.json:1: ", "--task qa"),
    ({"train.conll": "Ann\tQ-PER\ncame\tO\n"}, r"train.conll:1: .*'Q-PER'", "--task chunking"),
    (QUESTIONS, r"test.jsonl:1: .*no answer", "--task qa"),
    (GOOD_TABLE, r"nowhere.tsv: no such file", "--extra-eval nowhere.tsv"),
    (GOOD_TABLE, r"other/train.tsv: .*'train'", "--extra-eval other/train.tsv"),
    (GOOD_TABLE, r"nowhere.tsv: no such file", "--dev nowhere.tsv"),
]


@pytest.fixture
def refused(electra_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., None]:
    def check(options: list[str], message: str, model: Path = electra_folder) -> None:
        code = main(["finetune", str(model), "--out", str(tmp_path / "out"), *options])
        output = capsys.readouterr()
        assert code == 2 and output.out == ""
        assert re.fullmatch(rf"error: .*{message}.*\n", output.err), output.err
        assert not (tmp_path / "out").exists()

    return check


@pytest.mark.parametrize(("files", "message", "options"), CASES)
def test_bad_data(
    files: dict[str, str], message: str, options: str, refused: Callable[..., None], tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    for name, content in files.items():
        (tmp_path / "data" / name).write_text(content)
    task = "" if "--task" in options else " --task classification"
    refused(["--data", str(tmp_path / "data"), *(options + task).split()], message)


def test_missing_folders_and_other_models(refused: Callable[..., None], sst2_folder: Path, tmp_path: Path) -> None:
    refused(["--task", "sst2", "--data", str(tmp_path / "gone")], r"gone: no such file or folder")
    options = ["--task", "sst2", "--data", str(sst2_folder)]
    refused(options, r"no-model: no such folder", model=tmp_path / "no-model")
    (tmp_path / "gpt2").mkdir()
    (tmp_path / "gpt2" / "config.json").write_text('{"model_type": "gpt2", "vocab_size": 9}')
    refused(options, r"gpt2", model=tmp_path / "gpt2")


def test_predict_needs_a_finished_classifier(
    electra_folder: Path, sst2_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(electra_folder), str(sst2_folder / "dev.tsv")]) == 2
    assert "fine-tuned classifier" in capsys.readouterr().err


def test_truncated_texts_are_reported(classified: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "long.csv").write_text("sentence,label\n" + "fine " * 40 + ",1\na dull film,0\n")
    words = ["predict", str(classified), str(tmp_path / "long.csv"), "--out", str(tmp_path / "p.tsv")]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert re.match(r"2 predictions in .*p.tsv: (positive|negative) \d+", out)
    assert f"1 text was truncated to {toy_task.POSITIONS} tokens" in err


ROWS = [{"text": f"{word} film", "label": label} for label, words in (("no", BAD), ("yes", GOOD)) for word in words]
TWO_LEVELS = pd.DataFrame(ROWS)
TWO_LEVELS.columns = pd.MultiIndex.from_tuples([("a", "text"), ("a", "label")])


def rows(**last: Any) -> list[dict[str, Any]]:
    return [*ROWS, {"text": "a film", "label": "yes", **last}]


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ({"data": rows(text=b"a film")}, "train: row 7"),
        ({"data": pd.DataFrame(rows(label=b"yes"))}, "train: row 7"),
        ({"data": rows(text=["a", b"film"])}, "train: row 7"),
        ({"data": rows(text="a \ud800")}, "train: row 7"),
        ({"data": rows(label="\udfff")}, "train: row 7"),
        ({"data": rows(text="a\0")}, "train: row 7"),
        ({"data": {"train": ROWS, "dev": rows(label="\0")}}, "dev: row 7"),
        ({"data": {"train": ROWS, "dev": None}}, "dev"),
        ({"data": None}, "train"),
        ({"data": 3}, "train"),
        ({"data": []}, "data"),
        ({"data": ["a film"]}, "train: row 1"),
        ({"data": TWO_LEVELS}, "train: row 1"),
        ({"data": rows(text=3)}, "train: row 7"),
        ({"data": rows(label=None)}, "train: row 7"),
        ({"data": [{"text": "a", "label": "yes"}] * 9}, "train"),
        ({"model": None}, "model"),
        ({"model": "no/such/model"}, "no/such/model"),
        ({"out": None}, "out"),
        ({"epochs": -1}, "epochs"),
        ({"task": "clasification"}, "task"),
        ({"max_length": 1000}, "max_length"),
    ],
)
def test_bad_rows_leave_nothing(wrong: dict[str, Any], place: str, electra_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    good = {"model": electra_folder, "task": "classification", "data": ROWS, "out": out, "device": "cpu"}
    with pytest.raises(electra.ElectraError) as caught:
        electra.finetune(**{**good, **wrong})
    assert str(caught.value).startswith(f"{place}: ")
    assert not out.exists()


@pytest.mark.usefixtures("no_figures")
def test_the_same_rows_resume_and_others_are_refused(
    electra_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    plain: dict[str, Any] = {"task": "classification", "out": tmp_path / "out", "device": "cpu"}
    plain["epochs"] = 0.1
    with pytest.raises(electra.ElectraError):
        electra.finetune(electra_folder, data=rows(label=""), **plain)
    assert not list((tmp_path / "out").iterdir())
    first = electra.finetune(electra_folder, data=rows(), **plain).results
    assert electra.finetune(electra_folder, data=pd.DataFrame(rows()), **plain).results == first
    monkeypatch.setattr("electra.commands.finetune.load_data_set", lambda name, error: {"train": rows()})
    assert electra.finetune(electra_folder, data="hub:owner/name", **plain).results == first
    words = ["--task", "classification", "--data", "hub:owner/name", "--device", "cpu", "--epochs", "0.1"]
    assert main(["finetune", str(electra_folder), *words, "--out", str(tmp_path / "out")]) == 0
    with pytest.raises(RunFolderError):
        electra.finetune(electra_folder, data=ROWS, **plain)
