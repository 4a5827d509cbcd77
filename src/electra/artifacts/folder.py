"""The base of all kinds of folder: what marks one, its record, whose it is, and working in it."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Self, TypeVar

from electra.artifacts import digests
from electra.artifacts.session import LOG, Session, open_session, with_article
from electra.foundation import config, durable
from electra.foundation.errors import ElectraError, RunFolderError
from electra.foundation.progress import Say, quiet

Kind = TypeVar("Kind")
FIGURES = "figures"
REPORT = "report.html"
LONGEST_TOLD = 200  # characters of a path in an error


@dataclass(frozen=True)
class Finding:
    """One thing that was verified: what it is, and what is wrong with it (empty: nothing)."""

    path: Path
    what: str
    problem: str = ""
    compared: bool = True
    """False: there was nothing to compare it with, so it may be damaged."""


Check = Callable[[Any], Iterator[Finding]]
NO_CHECKS: Mapping[type[Any], Check] = MappingProxyType({})


class Inside(Generic[Kind]):
    """A folder of ours inside another, declared by its name there: `store = Inside(StoreFolder, "store")`."""

    def __init__(self, kind: Callable[[Path], Kind], name: str) -> None:
        self.kind, self.name = kind, name

    def __get__(self, folder: Folder, owner: object) -> Kind:
        return self.kind(folder.path / self.name)


class File(Inside[Path]):
    """The path of a folder's own file: `audit = File("audit.json")`."""

    def __init__(self, name: str) -> None:
        super().__init__(Path, name)


@dataclass(frozen=True)
class Folder:
    """A folder of ours, whether or not it exists yet. Subclasses say what marks it and name its files."""

    path: Path

    KIND: ClassVar[str]  # "run", "fine-tuning"
    RECORD: ClassVar[str]  # the file that makes a folder one of this kind
    BESIDE: ClassVar[tuple[str, ...]] = (LOG,)  # what may lie there before the record does
    IDENTITY: ClassVar[tuple[str, ...]] = ()  # the record's parts that must agree to resume (empty: all)
    ERROR: ClassVar[type[ElectraError]] = RunFolderError

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)

    @classmethod
    def is_at(cls, path: Path) -> bool:
        return (path / cls.RECORD).is_file()

    @classmethod
    def open(cls, path: Path) -> Self:
        """The folder at `path`, or an error that says what it is not."""
        if not cls.is_at(path):
            what = (
                "no such folder"
                if not path.exists()
                else f"not {with_article(cls.KIND)} (no {cls.RECORD} in it)"
            )
            raise cls.ERROR(what, where=path)
        return cls(path)

    def exists(self) -> bool:
        return self.is_at(self.path)

    @property
    def page(self) -> Path:
        """The page that `electra report` draws of it."""
        return self.path / REPORT

    figures = File(FIGURES)  # its page's figures, as standalone SVG
    log = File(LOG)

    @property
    def record(self) -> dict[str, Any]:
        """What the folder says of itself, read anew."""
        record = durable.read_json(self.path / self.RECORD, self.ERROR)
        if not isinstance(record, dict) or not record:
            what = f"not the record of {with_article(self.KIND)}"
            fix = "Restore it, or start over in another folder"
            raise self.ERROR(what, where=self.path / self.RECORD, fix=fix)
        return record

    def write_record(self, record: Mapping[str, Any]) -> None:
        digests.forget(self.path)
        durable.commit_json(self.path / self.RECORD, record)

    def differences(self, record: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
        """The settings that keep `record` from resuming what lies here: (name, recorded value, value now)."""
        old, new = self.record, json.loads(json.dumps(record, default=str))  # as it will be read: no tuples
        parts = [(old.get(part, {}), new.get(part, {})) for part in self.IDENTITY] or [(old, new)]
        return [entry for a, b in parts for entry in config.differences(a, b)]

    def check(self) -> Iterator[Finding]:
        """What is wrong with the folder's own files, its `parts` apart."""
        yield Finding(
            self.path / self.RECORD, f"record of {with_article(self.KIND)}", problem_of(lambda: self.record)
        )

    def digested(self) -> list[Path]:
        """Its own files that change no more once the work in it is done."""
        return []

    def record_digests(self) -> None:
        """Record what the files are, now that the work is done: `check` compares them."""
        digests.record(self.path, self.digested())

    def check_digests(self) -> Iterator[Finding]:
        compared = digests.compare(self.path)
        if compared is None:
            what = f"no {digests.DIGESTS}: not finished, of an older version, or deleted. Nothing compared"
            yield Finding(self.path, what, compared=False)
        for name, problem in (compared or {}).items():
            yield Finding(self.path / name, "as it was written", problem)

    def parts(self) -> Iterator[Folder]:
        """The folders of ours inside this one."""
        yield from ()

    def verify(self, checks: Mapping[type[Folder], Check] = NO_CHECKS) -> Iterator[Finding]:
        """Checks this folder and all folders of ours inside it, reading every byte that has a recorded hash.

        checks: further checks of a kind of folder, instead of its own (of weights, which takes torch).
        """
        check = checks.get(type(self))
        yield from self.check() if check is None else check(self)
        for part in self.parts():
            yield from part.verify(checks)

    def facts(self) -> Sequence[tuple[str, Any]]:
        """What a reader wants to know first: names and values (None: not known)."""
        return ()

    def session(
        self,
        record: Mapping[str, Any] | None = None,
        *,
        say: Say = quiet,
        stop: Callable[[], bool] | None = None,
        leads: bool = True,
    ) -> AbstractContextManager[Session]:
        """Own the folder while working in it: see `artifacts.session.open_session`."""
        return open_session(self, record, say=say, stop=stop, leads=leads)


class Sealed(Folder):
    """A folder that was committed whole, with a manifest of its files' hashes."""

    def check(self) -> Iterator[Finding]:
        yield Finding(self.path, self.KIND, durable.verify_directory(self.path) or "")


def problem_of(read: Callable[[], object]) -> str:
    """What is wrong with what `read` reads (empty: nothing)."""
    try:
        read()
    except ElectraError as error:
        return error.what
    return ""


def distinct_names(paths: Sequence[Sequence[str]]) -> list[str]:
    """The last part of each path, with as much of the path before as tells them apart."""
    names = [path[-1] for path in paths]
    for depth in range(2, max(map(len, paths), default=0) + 1):
        count = Counter(names)
        names = [
            "/".join(path[-depth:]) if count[name] > 1 else name
            for path, name in zip(paths, names, strict=True)
        ]
    return names


def numbered(folder: Path, prefix: str) -> list[tuple[int, Path]]:
    """The folders `prefix`N in `folder`, by their numbers."""
    found = [(path.name.removeprefix(prefix), path) for path in folder.glob(f"{prefix}*") if path.is_dir()]
    return sorted((int(number), path) for number, path in found if number.isdecimal())


def expanded(name: str | Path, error: type[ElectraError]) -> Path:
    """The path of that name, `~` expanded; `error` where nothing could lie there, or nobody may look."""
    try:
        path = Path(name).expanduser()
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return path
    except (OSError, RuntimeError, ValueError) as problem:  # too long, closed; `~` of nobody; a NUL
        reason = problem.strerror if isinstance(problem, OSError) else problem
        given = str(name)
        where = given if len(given) <= LONGEST_TOLD else f"{given[:LONGEST_TOLD]}..."
        raise error(f"not a path that can be read ({reason})", where=where, fix="Check the path") from None
    return path
