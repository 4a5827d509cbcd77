"""Task files: GLUE as distributed, answers as written, options."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from electra.commands.finetune import Finetune
from electra.commands.framework.parser import parse
from electra.finetuning.labelled.splits import find_split
from electra.finetuning.tasks import load_task
from electra.foundation.errors import ConfigError
from electra.foundation.extensions import TASKS


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_malformed_rows_are_left_out_if_the_task_allows_it(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.tsv", "id\tquestion1\tquestion2\tis_duplicate\n1\ta\tb\t0\n2\tbroken\n3\tc\td\t1\n"
    )
    split = load_task("qqp").read(path)
    assert (len(split.examples), split.num_dropped) == (2, 1)


@pytest.mark.parametrize("task", ["pair", "regression"])
@pytest.mark.parametrize("names", ["sentence1,sentence2", "text_a,text_b", "text1,text2"])
def test_a_pair_is_found_by_usual_names(tmp_path: Path, task: str, names: str) -> None:
    [example] = load_task(task).read(write(tmp_path / "a.csv", f"{names},label\nhere,there,1\n")).examples
    assert example.texts == ("here", "there")


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
        assert task.read(data / "dev.tsv.gz").examples[0].texts == (
            "The sailors rode the breeze clear of the rocks.",
        )


def test_every_task_file_keeps_the_contract() -> None:
    for name in TASKS.names():
        task = load_task(name)
        assert task.name.replace("-", "") == name and task.version >= 1 and task.source and task.metrics
    assert load_task("SST-2") is load_task("sst_2") is load_task("sst2")
    with pytest.raises(ConfigError):
        load_task("colla")


def test_answers_as_written(tmp_path: Path) -> None:
    mnli = load_task("mnli")
    lines = [{"premise": "x", "hypothesis": "y", "label": label} for label in (2, "neutral")]
    path = write(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in lines))
    assert [mnli.gold_class(e) for e in mnli.read(path).examples] == [2, 1]  # type: ignore[attr-defined]
    hub_test = write(tmp_path / "test.jsonl", '{"premise": "x", "hypothesis": "y", "label": -1}\n')
    assert mnli.read(hub_test, labelled=False).examples[0].gold is None
    own = write(tmp_path / "own.csv", "text,label\ncold,-1\nwarm,1\nmild,0\n")
    examples = load_task("classification").read(own).examples
    assert load_task("classification").fit(examples).label_names == ("-1", "0", "1")
    odd = write(tmp_path / "odd.csv", "text,label\na,minus\nb,10\nc,9\nd,inf\n")
    fitted = load_task("classification").fit(load_task("classification").read(odd).examples)
    assert fitted.label_names == (
        "9",
        "10",
        "inf",
        "minus",
    )  # what is no finite number is a word
    rte = write(
        tmp_path / "rte.jsonl", '{"premise": "x", "hypothesis": "y", "label": "entailment", "idx": 0}\n'
    )
    assert load_task("rte").read(rte).examples[0].texts == ("x", "y")
    words = write(
        tmp_path / "words.jsonl",
        '{"words": ["play", "it"], "intent": "Play"}\n{"words": ["a \\ud800"], "intent": "b"}\n',
    )
    intents = (
        replace(load_task("classification"), texts=(("words",),), label=("intent",)).read(words).examples
    )
    assert [e.texts for e in intents] == [("play it",), ("a ?",)]


def test_an_option_with_several_values_is_repeated_and_takes_no_other_word() -> None:
    needed = ["--task", "pair", "--data", "d", "--out", "o"]
    parsed, _ = parse(Finetune, ["--text-column", "a", "MODEL", "--text-column", "b", *needed])
    assert (parsed.model, parsed.text_column) == ("MODEL", ("a", "b"))
    assert parse(Finetune, ["MODEL", *needed])[0].text_column == ()
