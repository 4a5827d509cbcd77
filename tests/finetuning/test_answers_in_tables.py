"""Answers in tables: one label, several labels, missing values, numbers."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow
import pytest
from contracts import toy_task
from pandas._libs.parsers import STR_NA_VALUES

from electra.commands.finetune import tables
from electra.data.tables.passages import each_text, is_table, read_passages, records
from electra.finetuning.answers import parse_labels
from electra.finetuning.labelled.questions import read_questions
from electra.finetuning.score.records import format_records
from electra.finetuning.train.dataset import Dataset, choose_task, read_dataset
from electra.foundation.errors import DataError

LISTS = [str(items(["joy", "new film"])) for items in (list, tuple, np.array, set)]
REFUSED_LABELS = [
    *("['a', 'b'", '[["a"], ["b"]]', "[a], [b]", "{joy,film}", "<joy><film>", "['a' ... 'b']"),
    *({"a": 0.3}, [["a"]], 3.5, [0.7, 0.3], "[0.7, 0.3]", "[" * 9999, "[" + "1" * 9999 + "x]"),
]


@pytest.mark.parametrize("cell", REFUSED_LABELS)
def test_other_cells_are_refused(cell: Any) -> None:
    with pytest.raises(DataError) as caught:
        parse_labels(cell, "f:1")
    assert caught.value.where == "f:1"


def dataset(tmp_path: Path, rows: list[dict[str, Any]], dev: list[dict[str, Any]], **options: Any) -> Dataset:
    for name, content in {"train": rows, "dev": dev}.items():
        lines = "".join(json.dumps(row) + "\n" for row in content)
        (tmp_path / f"{name}.jsonl").write_text(lines)
    task = options.pop("task", "classification")
    files = {"data": tmp_path / "train.jsonl", "dev": tmp_path / "dev.jsonl"}
    settings = replace(toy_task.settings(tmp_path / "out", tmp_path, task, **options), **files)
    return read_dataset(settings, choose_task(settings))


def labelled(answers: list[Any], begin: int = 0) -> list[dict[str, Any]]:
    return [{"text": f"a film of number {begin + i}", "label": answer} for i, answer in enumerate(answers)]


def test_several_columns_of_zeros_and_ones(tmp_path: Path) -> None:
    rows = [{"text": f"a film {i}", "joy": i % 2, "anger": 1 - i % 2, "kind": 0} for i in range(20)]
    result = dataset(tmp_path, rows, rows[:4], multi_label=True, label_column=("joy", "anger"))
    assert result.task.label_names == ("anger", "joy")
    assert [e.gold for e in result.splits["dev"]] == [("anger",), ("joy",)] * 2
    assert [note for note in result.notes if "not read" in note] == ["train: not read: column kind"]


@pytest.mark.parametrize(
    ("train", "dev"),
    [
        ([0.0, 1.0], ["0", "1"]),
        ([0, 1.0], [0.0, "1"]),
        ([False, True], ["FALSE", "true"]),
        (["-1", "+1"], [-1, 1]),
        (["caf\u00e9", "the"], ["cafe\u0301", "the"]),
    ],
)
def test_spellings_of_a_number_are_one_label(train: list[Any], dev: list[Any], tmp_path: Path) -> None:
    result = dataset(tmp_path, labelled(train * 10), labelled(dev * 3, 20))
    assert result.task.num_outputs == 2
    assert [int(result.task.target(e)) for e in result.splits["dev"]] == [0, 1] * 3


SIGNS, ISO, FEELINGS = ["+", "-"] * 9, ["US", "NA", "DE", "FR"] * 5, ["Joy", "None", "Anger"] * 7
# The cells of a column, the answers that they are (None: the row has no answer), and options.
SETS = [names for size in (1, 2, 3) for names in combinations("abcd", size)]
SEVERAL, SKIPPED = {"multi_label": True}, {"task": "regression", "skip_unlabelled": True}
COLUMNS: dict[str, tuple[list[Any], list[Any], dict[str, Any]]] = {
    "codes of sections": (["1.1", "1.10", "2.0", "2"] * 9, ["1.1", "1.10", "2.0", "2"] * 9, {}),
    "codes": (["007", "7", "1.2.3"] * 9, ["007", "7", "1.2.3"] * 9, {}),
    "floats of pandas": (["1.0", "2", "2.0"] * 9, ["1.0", "2", "2"] * 9, {}),
    "signs": (SIGNS, SIGNS, {}),
    "a dash that SNLI writes": (["yes", "no"] * 9 + ["-"], ["yes", "no"] * 9 + [None], {}),
    "marks of punctuation": ([".", "?", "!"] * 9, [".", "?", "!"] * 9, {}),
    "countries": (ISO, ISO, {}),
    "languages": (["eng", "deu", "nan", "fra"] * 9, ["eng", "deu", "nan", "fra"] * 9, {}),
    "a class None": (FEELINGS, FEELINGS, {}),
    "the None of Python": (["joy", "None", "fun"] * 7, ["joy", None, "fun"] * 7, {}),
    "None, if rows may lack an answer": (FEELINGS, ["Joy", None, "Anger"] * 7, {"skip_unlabelled": True}),
    "-1 of the hub": ([0, 1, 2, -1] * 9, ["0", "1", "2", None] * 9, {}),
    "-100 of torch": ([0, 1, -100] * 9, ["0", "1", None] * 9, {}),
    "-1 or neutral": ([0, 1, -1] * 9, ["0", "1", "-1"] * 9, {}),
    "-1 of two": ([1, -1] * 9, ["1", "-1"] * 9, {"skip_unlabelled": True}),
    "-1 below stars": ([3.5, 4, -1] * 9, ["3.5", "4", None] * 9, SKIPPED),
    "-1 among numbers": ([-3, 4, -1] * 9, ["-3", "4", "-1"] * 9, SKIPPED),
    "a line break": (["a\nb", "c"] * 9, ["a b", "c"] * 9, {}),
    "a line break, and without": (["a\tb", "a b", "c"] * 9, ["a b", "a b", "c"] * 9, {}),
    "bars": (["H, S|A", "F|H, S", "F"] * 9, [("A", "H, S"), ("F", "H, S"), ("F",)] * 9, SEVERAL),
    "semicolons": (["H, S; A", "F"] * 9, [("A", "H, S"), ("F",)] * 9, SEVERAL),
    "a semicolon in a name": (
        [*(", ".join(names) for names in SETS), "b;x"] * 3,
        [*SETS, ("b;x",)] * 3,
        SEVERAL,
    ),
    "commas": (["b, a", "a", ""] * 9, [("a", "b"), ("a",), ()] * 9, SEVERAL),
    "lines": (["b\na, c", "a, c"] * 9, [("a, c", "b"), ("a, c",)] * 9, SEVERAL),
    "numbers": (["16 0", "0", "3"] * 9, [("0", "16"), ("0",), ("3",)] * 9, SEVERAL),
    "hashtags": (["#a #b", "#b"] * 9, [("#a", "#b"), ("#b",)] * 9, SEVERAL),
    "a space in names": (["new film", "joy"] * 9, [("new film",), ("joy",)] * 9, SEVERAL),
    "lists": ([*LISTS, '["c"]', ["d"]] * 5, [*[("joy", "new film")] * 4, ("c",), ("d",)] * 5, SEVERAL),
    **{
        f"vectors, as {type(flags[0]).__name__} in {form.__name__}": (
            [form(flags), form([*map(type(flags[0]), (0, 1, 0))])] * 9,
            [("0", "2"), ("1",)] * 9,
            SEVERAL,
        )
        for flags in ([1, 0, 1], [1.0, 0.0, 1.0], [True, False, True])
        for form in (list, json.dumps)
    },
    "a label with a bar": (['["a|b"]', "a|b"] * 5, [("a|b",), ("a", "b")] * 5, SEVERAL),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_columns_of_answers(case: str, tmp_path: Path) -> None:
    cells, expected, options = COLUMNS[case]
    if None in expected and "skip_unlabelled" not in options:
        with pytest.raises(DataError):
            dataset(tmp_path, labelled(cells), labelled(cells, 99), **options)
    options = {"skip_unlabelled": True} | options if None in expected else options
    result = dataset(tmp_path, labelled(cells), labelled(cells, 99), **options)
    for examples in result.splits.values():
        assert [example.gold for example in examples] == [gold for gold in expected if gold is not None]


def test_other_files_are_read_like_the_training_file(tmp_path: Path) -> None:
    with pytest.raises(DataError):  # vectors of several lengths
        dataset(tmp_path, labelled([[1, 0], [0, 1], [1, 0, 1]] * 5), labelled([[1, 0]]), multi_label=True)
    bars = dataset(tmp_path, labelled(["H, S|F", "F"] * 9), labelled(["H, S"], 50), multi_label=True)
    assert bars.splits["dev"][0].gold == ("H, S",)
    assert dataset(tmp_path, labelled(FEELINGS), labelled(["None"], 50)).splits["dev"][0].gold == "None"
    with pytest.raises(DataError):
        dataset(tmp_path, labelled(["0", "1"] * 9), labelled(["1", "-1"], 50))


def test_what_is_merged_or_looks_alike_is_named(tmp_path: Path) -> None:
    for cells, said in (
        (["1.0", "1", "2"], "1 and 1.0"),
        (["a\nb", "c"], "a b"),
        (["A", "a"], "A, a"),
        (FEELINGS, "'None'"),
        (SIGNS, "'-'"),
    ):
        notes = dataset(tmp_path, labelled(cells * 5), labelled(cells, 300)).notes
        assert any(said in note for note in notes), cells


# What pandas reads as missing, and what databases, spreadsheets and people write.
MARKS = [*sorted(STR_NA_VALUES), *("-", "\u2013", "NaT", "\\N", "(null)", "#VALUE!", "#DIV/0!", None)]


@pytest.mark.parametrize("mark", [*MARKS, float("nan")])
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_marks_of_missing_answers(mark: Any, task: str, tmp_path: Path) -> None:
    rows = labelled([*([1, 2] * 20), mark, mark])
    with pytest.raises(DataError) as caught:
        dataset(tmp_path, rows, rows[:4], task=task)
    assert "2 of 42 rows" in str(caught.value)
    result = dataset(tmp_path, rows, rows[:4], task=task, skip_unlabelled=True)
    assert len(result.splits["train"]) == 40
    assert any("2 rows without an answer" in note for note in result.notes)


@pytest.mark.parametrize("number", ["0,5", "1,500", "inf", "much"])
def test_what_is_no_number_is_refused(number: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        dataset(tmp_path, labelled([number, "2"] * 5), labelled(["1"], 20), task="regression")
    assert "train.jsonl:1" in caught.value.where


def test_too_few_examples_are_named_as_the_cause(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\nthe film,1\nthe book,0\n")
    settings = toy_task.settings(tmp_path / "out", tmp_path / "a.csv", "classification")
    with pytest.raises(DataError) as told:
        read_dataset(settings, choose_task(settings))
    assert "limit_train" not in str(told.value)


def test_a_second_column_of_texts_is_not_dropped(tmp_path: Path) -> None:
    rows = [{**row, "reply": f"an answer to number {i}"} for i, row in enumerate(labelled([1, 2] * 10))]
    for names in ({}, {"text_column": "text"}, {"task": "pair", "text_column": ("text", "reply")}):
        more = [{**row, "negative": "a text", "year": 1999} for row in rows]
        result = dataset(tmp_path, more, [{**row, "new": 1} for row in more[:4]], **names)
        notes = dict(note.split(": not read: ") for note in result.notes if "not read" in note)
        assert "negative" in notes["train"] and "year" in notes["train"] and notes["dev"].endswith(" new")
        assert ("reply" in notes["train"]) == ("task" not in names)
    with pytest.raises(DataError) as caught:
        dataset(tmp_path, rows, rows[:4], task="regression")  # of one text or two
    assert "text, reply" in str(caught.value) and "text_column" in caught.value.fix
    assert dataset(tmp_path, rows, rows[:4], task="regression", text_column=("text", "reply"))


def test_columns_that_the_first_row_lacks_are_kept(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(format_records([{"text": "a"}, {"text": "b", "n": 2}], "csv"))
    assert (tmp_path / "a.csv").read_text() == "text,n\na,\nb,2\n"


NUMBERED = {"text": ["x", "y"], "n": [1, 2]}
FRAMES: list[Callable[[], Any]] = [
    lambda: pandas.DataFrame(NUMBERED),
    lambda: pandas.DataFrame(NUMBERED).astype({"text": "category"}),
    lambda: pyarrow.table(NUMBERED),
    lambda: pyarrow.table(NUMBERED).to_batches()[0],
    lambda: pyarrow.table(NUMBERED).to_reader(),
    lambda: pytest.importorskip("pyarrow.dataset").dataset(pyarrow.table(NUMBERED)),
    lambda: pytest.importorskip("datasets").Dataset.from_dict(NUMBERED),
    lambda: pytest.importorskip("datasets").Dataset.from_dict(NUMBERED).to_iterable_dataset(),
    lambda: pytest.importorskip("polars", reason="not among the tests' packages").DataFrame(NUMBERED),
]


@pytest.mark.parametrize("make", FRAMES)
def test_tables_in_python_give_the_same_rows(make: Callable[[], Any]) -> None:
    assert list(map(dict, records(make()))) == [{"text": "x", "n": 1}, {"text": "y", "n": 2}]
    if is_table(make()):
        assert [each.text for each in read_passages(make())] == ["x", "y"]
        with pytest.raises(DataError):
            next(each_text(make()))


def test_two_columns_of_a_name_are_refused() -> None:
    frame = pandas.DataFrame([["x", 0, 1]], columns=["text", "label", "label"])
    for table in (frame, pyarrow.table([["x"], [0], [1]], names=["text", "label", "label"])):
        with pytest.raises(DataError):
            records(table)


def test_data_sets_in_python_are_as_their_files() -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(text=datasets.Value("string"), label=datasets.ClassLabel(names=["bad", "good"]))
    split = datasets.Dataset.from_dict({"text": ["x", "y"], "label": [0, 1]}, features=features)
    written = tables(datasets.DatasetDict(train=split, validation=split))
    assert set(written) == {"train", "dev"}
    assert [json.loads(line)["label"] for line in written["train"].content.splitlines()] == ["bad", "good"]


@pytest.mark.parametrize("starts", [np.array([4], np.int32), [4]])
def test_answers_that_pandas_printed(starts: Any, tmp_path: Path) -> None:
    """As a data set of the hub is written to csv."""
    texts = np.array(["Ada"], object) if isinstance(starts, np.ndarray) else ["Ada"]
    answers = [{"text": texts, "answer_start": starts}, {"text": [], "answer_start": []}, ["Ada"], "Ada", ""]
    frame = pandas.DataFrame({"question": "who?", "context": "So, Ada", "answers": answers})
    frame.to_csv(tmp_path / "q.csv", index=False)
    result = read_questions(tmp_path / "q.csv", ("question", "context", "answers"), True)
    ada = [("Ada", 4)]
    assert [[(a.text, a.start) for a in e.gold] for e in result] == [ada, [], ada, ada, []]


@pytest.mark.parametrize(
    "shape",
    [
        lambda rows: [{**r, "answers": {"text": ["Ada"], "answer_start": [4.0]}} for r in rows],
        lambda rows: [{**r, "answers": r["list"]} for r in rows],
        lambda rows: {
            "data": [{"paragraphs": [{"context": r["context"], "qas": [{**r, "answers": r["list"]}]}]} for r in rows]
        },
    ],
)
def test_questions_in_other_shapes(shape: Callable[[list[dict[str, Any]]], Any], tmp_path: Path) -> None:
    starts: list[Any] = [4, 4.0]
    rows = [
        {"id": str(i), "question": "who?", "context": "So, Ada", "list": [{"text": "Ada", "answer_start": s}]}
        for i, s in enumerate(starts)
    ]
    (tmp_path / "q.json").write_text(json.dumps(shape(rows)))
    result = read_questions(tmp_path / "q.json", ("question", "context", "answers"), True)
    assert [(e.gold[0].text, e.gold[0].start) for e in result] == [("Ada", 4)] * 2
