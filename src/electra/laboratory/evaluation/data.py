"""Finds a task's files below a folder that holds the data of many tasks, however it is laid out.

A task's folder is found by its name (case, hyphens and underscores do not matter), and its files by theirs,
as in `electra finetune`. If a folder has no training file, the dev file is split by a hash of the texts: one
tenth is scored, the rest is used for training, and the table says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from electra.data.folders import walk_folders
from electra.data.table_files import data_digest
from electra.finetuning.labelled.splits import find_named, find_split
from electra.finetuning.tasks.parts.task import Task
from electra.foundation.extensions import fold_name
from electra.laboratory.evaluation.suite import TaskEntry

MAX_DEPTH = 4  # levels of folders searched below --data


@dataclass(frozen=True)
class TaskFiles:
    """The files of a task."""

    train: Path
    dev: Path | None
    test: Path | None
    also: tuple[Path, ...] = ()
    """Further files to predict and score, such as MNLI's mismatched ones."""
    trained_on_dev: bool = False
    """Whether `train` is the dev file, to be split, because there is no training file."""

    @property
    def notes(self) -> list[str]:
        """Remarks on the files for readers of the table."""
        how = f"trained on nine tenths of {self.train.name} and scored on the rest, split by hash"
        return [f"no training file: {how}"] if self.trained_on_dev else []

    def digests(self) -> dict[str, str]:
        """Returns the SHA-256 of each file, by split ("dev", "test", "train 1") or by file name."""
        paths = {"dev": self.dev, "test": self.test, "train 1": self.train}
        paths |= {path.name: path for path in self.also}
        return {split: data_digest(path) for split, path in paths.items() if path is not None}


def find_data(entry: TaskEntry, task: Task, roots: Sequence[Path]) -> TaskFiles | None:
    """Returns the files in the first matching folder with a file to train on; None if there is none."""
    files = (_files(entry, task, folder) for name in entry.folders for folder in _folders(roots, name))
    return next((found for found in files if found is not None), None)


def _folders(roots: Sequence[Path], name: str) -> Iterator[Path]:
    parts = [fold_name(part) for part in name.split("/")]
    for root in roots:
        for folder in walk_folders(root.resolve(), MAX_DEPTH):
            if [fold_name(part) for part in folder.parts[-len(parts) :]] == parts:
                yield folder


def _files(entry: TaskEntry, task: Task, folder: Path) -> TaskFiles | None:
    def split(patterns: Sequence[str], name: str, preferred: Sequence[str] = ()) -> Path | None:
        if not patterns:
            return find_split(folder, name, preferred, task.formats)
        matches = (path for pattern in patterns for path in sorted(folder.glob(pattern)) if path.is_file())
        return next(matches, None)

    train, dev = split(entry.train, "train"), split(entry.dev, "dev", task.dev_files)
    test = split(entry.test, "test", task.test_files)
    also = tuple(find_named(folder, task.also, task.formats))
    if train is not None:
        return TaskFiles(train, dev, test, also)
    return None if dev is None else TaskFiles(dev, None, test, also, trained_on_dev=True)
