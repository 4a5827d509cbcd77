"""Finds a task's files below a folder that holds the data of many tasks, however it is laid out.

A task's folder is found by its name (case, hyphens and underscores do not matter), and its files by theirs,
as in `electra finetune`. If a folder has no training file, the dev file is split by a hash of the texts: one
tenth is scored, the rest is used for training, and the table says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from electra.data.folders import walk_folders
from electra.data.table_files import data_digest
from electra.data.tables import read_bytes
from electra.finetuning.labelled.splits import find_named, find_split
from electra.finetuning.tasks.parts.task import Task
from electra.foundation import durable
from electra.foundation.errors import DataError
from electra.foundation.extensions import fold_name
from electra.laboratory.evaluation.suite import TaskEntry

MAX_DEPTH = 4  # levels of folders searched below --data
JOINED = " + "  # separates the patterns of files that are read as one


@dataclass(frozen=True)
class TaskFiles:
    """The files of a task."""

    train: tuple[Path, ...]
    """Usually one; several are read as one."""
    dev: Path | None
    test: Path | None
    also: tuple[Path, ...] = ()
    """Further files to predict and score, such as MNLI's mismatched ones."""
    notes: tuple[str, ...] = ()
    """Remarks on the files for readers of the table."""
    trained_on_dev: bool = False
    """Whether `train` is the dev file, to be split, because there is no training file."""

    def digests(self) -> dict[str, str]:
        """Returns the SHA-256 of each file, by split ("dev", "test", "train 1", ...) or by file name."""
        paths = {"dev": self.dev, "test": self.test}
        paths |= {f"train {i}": path for i, path in enumerate(self.train, 1)}
        paths |= {path.name: path for path in self.also}
        return {split: data_digest(path) for split, path in paths.items() if path is not None}


def find_data(entry: TaskEntry, task: Task, roots: Sequence[Path]) -> TaskFiles | None:
    """Returns the files in the first matching folder with a file to train on; None if there is none."""
    for name in entry.folders:
        for folder in _folders(roots, name):
            files = _files(entry, task, folder)
            if files is not None:
                return files
    return None


def join_train(files: TaskFiles, path: Path) -> Path:
    """Returns the training file. Several SQuAD files are joined into a new one at `path`.

    Raises:
        DataError: There are several, and one is not a SQuAD file.
    """
    if len(files.train) == 1:
        return files.train[0]
    articles = []
    for part in files.train:
        try:
            articles += json.loads(read_bytes(part))["data"]
        except (ValueError, RecursionError, TypeError, KeyError):
            problem = "not a SQuAD file: only those can be joined"
            raise DataError(problem, where=part, fix="Name one training file") from None
    durable.commit_json(path, {"version": "joined", "data": articles})
    return path


def _folders(roots: Sequence[Path], name: str) -> Iterator[Path]:
    parts = [fold_name(part) for part in name.split("/")]
    for root in roots:
        for folder in walk_folders(root.resolve(), MAX_DEPTH):
            if [fold_name(part) for part in folder.parts[-len(parts) :]] == parts:
                yield folder


def _files(entry: TaskEntry, task: Task, folder: Path) -> TaskFiles | None:
    def split(patterns: Sequence[str], name: str, preferred: Sequence[str] = ()) -> tuple[Path, ...]:
        if patterns:
            return _matching(folder, patterns)
        path = find_split(folder, name, preferred, task.formats)
        return () if path is None else (path,)

    train = split(entry.train, "train")
    dev = split(entry.dev, "dev", task.dev_files)
    test = split(entry.test, "test", task.test_files)
    also = tuple(find_named(folder, task.also, task.formats))
    if train:
        notes = (f"trained on {' and '.join(path.name for path in train)}",) if len(train) > 1 else ()
        return TaskFiles(train, dev[0] if dev else None, test[0] if test else None, also, notes)
    if not dev:
        return None
    note = f"no training file: trained on nine tenths of {dev[0].name} and scored on the rest, split by hash"
    return TaskFiles(dev, None, test[0] if test else None, also, (note,), trained_on_dev=True)


def _matching(folder: Path, patterns: Sequence[str]) -> tuple[Path, ...]:
    """Returns the first file that matches the first matching pattern; empty if no pattern matches.

    A pattern "a + b" matches if every part does, and gives a file for each.
    """
    for pattern in patterns:
        matches = [
            sorted(path for path in folder.glob(part) if path.is_file()) for part in pattern.split(JOINED)
        ]
        if all(matches):
            return tuple(paths[0] for paths in matches)
    return ()
