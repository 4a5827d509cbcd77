"""Task files: GLUE as distributed, answers as written, options."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from electra.finetuning.labelled.examples import Example
from electra.finetuning.labelled.splits import find_split
from electra.finetuning.tasks import load_task
from electra.foundation.errors import ConfigError, DataError
from electra.foundation.extensions import TASKS


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_malformed_rows_are_left_out_if_the_task_allows_it(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "id\tquestion1\tquestion2\tis_duplicate\n1\ta\tb\t0\n2\tbroken\n3\tc\td\t1\n")
    split = load_task("qqp").read(path)
    assert (len(split.examples), split.num_dropped) == (2, 1)


GLUE = {  # folder -> task, examples in train, dev, test
    "cola": ("cola", 8551, 1043, 1063),
    "sst-2": ("sst-2", 67349, 872, 0),
    "mrpc": ("mrpc", 3668, 408, 1725),
    "sts-b": ("sts-b", 5749, 1500, 1379),
    "qqp": ("qqp", 10000, 20215, 0),
    "mnli": ("mnli", 10000, 4908, 0),
    "rte": ("rte", 2490, 277, 3000),
    "wnli": ("wnli", 635, 71, 0),
    "qnli": ("qnli", 0, 5463, 5463),
}


@pytest.mark.parametrize("folder", GLUE)
def test_glue_as_distributed(folder: str, shared_data) -> None:  # type: ignore[no-untyped-def]
    name, *sizes = GLUE[folder]
    task, data = load_task(name), shared_data(f"glue/{folder}")
    for split, size in zip(("train", "dev", "test"), sizes, strict=True):
        path = find_split(data, split, task.dev_files)
        examples = task.read(path, labelled=split != "test").examples if path else ()
        assert len(examples) == size
        if split == "train" and examples:
            fitted = task.fit(examples)
            assert fitted.label_names == task.label_names
            assert len({e.texts for e in examples}) > 0.9 * size and all(
                len(e.texts) == len(task.texts[0]) for e in examples
            )
    if folder == "cola":
        assert task.read(data / "dev.tsv.gz").examples[0].texts == ("The sailors rode the breeze clear of the rocks.",)


def test_every_task_has_a_name_in_any_spelling() -> None:
    assert {load_task(name).name.replace("-", "") for name in TASKS.names()} == {*TASKS.names()}
    assert load_task("SST-2") is load_task("sst_2") is load_task("sst2")
    with pytest.raises(ConfigError):
        load_task("colla")


PAIR = '{"premise": "x", "hypothesis": "y", "label": %s}\n'
WORDS = '{"text": ["play", "it"], "label": "Play"}\n{"text": ["a \\ud800"], "label": "b"}\n'
LISTS = [str(["it's", "a", "'film'"]), str(np.array(["one", "two"]))]
PRINTED = pandas.DataFrame({"text": LISTS, "label": ["a", "b"]}).to_csv(index=False)
READ = [  # task, name, content, texts, answers
    ("pair", "a.csv", "text1,text2,label\nhere,there,1\n", [("here", "there")], ["1"]),
    ("regression", "a.csv", "text_a,text_b,label\nhere,there,1\n", [("here", "there")], ["1"]),
    ("mnli", "a.jsonl", PAIR % 2 + PAIR % '"neutral"', [("x", "y")] * 2, ["2", "neutral"]),
    ("rte", "a.jsonl", PAIR % '"entailment"', [("x", "y")], ["entailment"]),
    ("classification", "a.jsonl", WORDS, [("play it",), ("a ?",)], ["Play", "b"]),
    ("classification", "a.csv", PRINTED, [("it's a 'film'",), ("one two",)], ["a", "b"]),
    ("classification", "a.csv", "text,label\nb'caf\\xc3\\xa9',a\n", [("caf\u00e9",)], ["a"]),
    ("classification", "a.csv", PRINTED + "no list,c\n", [(row,) for row in [*LISTS, "no list"]], [*"abc"]),
]


@pytest.mark.parametrize("row", READ)
def test_texts_and_answers_as_written(row: tuple[Any, ...], tmp_path: Path) -> None:
    task, name, content, texts, answers = row
    examples = load_task(task).read(write(tmp_path / name, content)).examples
    assert [example.texts for example in examples] == texts
    assert [example.gold for example in examples] == answers


def test_a_list_of_texts_is_no_list_of_words(tmp_path: Path) -> None:
    row = json.dumps({"text": ["how do I cook it", "the way to cook it"], "label": 1})
    with pytest.raises(DataError, match=r"a\.jsonl:1"):
        load_task("classification").read(write(tmp_path / "a.jsonl", row))


def test_labels_are_sorted_as_numbers_and_placeholders_are_no_answers(tmp_path: Path) -> None:
    hub_test = write(tmp_path / "test.jsonl", PAIR % -1)
    mnli: Any = load_task("mnli")
    assert mnli.read(hub_test, labelled=False).examples[0].gold is None
    assert mnli.gold_class(Example("0", "f:1", ("x", "y"), "2")) == 2
    for labels in (("-1", "0", "1"), ("9", "10", "inf", "minus")):  # what is no finite number is a word
        rows = "".join(f"{label},{label}\n" for label in sorted(labels))
        own = load_task("classification").read(write(tmp_path / "own.csv", f"text,label\n{rows}"))
        assert load_task("classification").fit(own.examples).label_names == labels
