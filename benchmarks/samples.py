"""Draws training samples and test rows of tags, entities and texts from the public data sets of a folder.

The seed draws the sample; at most 1,000 test rows are drawn once. Tags are written as columns, texts as JSON
lines, with the names of columns that electra's tasks know.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

TEST_ROWS = 1000
Row = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """Where a task's rows are, its name in electra, and its encoder."""

    train: str
    test: str  # "" : a part of train
    name: str
    encoder: str
    columns: tuple[str, ...] = ()  # of the texts, then the label


def languages(kind: str, name: str, columns: tuple[str, ...], *codes: str) -> dict[str, Task]:
    """Returns a task of several languages."""
    end = "tsv" if kind == "topics" else "conllu" if kind == "ud" else "conll"
    files = {code: f"language-{code}/{kind}/{{}}.{end}.gz" for code in codes}
    title = {"ud": "pos"}.get(kind, kind)
    return {
        f"{code}-{title}": Task(file.format("train"), file.format("test"), name, code, columns)
        for code, file in files.items()
    }


def english(folder: str, train: str, test: str, name: str, *columns: str) -> Task:
    """Returns a task of English texts."""
    return Task(f"{folder}/{train}.gz", test and f"{folder}/{test}.gz", name, "small-en", columns)


TAGS = languages("ud", "tagging", (), "is", "la") | languages("pos", "tagging", (), "yor", "sna", "swa")
ENTITIES = languages("ner", "ner", (), "yor", "sna", "swa")
TOPICS = languages("topics", "classification", ("headline", "text", "label"), "yor", "sna")
SINGLE = {
    "trec": english("classification/trec", "train.tsv", "test.tsv", "classification", "question", "coarse"),
    "subj": english("classification/subj", "all.tsv", "", "classification", "sentence", "label"),
    "snips": english("intents/snips", "train.jsonl", "test.jsonl", "classification", "tokens", "intent"),
}
GLUE = {
    "sst2": english("glue/sst-2", "train.tsv", "dev.tsv", "sst2", "sentence", "label"),
    "cola": english("glue/cola", "train.tsv", "dev.tsv", "cola", "3", "1"),
    "mrpc": english("glue/mrpc", "train.tsv", "dev.tsv", "mrpc", "#1 String", "#2 String", "Quality"),
    "rte": english("glue/rte", "train.tsv", "dev.tsv", "rte", "sentence1", "sentence2", "label"),
    "mnli": english("glue/mnli", "train-10k.jsonl", "dev-4908.jsonl", "mnli", "premise", "hypothesis", "label"),
}
TASKS = TAGS | ENTITIES | TOPICS | SINGLE | GLUE


def read(path: Path, task: Task) -> list[Row]:
    """Returns the rows of a file: words with tags, or texts with a label."""
    with gzip.open(path, "rt", encoding="utf-8-sig", newline="\n") as file:
        content = file.read()
    if not task.columns:
        of_conllu = ".conllu" in path.name
        blocks = [[line.split("\t") for line in block.splitlines()] for block in content.split("\n\n")]
        kept = [[row for row in rows if len(row) > 1 and (row[0].isdigit() or not of_conllu)] for rows in blocks]
        word, tag = (1, 3) if of_conllu else (0, -1)
        return [{"words": [row[word] for row in rows], "tags": [row[tag] for row in rows]} for rows in kept if rows]
    lines = content.rstrip("\n").split("\n")
    if ".jsonl" in path.name:
        rows = [json.loads(line) for line in lines]
    else:
        cells = [line.split("\t") for line in lines]
        header = [str(place) for place in range(len(cells[0]))] if task.name == "cola" else cells.pop(0)
        rows = [dict(zip(header, row, strict=True)) for row in cells]
    *texts, label = ([row[name] for row in rows] for name in task.columns)
    texts = [[" ".join(text) if isinstance(text, list) else text for text in column] for column in texts]
    if task.name == "classification" and len(texts) == 2:  # a headline is a part of the text
        texts = [[f"{first}. {second}" for first, second in zip(*texts, strict=True)]]
    names = [["sentence"], ["sentence1", "sentence2"]][len(texts) - 1] if task.name in GLUE else ["text"]
    return [dict(zip([*names, "label"], row, strict=True)) for row in zip(*texts, map(str, label), strict=True)]


def write(path: Path, rows: list[Row]) -> None:
    """Writes columns of words and tags, or a JSON object a line."""
    if "words" in rows[0]:
        blocks = ("".join(f"{w}\t{t}\n" for w, t in zip(*row.values(), strict=True)) for row in rows)
        path.write_text("\n".join(blocks), encoding="utf-8")
    else:
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def draw(rows: list[Row], size: int, seed: int) -> list[int]:
    """Returns which rows are drawn, ascending; all if `size` is 0."""
    return sorted(np.random.default_rng(seed).permutation(len(rows))[: size or None])


def prepare(name: str, size: int, seed: int, data: Path, out: Path) -> tuple[Path, Path] | None:
    """Writes a training sample and the test rows; returns their files, or None without enough rows."""
    task = TASKS[name]
    end = "jsonl" if task.columns else "conll"
    files = out / "data" / f"{name}-{size}-{seed}.{end}", out / "data" / f"{name}-test.{end}"
    if all(file.exists() for file in files):
        return files
    train = read(data / task.train, task)
    test = read(data / task.test, task) if task.test else train
    tested = draw(test, TEST_ROWS, seed=1)
    if not task.test:
        train = [row for place, row in enumerate(train) if place not in set(tested)]
    if size > len(train):
        return None
    files[0].parent.mkdir(parents=True, exist_ok=True)
    write(files[1], [test[place] for place in tested])
    write(files[0], [train[place] for place in draw(train, size, seed)])
    return files
