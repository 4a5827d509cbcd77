"""Suites: fine-tuning tasks and averages over tasks, from a TOML file (docs/evaluation.md describes them).

A file `suites/NAME.toml` is available as `--suite NAME`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from electra.data.corpus.folders import walk_folders
from electra.data.tables.table_files import data_digest
from electra.finetuning.labelled.splits import find_named as find_files
from electra.finetuning.labelled.splits import find_split
from electra.finetuning.task import Task
from electra.foundation.config import build, find_named, read_toml
from electra.foundation.errors import ConfigError, nearest
from electra.foundation.extensions import fold_name, resolve_beside

SUITES = Path(__file__).parent / "suites"
MAX_DEPTH = 4  # levels of folders searched below --data


@dataclass(frozen=True)
class TaskEntry:
    """A fine-tuning task of a suite: a [[task]] section."""

    name: str
    task: str = ""
    """The fine-tuning task (default: `name`)."""
    title: str = ""
    """Title in the table (default: `name`)."""
    folders: tuple[str, ...] = ()
    """Names of the data folder, the preferred one first; "ner/wnut17" is two levels (default: `name`)."""
    train: tuple[str, ...] = ()
    """File patterns, the preferred one first (default: the usual names)."""
    dev: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    """The metrics in the table (default: the task's primary metric)."""
    split: Literal["eval", "test"] = "eval"
    """The files to score on: dev, or test files with labels."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of `electra finetune` that differ from its defaults."""
    note: str = ""
    """A remark for readers of the table."""


@dataclass(frozen=True)
class Average:
    """An average over tasks of a suite: an [[average]] section."""

    title: str
    tasks: tuple[str, ...]
    about: str = ""


@dataclass(frozen=True)
class Suite:
    """A suite as its file describes it."""

    title: str
    about: str = ""
    task: tuple[TaskEntry, ...] = ()
    average: tuple[Average, ...] = ()


def load_suite(name: str) -> Suite:
    """Returns the built-in suite of this name, or the suite in a TOML file."""
    return read_suite(find_named(SUITES, name, "suite", key="suite"))


def read_suite(path: Path) -> Suite:
    """Reads and checks a suite's file. Raises ConfigError, naming the file and the key."""
    suite = build(Suite, read_toml(path), where=path.name)
    tasks = tuple(_complete(entry, path) for entry in suite.task)
    names = [entry.name for entry in tasks]
    if not tasks:
        raise ConfigError("a suite needs a task", where=path, fix="Add a [[task]] section")
    if repeated := [name for name in names if names.count(name) > 1]:
        raise ConfigError(f"two tasks are named {repeated[0]!r}", where=path, fix="Give each its own name")
    for average in suite.average:
        for name in average.tasks:
            if name not in names:
                problem = f"the average {average.title!r} includes {name!r}, which is not among the tasks"
                raise ConfigError(problem, where=path, fix=nearest(name, names))
    return replace(suite, task=tasks)


def _complete(entry: TaskEntry, path: Path) -> TaskEntry:
    if not entry.name or entry.name != Path(entry.name).name or entry.name.startswith("."):
        problem = f"{entry.name!r} cannot be the name of a folder"
        raise ConfigError(problem, where=path, fix="Use letters, digits and hyphens")
    for pattern in (*entry.train, *entry.dev, *entry.test):
        if pattern.startswith("/") or ".." in pattern.split("/"):
            problem = f"the pattern {pattern!r} leads outside the task's folder"
            raise ConfigError(problem, where=path, fix="Name files inside it")
    folders, task = entry.folders or (entry.name,), resolve_beside(entry.task or entry.name, path)
    return replace(entry, task=task, title=entry.title or entry.name, folders=folders)


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
    also = tuple(find_files(folder, task.also, task.formats))
    if train is not None:
        return TaskFiles(train, dev, test, also)
    return None if dev is None else TaskFiles(dev, None, test, also, trained_on_dev=True)
