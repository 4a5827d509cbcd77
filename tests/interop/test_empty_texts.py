"""A text that is empty or missing gets no answer and no vector; rows stay those of the input."""

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from published import published

import electra
from electra.commands.framework.main import main
from electra.data.corpus.tokenizer import Tokenizer
from electra.finetuning.predict import open_predictor
from electra.foundation.errors import Note

Capture = pytest.CaptureFixture[str]
NAN = float("nan")
FILES = {  # name -> (content, which rows have a text)
    "gaps.csv": ("id,text\n0,\n1,the chef\n2,  \n3,a cat\n", [0, 1, 0, 1]),
    "na.csv": ("id,text\n0,NaN\n1,the chef\n2,NULL\n3,None\n4,N/A\n5,-\n", [0, 1, 0, 0, 0, 1]),
    "invisible.tsv": ("id\ttext\n0\t\u200b\ufeff\n1\tthe chef\n2\t\xad\n", [0, 1, 0]),
    "null.jsonl": ('{"text": null}\n{"text": "the chef"}\n{"text": ""}\n{"text": NaN}\n', [0, 1, 0, 0]),
    "lines.txt": ("the chef\n\n   \nNaN\nnone\n", [1, 0, 0, 1, 1]),
    "none.csv": ("id,text\n0,\n1,\n", [0, 0]),
}


@pytest.fixture(scope="module")
def classifier(uncased: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("classifier")
    published("BERT", folder, uncased, "ForSequenceClassification")
    return str(folder)


@pytest.mark.parametrize("name", FILES)
def test_rows_without_a_text(name: str, classifier: str, tmp_path: Path, capsys: Capture) -> None:
    content, expected = FILES[name]
    (tmp_path / name).write_text(content)
    has_text = np.array(expected, bool)
    options = [classifier, str(tmp_path / name), "--out"]
    for out in ("p.csv", "p.jsonl"):
        assert main(["predict", *options, str(tmp_path / out), "--allow-unknown"]) == 0
    said = f"{len(expected) - sum(expected)} of {len(expected)}"
    assert said in capsys.readouterr().err
    table = list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))
    assert [bool(row["predicted"]) for row in table] == [bool(row["probability"]) for row in table]
    assert [bool(row["predicted"]) for row in table] == has_text.tolist()
    rows = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert [row["predicted"] is not None for row in rows] == has_text.tolist()
    assert all(row["probability"] is None for row in rows if row["predicted"] is None)
    for out in ("v.npy", "v.jsonl"):
        assert main(["embed", *options, str(tmp_path / out), "--allow-unknown"]) == 0
    assert said in capsys.readouterr().err
    vectors = np.load(tmp_path / "v.npy")
    assert (np.isfinite(vectors).all(1) == has_text).all() and (np.isnan(vectors).all(1) != has_text).all()
    rows = [json.loads(line) for line in (tmp_path / "v.jsonl").read_text().splitlines()]
    assert [row["vector"] is not None for row in rows] == has_text.tolist()
    assert main(["detect", "tiny-en", *options[1:], str(tmp_path / "d.csv")]) == 0
    assert said in capsys.readouterr().err
    table = list(csv.DictReader((tmp_path / "d.csv").read_text().splitlines()))
    assert [bool(row["score"]) for row in table] == has_text.tolist()


def test_texts_from_python(classifier: str) -> None:
    texts: list[Any] = ["", "the chef", None, NAN, "\u200b", "NaN"]
    model, predictor = electra.load(classifier), open_predictor(classifier, allow_unknown=True)
    vectors = model.embed(texts)
    assert np.isnan(vectors).all(1).tolist() == [True, False, True, True, True, False]
    np.testing.assert_allclose(vectors[1], model.embed("the chef")[0], atol=1e-5)
    found = [row["predicted"] for [row] in predictor.texts(texts).by_example()]
    assert [each is None for each in found] == [True, False, True, True, True, False]
    assert predictor.texts(["", ""]).counts() == {}
    pairs = [("a cat", ""), ("a cat", "the chef")]
    assert [value is None for value in predictor.texts(pairs).values] == [True, False]


@pytest.mark.parametrize("head", ["ForTokenClassification", "ForQuestionAnswering"])
def test_words_and_questions(head: str, uncased: Tokenizer, tmp_path: Path) -> None:
    published("BERT", tmp_path, uncased, head)
    predictor = open_predictor(str(tmp_path), allow_unknown=True)
    if head == "ForTokenClassification":
        for inputs in (["the chef", "", "a cat"], [["the", "chef"], [], ["a", "cat"]]):
            assert [len(rows) for rows in predictor.texts(inputs).by_example()] == [2, 0, 2]
        assert predictor.texts([""]).by_example() == [[]]
        found = predictor.texts([{"text": "the chef"}, {"text": None}, {"text": "a cat"}])
        assert [row["id"] for row in found.records()] == ["0", "0", "2", "2"]
    else:
        rows = [{"question": question, "context": "the chef ate"} for question in ("chef", "")]
        found = predictor.texts(rows)
        assert [row["predicted"] is None for row in found.records()] == [False, True]


@pytest.mark.parametrize(
    "written",
    [
        '[{"text": "a cat"}, {"text": "the chef"}]',
        '[\n {"text": "a cat"},\n {"text": "the chef"}\n]\n',
        '["a cat", "the chef"]',
        '{"text": "a cat"}\n{"text": "the chef"}\n',
        "text\na cat\nthe chef\n",
        "a cat\nthe chef\n",
    ],
)
def test_standard_input(written: str, classifier: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(written.encode())))
    assert main(["predict", classifier, "-"]) == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    assert [row.split("\t")[0] for row in rows] == ["a cat", "the chef"]


@pytest.mark.parametrize("text", ["caf\u00c3\u00a9", "don\u00e2\u20ac\u2122t", "\u00d0\u00bf\u00d1\u20ac"])
def test_utf8_that_was_read_as_cp1252(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"It is {text} here.\nIt is fine, caf\u00e9, \u00c9\u00bb.\n")
    with pytest.warns(Note, match=r"iconv.*a\.txt"):
        electra.detect("tiny-en", tmp_path / "a.txt", allow_unknown=True)
    (tmp_path / "b.txt").write_text("It was fine, caf\u00e9, \u00c9\u00bb, \u201c5 \u00d7 6\u201d \u2013 \u00a9.\n")
    electra.detect("tiny-en", tmp_path / "b.txt", allow_unknown=True)


def test_ligatures_are_read_as_their_letters() -> None:
    plain, printed = "The office finished the affair.", "The o\ufb03ce \ufb01nished the a\ufb00air."
    expected, found = electra.load("tiny-en").detect([plain, printed])
    assert [word.p_replaced for word in found.words] == pytest.approx([w.p_replaced for w in expected.words])
    words = [word.text for word in found.words]
    assert words == ["The", "oﬃce", "ﬁnished", "the", "aﬀair", "."]
