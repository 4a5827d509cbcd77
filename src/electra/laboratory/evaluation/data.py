"""Where a task's files are, below one folder that holds the data of many tasks, however it is laid out.

A task's folder is known by its name (case, hyphens and underscores do not matter), and in it the files by
theirs, as `electra finetune` finds them. A folder without training file is not useless: then a tenth of its
dev file is judged and the rest trained on, by hash of the texts, and the table says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from electra.data.folders import folders_below
from electra.data.rows import data_digest, read_bytes
from electra.finetuning.labelled.splits import find_named, find_split
from electra.finetuning.tasks.parts.task import Task
from electra.foundation import durable
from electra.foundation.errors import DataError
from electra.foundation.extensions import folded
from electra.laboratory.evaluation.suite import TaskEntry

DEEPEST = 4  # levels below --data
JOINED = " + "  # between the patterns of files that are read as one


@dataclass(frozen=True)
class Found:
    """The files of a task. `train` holds several when they are to be read as one."""

    train: tuple[Path, ...]
    dev: Path | None
    test: Path | None
    also: tuple[Path, ...] = ()  # further files to predict and score, such as MNLI's mismatched ones
    notes: tuple[str, ...] = ()

    def digests(self) -> dict[str, str]:
        named = {"dev": self.dev, "test": self.test} | {
            f"train {number}": path for number, path in enumerate(self.train, 1)
        }
        named |= {path.name: path for path in self.also}
        return {split: data_digest(path) for split, path in named.items() if path is not None}


def find_data(entry: TaskEntry, task: Task, roots: Sequence[Path]) -> Found | None:
    """The first folder with a file to train on. None when there is no data for this task."""
    for name in entry.folders:
        for folder in _folders(roots, name):
            found = _files(entry, task, folder)
            if found is not None:
                return found
    return None


def join_train(found: Found, path: Path) -> Path:
    """The training file; of several SQuAD files, one that holds the articles of all."""
    if len(found.train) == 1:
        return found.train[0]
    articles = []
    for part in found.train:
        try:
            articles += json.loads(read_bytes(part))["data"]
        except (ValueError, RecursionError, TypeError, KeyError):
            raise DataError(
                "not a SQuAD file, and only those can be joined", where=part, fix="Name one training file"
            ) from None
    durable.commit_json(path, {"version": "joined", "data": articles})
    return path


def _folders(roots: Sequence[Path], name: str) -> Iterator[Path]:
    wanted = [folded(part) for part in name.split("/")]
    for root in roots:
        for folder in folders_below(root.resolve(), DEEPEST):
            if [folded(part) for part in folder.parts[-len(wanted) :]] == wanted:
                yield folder


def _files(entry: TaskEntry, task: Task, folder: Path) -> Found | None:
    train = (
        _matching(folder, entry.train)
        if entry.train
        else _one(find_split(folder, "train", formats=task.formats))
    )
    dev = (
        _matching(folder, entry.dev)
        if entry.dev
        else _one(find_split(folder, "dev", task.dev_files, task.formats))
    )
    test = (
        _matching(folder, entry.test)
        if entry.test
        else _one(find_split(folder, "test", task.test_files, task.formats))
    )
    also = tuple(find_named(folder, task.also, task.formats))
    if train:
        joined = (
            (f"trained on {' and '.join(path.name for path in train)} together",) if len(train) > 1 else ()
        )
        return Found(train, dev[0] if dev else None, test[0] if test else None, also, joined)
    if not dev:
        return None
    note = (
        f"no training file here: a tenth of {dev[0].name}, chosen by hash, is scored and the rest trained on"
    )
    return Found(dev, None, test[0] if test else None, also, (note,))


def _matching(folder: Path, patterns: Sequence[str]) -> tuple[Path, ...]:
    """The files of the first pattern that matches; of "a + b", one of each."""
    for pattern in patterns:
        found = [
            sorted(path for path in folder.glob(part) if path.is_file()) for part in pattern.split(JOINED)
        ]
        if all(found):
            return tuple(paths[0] for paths in found)
    return ()


def _one(path: Path | None) -> tuple[Path, ...]:
    return () if path is None else (path,)
