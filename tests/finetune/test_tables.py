"""Readers, split files, and what is said when a file is not what it should be."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from dataclasses import replace
from pathlib import Path

import pytest

from electra.cli.arguments import parse
from electra.cli.finetune import Arguments
from electra.errors import ConfigError, DataError
from electra.finetuning.tasks import load_task, task_names
from electra.labelled.examples import Example
from electra.labelled.splits import find_split, hash_of, limit_by_hash, split_by_hash
from electra.labelled.tables import format_tsv, open_table


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    return path


def rows(path: Path, **options: object) -> list[dict[str, object]]:
    return [dict(row) for _, row in open_table(path, **options).rows]  # type: ignore[arg-type]


def test_a_tsv_has_literal_quotes_and_a_csv_has_quoted_cells(tmp_path: Path) -> None:
    tsv = write(tmp_path / "a.tsv", 'sentence\tlabel\n"open quote\t1\nboth "x" here\t0\r\n')
    assert rows(tsv) == [
        {"sentence": '"open quote', "label": "1"},
        {"sentence": 'both "x" here', "label": "0"},
    ]
    csv = write(tmp_path / "a.csv", 'text,label\r\n"one, two\nthree ""four""",yes\r\n')
    assert rows(csv) == [{"text": 'one, two\nthree "four"', "label": "yes"}]


def test_only_a_line_feed_ends_a_row(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "sentence\tlabel\none\u2028two\x85three\x1cfour\t1\n")
    assert rows(path) == [{"sentence": "one\u2028two\x85three\x1cfour", "label": "1"}]


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    assert open_table(write(tmp_path / "a.tsv", "\ufeffQuality\tx\n1\t2\n")).columns == ("Quality", "x")


@pytest.mark.parametrize("ending", ["", ".gz", ".bz2", ".xz", ".zst"])
def test_compressions_give_the_same_rows_and_damage_is_told(tmp_path: Path, ending: str) -> None:
    content = "".join(
        json.dumps({"text": f"text number {i} {i * 7919 % 101}", "label": i % 3}) + "\n" for i in range(500)
    ).encode()
    if ending == ".zst":
        zstandard = pytest.importorskip("zstandard")
        packed = zstandard.compress(content[:700]) + zstandard.compress(content[700:])
    else:
        packed = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}[ending](
            content
        )
    path = tmp_path / f"train.jsonl{ending}"
    path.write_bytes(packed)
    assert [row["label"] for row in rows(path)] == [i % 3 for i in range(500)]
    if ending:
        path.write_bytes(packed[: len(packed) // 2])
        with pytest.raises(DataError, match=r"train\.jsonl.*damaged or truncated"):
            rows(path)


def test_a_header_is_recognised_by_the_names_it_must_have(tmp_path: Path) -> None:
    header, wanted = ("source", "label", "mark", "sentence"), (("sentence",),)
    bare = write(tmp_path / "train.tsv", "gj04\t1\t\tOur friends.\ngj04\t0\t*\tWe friends.\n")
    assert [row["sentence"] for row in rows(bare, header=header, wanted=wanted)] == [
        "Our friends.",
        "We friends.",
    ]
    named = write(tmp_path / "test.tsv", "index\tsentence\n0\tBill whistled.\n")
    assert rows(named, header=header, wanted=wanted) == [{"index": "0", "sentence": "Bill whistled."}]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "sentence\tlabel\none\t1\ntwo\n", r"a\.tsv:3: 1 columns instead of 2 \(sentence, label\)"),
        ("a.csv", "text,label\nhello, world,1\n", r"a\.csv:2: 3 columns instead of 2"),
        ("a.csv", 'text,label\n"never closed,1\n', r"a\.csv:2: not valid csv"),
        ("a.jsonl", '{"text": "x"}\n{"text": \n', r"a\.jsonl:2: not valid JSON"),
        ("a.jsonl", '["x"]\n', r"a\.jsonl:1: not a JSON object"),
        ("a.tsv", "", r"a\.tsv: the file is empty"),
        ("a.tsv", "x\tx\n1\t2\n", r"a\.tsv:1: two columns have one name"),
        ("a.txt", "x", r"a\.txt: unrecognised file extension"),
    ],
)
def test_bad_files(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        rows(write(tmp_path / name, content))


def test_bytes_that_are_not_utf8_are_told_by_line(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes("sentence\tlabel\nfür\t1\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"a\.tsv:2: not UTF-8"):
        rows(tmp_path / "a.tsv")


def test_malformed_rows_are_dropped_and_counted_where_the_task_allows_it(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.tsv", "id\tquestion1\tquestion2\tis_duplicate\n1\ta\tb\t0\n2\tbroken\n3\tc\td\t1\n"
    )
    split = load_task("qqp").read(path)
    assert (len(split.examples), split.dropped) == (2, 1)


def test_split_files_are_found_by_name(tmp_path: Path) -> None:
    for name in (
        "train-10k.jsonl.gz",
        "dev_matched.tsv",
        "dev_mismatched.tsv",
        "mine.test.csv",
        "train.txt",
        "notes.md",
    ):
        write(tmp_path / name, "")
    assert find_split(tmp_path, "train") == tmp_path / "train-10k.jsonl.gz"
    assert find_split(tmp_path, "dev", ("dev_matched",)) == tmp_path / "dev_matched.tsv"
    assert find_split(tmp_path, "test") == tmp_path / "mine.test.csv"
    with pytest.raises(DataError, match=r"more than one dev file \(dev_matched.tsv, dev_mismatched.tsv\)"):
        find_split(tmp_path, "dev")
    write(tmp_path / "train.csv", "")
    assert find_split(tmp_path, "train") == tmp_path / "train.csv"
    (tmp_path / "superglue").mkdir()
    assert find_split(tmp_path / "superglue", "dev") is None
    write(tmp_path / "superglue/val.jsonl", "")
    assert find_split(tmp_path / "superglue", "dev") == tmp_path / "superglue/val.jsonl"
    assert find_split(tmp_path / "..", "test") is None


def example(text: str, gold: object = None, where: str = "f:1") -> Example:
    return Example("0", where, (text,), gold)


def test_a_split_keeps_equal_texts_together_and_does_not_depend_on_the_order() -> None:
    examples = [example(f"text {i % 150}", i % 2) for i in range(300)]
    train, dev = split_by_hash(examples, lambda example: example.texts, Path("f"))
    assert not {e.texts for e in train} & {e.texts for e in dev}
    assert 30 <= len(dev) <= 34 and len(train) + len(dev) == 300
    assert {e.texts for e in split_by_hash(examples[::-1], lambda example: example.texts, Path("f"))[1]} == {
        e.texts for e in dev
    }
    with pytest.raises(DataError, match="too few examples"):
        split_by_hash(examples[:1], lambda example: example.texts, Path("f"))


def test_a_limit_takes_the_same_examples_in_any_order() -> None:
    examples = [example(f"text {i}") for i in range(100)]
    chosen = limit_by_hash(examples, 10)
    assert set(chosen) == set(limit_by_hash(examples[::-1], 10)) and set(chosen) < set(
        limit_by_hash(examples, 20)
    )
    assert [hash_of(e.texts) for e in chosen] == [hash_of(e.texts) for e in examples if e in chosen]


def test_predictions_stay_one_row_each() -> None:
    assert format_tsv([("id", "label"), ("a\tb\nc", "x")]) == b"id\tlabel\na b c\tx\n"


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
    for name in task_names():
        task = load_task(name)
        assert task.name.replace("-", "") == name and task.version >= 1 and task.source and task.metrics
    assert load_task("SST-2") is load_task("sst_2") is load_task("sst2")
    with pytest.raises(ConfigError, match=r"no task named 'colla'. Did you mean 'cola'\?"):
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
    odd = write(tmp_path / "odd.csv", "text,label\na,nan\nb,10\nc,9\nd,inf\n")
    fitted = load_task("classification").fit(load_task("classification").read(odd).examples)
    assert fitted.label_names == (
        "9",
        "10",
        "inf",
        "nan",
    )  # "nan" is a word: as a number it has no place in any order
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
    parsed = parse(
        Arguments,
        ["--text-column", "a", "MODEL", "--text-column", "b", "--task", "pair", "--data", "d", "--out", "o"],
        verb="finetune",
        description="",
    )
    assert (parsed.model, parsed.text_column) == ("MODEL", ("a", "b"))
    assert (
        parse(
            Arguments,
            ["MODEL", "--task", "pair", "--data", "d", "--out", "o"],
            verb="finetune",
            description="",
        ).text_column
        == ()
    )
