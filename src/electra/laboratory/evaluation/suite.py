"""Suites: fine-tuning tasks and averages over tasks, from a TOML file (built in or your own).

    title = "GLUE"

    [[task]]
    name = "sst2"                      # in the table; the fine-tuning task is `task` (default: the same)
    folders = ["sst-2", "SST-2"]       # its data folder anywhere below --data; case, - and _ do not matter
    full = [67349, 872]                # numbers of training and evaluation examples behind published scores
    settings = { epochs = 3 }          # of `electra finetune`

    [[average]]
    title = "GLUE average"
    tasks = ["cola", "sst2"]

A file `suites/NAME.toml` is available as `--suite NAME`. Published numbers (published.toml) are further
columns of the table, with their sources and how they were measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from electra.foundation.config import build, find_named, read_toml
from electra.foundation.errors import ConfigError, nearest
from electra.foundation.extensions import resolve_beside

SUITES = Path(__file__).parent / "suites"
PUBLISHED = Path(__file__).with_name("published.toml")


@dataclass(frozen=True)
class ExtraRow:
    """A separate row for a further file that a task scores, such as MNLI's mismatched genres."""

    name: str
    """The task's key in `published.toml`."""
    files: tuple[str, ...]
    """Possible names of the file, without extension."""
    title: str
    full: int = 0
    """Number of evaluation examples behind published numbers (0: unknown)."""


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
    full: tuple[int, ...] = ()
    """Numbers of training and evaluation examples behind published numbers. Scores on fewer are marked as
    not comparable.
    """
    further: tuple[ExtraRow, ...] = ()
    """Further rows below the task's own."""
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
    published: str = ""
    """The key of this average in `published.toml`, if it is published."""


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
    for name, count in Counter(names).items():
        if count > 1:
            problem = f"{count} tasks are named {name!r}"
            raise ConfigError(problem, where=path, fix="Give each its own name")
    if not tasks:
        raise ConfigError("a suite needs a task", where=path, fix="Add a [[task]] section")
    for average in suite.average:
        for name in average.tasks:
            if name not in names:
                problem = f"the average {average.title!r} includes {name!r}, which is not among the tasks"
                raise ConfigError(problem, where=path, fix=nearest(name, names))
    return replace(suite, task=tasks)


def _complete(entry: TaskEntry, path: Path) -> TaskEntry:
    """Returns the entry with its defaults filled in, checked as far as possible without data."""
    if len(entry.full) not in (0, 2):
        problem = "expected two numbers: training and evaluation examples"
        raise ConfigError(problem, where=f"{path}: {entry.name}.full")
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
class Column:
    """The published scores of one model."""

    title: str
    source: str
    how: str
    """How the scores were measured: split, number of seeds, model size."""
    scores: dict[str, float]
    """Task or average, or "task.metric" -> points, as printed."""
    other_examples: bool = False
    """Whether it was measured on examples other than those of the complete files; shown in parentheses."""

    def score(self, name: str, metric: str, primary: bool) -> float | None:
        """Returns the score of a task as a share; None if it is not published.

        `primary`: whether `metric` is the one that a bare task name stands for.
        """
        points = self.scores.get(f"{name}.{metric}", self.scores.get(name) if primary else None)
        return None if points is None else round(points / 100, 6)


@dataclass(frozen=True)
class Published:
    """The contents of published.toml."""

    column: tuple[Column, ...]


@cache
def published() -> tuple[Column, ...]:
    """Returns all published columns."""
    return build(Published, read_toml(PUBLISHED), where=PUBLISHED.name).column


def columns_for(names: Sequence[str]) -> list[Column]:
    """Returns the columns with a number for any of these tasks or averages."""
    return [column for column in published() if any(key.split(".")[0] in names for key in column.scores)]
