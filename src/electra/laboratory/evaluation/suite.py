"""Suites: fine-tuning tasks, probes and averages over tasks, from a TOML file (built in or your own).

    title = "GLUE"

    [[task]]
    name = "sst2"                      # in the table; the fine-tuning task is `task` (default: the same)
    folders = ["sst-2", "SST-2"]       # its data folder anywhere below --data; case, - and _ do not matter
    full = [67349, 872]                # numbers of training and evaluation examples behind published scores
    settings = { epochs = 3 }          # of `electra finetune`

    [[probe]]
    name = "minimal_pairs"

    [[average]]
    title = "GLUE average"
    tasks = ["cola", "sst2"]

A file `suites/NAME.toml` is available as `--suite NAME`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from electra.foundation.config import build, find_named, read_toml, toml_names
from electra.foundation.errors import ConfigError, nearest
from electra.foundation.extensions import PROBES, resolve_beside

SUITES = Path(__file__).parent / "suites"
ALL = "all"


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
    group: str = ""
    """Heading in a table of several suites (default: the suite's title)."""


@dataclass(frozen=True)
class ProbeEntry:
    """A probe of a suite: a [[probe]] section."""

    name: str
    """Name of a built-in probe, or the path of your own probe's file, whose stem becomes the name."""
    path: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    full: dict[str, int] = field(default_factory=dict)
    """Benchmark (the name of its folder) -> number of files behind published numbers."""
    group: str = ""


@dataclass(frozen=True)
class Average:
    """An average over tasks of a suite: an [[average]] section."""

    title: str
    tasks: tuple[str, ...]
    about: str = ""
    published: str = ""
    """The key of this average in `published.toml`, if it is published."""
    group: str = ""


@dataclass(frozen=True)
class Suite:
    """A suite as its file describes it."""

    title: str
    about: str = ""
    task: tuple[TaskEntry, ...] = ()
    probe: tuple[ProbeEntry, ...] = ()
    average: tuple[Average, ...] = ()


def load_suite(name: str) -> Suite:
    """Returns the built-in suite of this name, all of them as one ("all"), or the suite in a TOML file.

    Raises:
        ConfigError: There is no such suite, or its file is invalid.
    """
    if name == ALL:
        suites = [load_suite(stem) for stem in toml_names(SUITES)]
        return _union(sorted(suites, key=lambda suite: not suite.average))  # those with averages (GLUE) first
    return read_suite(find_named(SUITES, name, "suite", key="suite", also=[ALL]))


def read_suite(path: Path) -> Suite:
    """Reads and checks a suite's file.

    Raises:
        ConfigError: The file is invalid; the message names the file and the key.
    """
    suite = build(Suite, read_toml(path), where=path.name)
    probes = tuple(
        replace(entry, name=PROBES.canonical_name(entry.name), path=resolve_beside(entry.name, path))
        for entry in suite.probe
    )
    suite = replace(suite, probe=probes)
    entries = tuple(_complete(entry, path) for entry in suite.task)
    names = [entry.name for entry in entries]
    for kind, entry_names in (("tasks", names), ("probes", [entry.name for entry in suite.probe])):
        for name, count in Counter(entry_names).items():
            if count > 1:
                fix = "Give each its own name"
                raise ConfigError(f"{count} {kind} are named {name!r}", where=path, fix=fix)
    for pattern in (p for entry in entries for p in (*entry.train, *entry.dev, *entry.test)):
        if pattern.startswith("/") or ".." in pattern.split("/"):
            problem = f"the pattern {pattern!r} leads outside the task's folder"
            raise ConfigError(problem, where=path, fix="Name files inside it")
    if not entries and not suite.probe:
        raise ConfigError("a suite needs a task or a probe", where=path, fix="Add a [[task]] section")
    for average in suite.average:
        for name in average.tasks:
            if name not in names:
                problem = f"the average {average.title!r} includes {name!r}, which is not among the tasks"
                raise ConfigError(problem, where=path, fix=nearest(name, names))
    return replace(suite, task=entries)


def _complete(entry: TaskEntry, path: Path) -> TaskEntry:
    """Returns the entry with its defaults filled in, checked as far as possible without data."""
    if len(entry.full) not in (0, 2):
        problem = "expected two numbers: training and evaluation examples"
        raise ConfigError(problem, where=f"{path}: {entry.name}.full")
    if not entry.name or entry.name != Path(entry.name).name or entry.name.startswith("."):
        problem = f"{entry.name!r} cannot be the name of a folder"
        raise ConfigError(problem, where=path, fix="Use letters, digits and hyphens")
    folders = entry.folders or (entry.name,)
    task = resolve_beside(entry.task or entry.name, path)
    return replace(entry, task=task, title=entry.title or entry.name, folders=folders)


def _union(suites: list[Suite]) -> Suite:
    """Returns one suite with all averages, and with each task and probe once, grouped by suite."""
    entries: dict[str, list[Any]] = {kind: [] for kind in ("task", "probe", "average")}
    for suite in suites:
        for kind, earlier in entries.items():
            names = {getattr(entry, "name", None) for entry in earlier} - {None}
            entries[kind] += [
                replace(entry, group=entry.group or suite.title)
                for entry in getattr(suite, kind)
                if getattr(entry, "name", None) not in names
            ]
    about = f"All suites together: {', '.join(suite.title for suite in suites)}."
    return Suite("All tasks", about, **{kind: tuple(members) for kind, members in entries.items()})
