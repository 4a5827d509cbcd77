"""Tables as exported: encodings, empty answers, other columns, labels absent from training, leaked rows."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contracts import toy_task

from electra.commands.framework.main import main
from electra.finetuning.answers import parse_labels
from electra.finetuning.labelled.examples import Example
from electra.finetuning.predict import open_predictor
from electra.finetuning.tasks import load_task
from electra.finetuning.text_answers import MULTI_LABEL_METRICS, MultiLabelClassification
from electra.finetuning.train.all_seeds import finetune
from electra.finetuning.train.dataset import Dataset, choose_task, describe_labels, read_dataset
from electra.foundation.errors import ElectraError


def read(
    folder: Path,
    train: str | bytes,
    task: str = "classification",
    others: dict[str, str] | None = None,
    **options: Any,
) -> Dataset:
    """Read train.csv, and `others` (dev or test) as files beside it."""
    (folder / "train.csv").write_bytes(train if isinstance(train, bytes) else train.encode())
    for name, text in (others or {}).items():
        (folder / f"{name}.csv").write_text(text)
        options[name] = folder / f"{name}.csv"
    settings = toy_task.settings(folder / "out", folder / "train.csv", task, **options)
    return read_dataset(settings, choose_task(settings))


def table(*cells: object, header: str = "text,label") -> str:
    return header + "\n" + "".join(f"text {number},{cell}\n" for number, cell in enumerate(cells))


TWO = table(*[0, 1] * 10)
HOLES = table(*["good", "bad", "", "NaN", "nan"] * 10)
RUSSIAN = TWO.replace("text ", "Добрый день ")
QUOTED = table(*["good", "bad"] * 20).replace("text 5,bad", '"text 5,bad').replace("text 9,", 'text 9",')
LETTERS = "text,label\n" + "".join(
    f'"Dear all,\nfilm {n}, a good one\nBob",{("good", "bad")[n % 2]}\n' for n in range(40)
)
FEW = "text,label\n" + "".join(f"text {n % 7},{('a', 'b')[n % 2]}\n" for n in range(700))
HALVES = "sentence1,sentence2,label\n" + "".join(f"a {n},{'' if n < 3 else 'b'},{n % 2}\n" for n in range(40))

NOTED: list[tuple[dict[str, Any], str]] = [  # how it is read, what a note says
    ({"train": HOLES, "skip_unlabelled": True}, "train: 30 rows without an answer left out"),
    ({"train": QUOTED}, r"train: .*train\.csv:7: .*stray"),
    ({"train": TWO.replace("text 0,", "   ,")}, "train: 1 example with an empty text, kept"),
    ({"train": HALVES, "task": "pair"}, "train: 3 examples with an empty text, kept"),
    ({"train": TWO + "x,rare\n", "others": {"dev": TWO.replace("text ", "film ")}}, "dev: .*: rare 1"),
    ({"train": FEW}, "1 different text: too few for a reliable score"),
    (
        {"train": TWO, "others": {"dev": "text,label\nTEXT\u00a0\uff13,1\na film,0\n"}},
        "dev: 1 of 2 examples also in",
    ),
    ({"train": TWO, "others": {"test": "text,label\nx,0\ny,\n"}}, "test: 1 of 2 examples have no answer"),
    (
        {"train": TWO, "others": {"dev": "text,label\nx,odd\ny,0\n"}},
        r"dev: 1 of 2 examples with a label .*'odd' 1",
    ),
]
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"train": HOLES}, r"train\.csv:4: "),
    ({"train": "text,label\nfilm,\n", "skip_unlabelled": True}, "train.csv"),
    ({"train": RUSSIAN.encode("cp1251")}, r"train\.csv:2: not UTF-8"),
    ({"train": TWO.partition("\n")[2]}, "train.csv"),  # without a header line
    ({"train": TWO, "others": {"dev": "text,label\nx,odd\n"}}, r"dev\.csv:2: .*'odd'"),
    ({"train": TWO, "others": {"dev": "text_a,text_b,label\nx,y,1\n"}, "task": "pair"}, "train.csv"),
]


@pytest.mark.parametrize(("options", "said"), NOTED)
def test_doubtful_data_is_noted(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    assert [note for note in read(tmp_path, **options).notes if re.match(f".*{said}", note)]


@pytest.mark.parametrize(("options", "said"), REFUSED)
def test_unusable_data_is_refused(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ElectraError, match=said):
        read(tmp_path, **options)


@pytest.mark.parametrize("others", [{"train_dev": TWO}, {"train_dev": TWO, "devel": ""}, {"dev": TWO}])
def test_a_dev_file_of_a_folder_has_other_texts_than_train(others: dict[str, str], tmp_path: Path) -> None:
    for name, text in {"train": TWO, "notes": TWO, **others}.items():
        (tmp_path / f"{name}.csv").write_text(text or "text,label\na film,1\nmy town,0\n")
    settings = toy_task.settings(tmp_path / "out", tmp_path, "classification")
    if "dev" in others:
        with pytest.raises(ElectraError, match=r"dev\.csv"):
            read_dataset(settings, choose_task(settings))
        return
    dataset = read_dataset(settings, choose_task(settings))
    assert not {e.texts for e in dataset.splits["dev"]} & {e.texts for e in dataset.splits["train"]}
    assert len(dataset.splits["dev"]) == 2
    assert [note for note in dataset.notes if re.match(r"not read: files notes\.csv, train_dev\.csv", note)]


def test_tables_are_read_as_they_are(tmp_path: Path) -> None:
    encoded = read(tmp_path, RUSSIAN.encode("utf-16"))
    assert encoded.splits["train"][0].texts[0].startswith("Добрый день")
    assert read(tmp_path, HOLES, skip_unlabelled=True).task.label_names == ("bad", "good")
    numbers = HOLES.replace("good", "1.5").replace("bad", "2")
    assert len(read(tmp_path, numbers, "regression", skip_unlabelled=True).splits["train"]) == 18
    bare = read(tmp_path, TWO.partition("\n")[2], columns=("text", "label"), others={"test": "a film\nanother\n"})
    assert [example.texts for example in bare.splits["test"]] == [("a film",), ("another",)]
    assert not [note for note in read(tmp_path, LETTERS).notes if "stray" in note], "a cell may have several lines"
    dataset = read(tmp_path, TWO, others={"dev": "text,label\na film,1\nmy town,0\n"})
    assert list(describe_labels(dataset)) == ["train: 0 10, 1 10", "dev: 0 1, 1 1"]


def test_a_held_out_dev_set_has_every_label_that_ten_examples_have(tmp_path: Path) -> None:
    """Whichever texts have the smallest hashes."""
    for start in range(0, 2000, 100):
        rows = [f"text {start + n},{'rare' if n < 10 else 'usual'}" for n in range(60)]
        splits = read(tmp_path, "\n".join(["text,label", *rows, "single,once"])).splits
        assert {"rare", "usual"} <= {example.gold for example in splits["dev"]}
        assert not {e.texts for e in splits["dev"]} & {e.texts for e in splits["train"]}
        assert len(splits["dev"]) + len(splits["train"]) == 61


def test_labels_absent_from_training_are_scored_as_wrong(tmp_path: Path) -> None:
    """Whatever is predicted where nothing is right, in every kind of task."""
    dataset = read(tmp_path, TWO, others={"dev": "text,label\na film,1\nb,0\nc,never\nd,never\n"})
    examples = dataset.splits["dev"]
    for other in (0, 1):
        targets = map(dataset.task.target, examples)  # type: ignore[attr-defined]
        predictions = [np.eye(2)[other if target < 0 else target] for target in targets]
        assert dataset.task.score(predictions, examples)["accuracy"].value == 0.5
    several: Any = MultiLabelClassification.like(
        load_task("classification"),
        labels=("a", "b"),
        metrics=MULTI_LABEL_METRICS,  # type: ignore[arg-type]
    )
    scores = several.score([np.array([0.9, 0.1])], [Example("0", "f:1", ("x",), ("a", "never"))])
    assert scores["accuracy"].value == 0 and scores["f1_micro"].value == pytest.approx(2 / 3)
    bars = replace(several, labels=("a", "b", "a|b"))
    both, one = (bars.answer(np.array(p)) for p in ([0.9, 0.9, 0.1], [0.1, 0.1, 0.9]))
    assert both != one and [parse_labels(cell, "", "|") for cell in (both, one)] == [["a", "b"], ["a|b"]]
    [header, row] = bars.at_threshold(0.95).table([np.array([0.9, 0.9, 0.1])], dataset.splits["dev"][:1])
    assert row[1] == "" and dict(zip(header, row, strict=True))["probability"] == pytest.approx(0.1 * 0.1 * 0.9)


@pytest.fixture(scope="module")
def tuned(modern_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A model of texts and one of pairs, whose dev file has columns with usual names that train lacks."""
    made = {}
    for kind, columns in (("single", ["text"]), ("pair", ["text_a", "text_b"])):
        data = tmp_path_factory.mktemp(kind)
        rows = [[f"a film {i}", f"my town {i % 5}"][: len(columns)] for i in range(40)]
        train = [[*columns, "score"], *([*row, str(i % 2)] for i, row in enumerate(rows))]
        more = ["sentence1", "sentence2"][: 2 * (kind == "pair")]
        dev = [[*more, *train[0]], *([*["x", "y"][: len(more)], *row] for row in train[1:])]
        for name, lines in (("train", train), ("dev", dev)):
            (data / f"{name}.csv").write_text("".join(",".join(line) + "\n" for line in lines))
        options = {"dev": data / "dev.csv", "epochs": 0.1, "allow_unknown": True}
        finetune(str(modern_folder), toy_task.settings(data / "out", data, "regression", **options))
        made[kind] = str(data / "out")
    return made


@pytest.mark.parametrize("kind", ["single", "pair"])
def test_other_files_are_read_from_the_columns_of_the_training_file(kind: str, tuned: dict[str, str]) -> None:
    data = Path(tuned[kind]).parent
    expected, actual = (
        open_predictor(tuned[kind], allow_unknown=True)(data / f"{name}.csv").values for name in ("train", "dev")
    )
    assert np.array_equal(np.stack(actual), np.stack(expected))
    other = {"single": "pair", "pair": "single"}[kind]
    with pytest.raises(ElectraError, match="no column"):
        open_predictor(tuned[kind])(Path(tuned[other]).parent / "train.csv")
    with pytest.raises(ElectraError, match="must name"):
        open_predictor(tuned[kind]).texts([("a", "b")] if kind == "single" else ["a film"])


def test_a_large_offset_of_numbers_costs_no_precision(modern_folder: Path, tmp_path: Path) -> None:
    """Times in seconds are predicted as the same times from zero are."""
    predicted, start = [], 1_600_000_000
    for offset in (0, start):
        data = tmp_path / str(offset)
        data.mkdir()
        rows = "".join(f"{a} {b},{offset + len(a + b) ** 3}\n" for a in toy_task.GOOD for b in toy_task.OTHER)
        (data / "train.csv").write_text("text,label\n" + rows)
        settings = toy_task.settings(data / "out", data / "train.csv", "regression", epochs=2)
        finetune(str(modern_folder), settings)
        predictions = open_predictor(str(data / "out" / "model"))(data / "train.csv")
        predicted.append(np.concatenate(predictions.values))
        cells = [float(row["predicted"]) for row in predictions.records()]
        assert np.allclose(cells, predicted[-1], rtol=0, atol=0.01)
    np.testing.assert_allclose(predicted[1] - start, predicted[0], atol=0.01)


def test_what_predict_refuses_is_named_by_its_input(
    tmp_path: Path, tuned: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, file = tuned["single"], tmp_path / "new.csv"
    file.write_text("text,predicted,probability\na film,mine,sure\n")

    def refused(*words: str, piped: bytes = b"") -> str:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(piped)))
        assert main(["predict", *words]) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert "/electra-" not in line and "standard-input" not in line
        return line

    assert "--out" in refused(model, str(file), "--out", str(file))
    assert file.read_text() == "text,predicted,probability\na film,mine,sure\n"
    assert "the text" in refused(model, "")
    assert "the text: no column" in refused(tuned["pair"], "a fine film")
    assert "standard input:2: not UTF-8" in refused(model, "-", piped=b"a film\n\xff\xfe\n")
    named = refused(model, "-", "--text-column", "body", piped=b"Review,Sentiment\na film,1\n")
    assert "standard input: no column body" in named
    for content in ("café\n".encode("utf-16"), "\ufeffTEXT,x\ncafé,1\n".encode()):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert main(["predict", model, "-", "--format", "jsonl", "--allow-unknown"]) == 0
        [row] = map(json.loads, capsys.readouterr().out.splitlines())
        assert "café" in row.values()
