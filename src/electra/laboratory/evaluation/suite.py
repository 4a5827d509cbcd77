"""What a suite holds: fine-tuning tasks, probes, and which tasks make up its averages. A TOML file, ours or
the user's own.

    title = "GLUE"

    [[task]]
    name = "sst2"                      # in the table; the fine-tuning task is `task`, by default the same
    folders = ["sst-2", "SST-2"]       # names of its data's folder anywhere below --data; case, - and _ do
    not matter
    full = [67349, 872]                # training and evaluation examples behind published numbers
    settings = { epochs = 3 }          # of `electra finetune`

    [[probe]]
    name = "minimal_pairs"

    [[average]]
    title = "GLUE average"
    tasks = ["cola", "sst2"]

Dropping a file into `suites/` gives a `--suite` of its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from electra.foundation.config import build, find_named, names_in, read_toml
from electra.foundation.errors import ConfigError, nearest
from electra.foundation.extensions import PROBES, beside

SUITES = Path(__file__).parent / "suites"
ALL = "all"


@dataclass(frozen=True)
class Further:
    """A row of its own for a further file that a task scores, such as MNLI's mismatched genres."""

    name: str
    """In `published.toml`."""
    files: tuple[str, ...]
    """Names the file may have, without endings."""
    title: str
    full: int = 0
    """Examples behind published numbers (0: unknown)."""


@dataclass(frozen=True)
class TaskEntry:
    name: str
    task: str = ""
    """The fine-tuning task (default: `name`)."""
    title: str = ""
    """In the table (default: `name`)."""
    folders: tuple[str, ...] = ()
    """Names of its data folder, the preferred one first; "ner/wnut17" names two levels (default: `name`)."""
    train: tuple[str, ...] = ()
    """File patterns, the preferred one first (default: by the usual names)."""
    dev: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    """What the table shows (default: the task's primary metric)."""
    split: Literal["eval", "test"] = "eval"
    """Where it is scored: on the dev files, or on test files that hold the answers."""
    full: tuple[int, ...] = ()
    """(training, evaluation) examples behind published numbers; measurements on others are marked as not
    comparable.
    """
    further: tuple[Further, ...] = ()
    """Rows below the task's own."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Of `electra finetune`, where they differ from its defaults."""
    note: str = ""
    """What a reader of the table must know."""
    group: str = ""
    """The heading above it in a table of several suites (default: the title of its suite)."""


@dataclass(frozen=True)
class ProbeEntry:
    name: str
    """The probe, or the path of one's own: it goes by the stem."""
    path: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    full: dict[str, int] = field(default_factory=dict)
    """Benchmark (the name of its folder) -> how many files are behind published numbers."""
    group: str = ""


@dataclass(frozen=True)
class Average:
    title: str
    tasks: tuple[str, ...]
    about: str = ""
    published: str = ""
    """The key of this very average in `published.toml`, where there are such numbers."""
    group: str = ""


@dataclass(frozen=True)
class Suite:
    title: str
    about: str = ""
    task: tuple[TaskEntry, ...] = ()
    probe: tuple[ProbeEntry, ...] = ()
    average: tuple[Average, ...] = ()


def load_suite(name: str) -> Suite:
    """A suite of ours by name, "all" of them together, or a TOML file."""
    if name == ALL:
        suites = [load_suite(one) for one in names_in(SUITES)]
        return _union(sorted(suites, key=lambda suite: not suite.average))  # GLUE first
    return read_suite(find_named(SUITES, name, "suite", key="suite", also=[ALL]))


def read_suite(path: Path) -> Suite:
    suite = build(Suite, read_toml(path), where=path.name)
    probes = tuple(
        replace(entry, name=PROBES.name_of(entry.name), path=beside(entry.name, path))
        for entry in suite.probe
    )
    suite = replace(suite, probe=probes)
    entries = tuple(_complete(entry, path) for entry in suite.task)
    names = [entry.name for entry in entries]
    for what, given in (("tasks", names), ("probes", [entry.name for entry in suite.probe])):
        twice = next((name for name in given if given.count(name) > 1), None)
        if twice is not None:
            raise ConfigError(
                f"two {what} are named {twice!r}", where=path, fix="Give each a name of its own"
            )
    patterns = [pattern for entry in entries for pattern in (*entry.train, *entry.dev, *entry.test)]
    if outside := next(
        (pattern for pattern in patterns if pattern.startswith("/") or ".." in pattern.split("/")), None
    ):
        raise ConfigError(
            f"the pattern {outside!r} leads out of the task's folder", where=path, fix="Name files within it"
        )
    if not entries and not suite.probe:
        raise ConfigError("it holds no task and no probe", where=path, fix="Add [[task]] sections")
    for average in suite.average:
        for name in average.tasks:
            if name not in names:
                raise ConfigError(
                    f"averages {name!r}, which is not among its tasks", where=path, fix=nearest(name, names)
                )
    return replace(suite, task=entries)


def _complete(entry: TaskEntry, path: Path) -> TaskEntry:
    """With its defaults filled in, and checked as far as that is possible without data."""
    if len(entry.full) not in (0, 2):
        raise ConfigError(
            "expected two numbers: training and evaluation examples", where=f"{path}: {entry.name}.full"
        )
    if not entry.name or entry.name != Path(entry.name).name or entry.name.startswith("."):
        raise ConfigError(
            f"{entry.name!r} cannot name a folder", where=path, fix="Use letters, digits and hyphens"
        )
    folders = entry.folders or (entry.name,)
    task = beside(entry.task or entry.name, path)
    return replace(entry, task=task, title=entry.title or entry.name, folders=folders)


def _grouped(suite: Suite) -> Suite:
    def under(entries: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(replace(entry, group=entry.group or suite.title) for entry in entries)

    return replace(suite, task=under(suite.task), probe=under(suite.probe), average=under(suite.average))


def _union(suites: list[Suite]) -> Suite:
    """Every task and probe once, under the suite that has it first. Averages are kept."""
    suites = [_grouped(suite) for suite in suites]
    tasks: Mapping[str, TaskEntry] = {entry.name: entry for suite in reversed(suites) for entry in suite.task}
    probes = {entry.name: entry for suite in reversed(suites) for entry in suite.probe}
    order = list(dict.fromkeys(entry.name for suite in suites for entry in suite.task))
    averages = tuple(average for suite in suites for average in suite.average)
    about = "All suites together: " + ", ".join(suite.title for suite in suites) + "."
    return Suite("All tasks", about, tuple(tasks[name] for name in order), tuple(probes.values()), averages)
