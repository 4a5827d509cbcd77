"""Split files found by name; dev sets and limits chosen by hash."""

from __future__ import annotations

from pathlib import Path

import pytest

from electra.finetuning.labelled.examples import Example
from electra.finetuning.labelled.splits import find_split, limit_by_hash, split_by_hash, text_hash
from electra.foundation.errors import DataError


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
    with pytest.raises(DataError):
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
    with pytest.raises(DataError):
        split_by_hash(examples[:1], lambda example: example.texts, Path("f"))


def test_a_limit_chooses_the_same_examples_in_any_order() -> None:
    examples = [example(f"text {i}") for i in range(100)]
    chosen = limit_by_hash(examples, 10)
    assert set(chosen) == set(limit_by_hash(examples[::-1], 10)) and set(chosen) < set(
        limit_by_hash(examples, 20)
    )
    assert [text_hash(e.texts) for e in chosen] == [text_hash(e.texts) for e in examples if e in chosen]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    return path
