"""The base class of all folders that electra writes."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from typing_extensions import override

from electra.artifacts.session import LOG, open_session, recorded_commands, wait_and_lock
from electra.foundation import config, durable
from electra.foundation.errors import ElectraError, RunFolderError
from electra.foundation.terminal_text import with_article

Contained = TypeVar("Contained")
REPORT = "report.html"


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    path: Path
    what: str  # was checked ("weights"), to say so if there is no problem
    problem: str = ""  # what is wrong; empty if nothing is


class Child(Generic[Contained]):
    """Declares a folder inside another by its name: `store = Child(StoreFolder, "store")`."""

    def __init__(self, kind: Callable[[Path], Contained], name: str) -> None:
        self.kind, self.name = kind, name

    def __get__(self, folder: "Folder", owner: object) -> Contained:
        return self.kind(folder.path / self.name)


class ChildPath(Child[Path]):
    """Declares a file, or a folder of no kind of its own, by its name: `audit = ChildPath("audit.json")`."""

    def __init__(self, name: str) -> None:
        super().__init__(Path, name)


@dataclass(frozen=True)
class Folder:
    """A folder of a certain kind, whether or not it exists yet; subclasses define the kind and its files."""

    path: Path

    KIND: ClassVar[str]  # "run", "fine-tuning"
    RECORD: ClassVar[str]  # name of the record file, by which a folder of this kind is recognised
    ALLOWED_EARLY: ClassVar[tuple[str, ...]] = (LOG,)  # names that may exist before the record does
    IDENTITY: ClassVar[tuple[str, ...]] = ()  # parts of the record that must be equal to resume (empty: all)
    ERROR: ClassVar[type[ElectraError]] = RunFolderError

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)

    @classmethod
    def is_at(cls, path: Path) -> bool:
        """Whether `path` is a folder of this kind."""
        return (path / cls.RECORD).is_file()

    @classmethod
    def open(cls, path: Path, fix: str = "") -> Self:
        """Opens the folder at `path`. Raises the class's error, with `fix`, if it is not of this kind."""
        problem = f"not {with_article(cls.KIND)} (it contains no {cls.RECORD})"
        if not path.exists() or not cls.is_at(path):
            raise cls.ERROR(problem if path.exists() else "no such folder", where=path, fix=fix)
        return cls(path)

    def exists(self) -> bool:
        """Whether the folder is on disk and contains its record file."""
        return self.is_at(self.path)

    @property
    def page(self) -> Path:
        """The HTML page that `electra report` writes."""
        return self.path / REPORT

    log = ChildPath(LOG)

    @property
    def commands(self) -> list[str]:
        """The lines of the commands that made what is here; [] if an older version made it."""
        return recorded_commands(self.path)

    @property
    def record(self) -> dict[str, Any]:
        """The content of the record file, read at each access; the class's error if it is damaged."""
        record = durable.read_json(self.path / self.RECORD, self.ERROR)
        if not isinstance(record, dict) or not record:
            raise self.not_a_record()
        return record

    def not_a_record(self) -> ElectraError:
        """Returns the error for a record file with other contents."""
        fix = "Restore it, or start over in another folder"
        problem = f"not the record of {with_article(self.KIND)}"
        return self.ERROR(problem, where=self.path / self.RECORD, fix=fix)

    def write_record(self, record: Mapping[str, Any]) -> None:
        """Writes the record file atomically."""
        durable.commit_json(self.path / self.RECORD, record)

    def differences(self, record: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
        """Returns (name, recorded value, new value) of settings that prevent resuming with `record`."""
        old, new = self.record, json.loads(json.dumps(record, default=str))  # tuples become lists, as on disk
        pairs = [(old.get(part, {}), new.get(part, {})) for part in self.IDENTITY] or [(old, new)]
        return [entry for a, b in pairs for entry in config.differences(a, b)]

    def check(self) -> Iterator[Finding]:
        """Checks the folder's own files, not those of its `parts`; `exchange.verify` checks all."""
        problem = error_message(lambda: self.record)
        yield Finding(self.path / self.RECORD, f"record of {with_article(self.KIND)}", problem)

    def parts(self) -> Iterator["Folder"]:
        """Yields the folders inside this one that are of a known kind."""
        yield from ()

    def locked(self) -> AbstractContextManager[None]:
        """Locks the folder, after waiting for other processes that hold it."""
        return wait_and_lock(self.path)

    session = open_session


class SealedFolder(Folder):
    """A folder that is committed whole, with a manifest of its files' hashes."""

    @override
    def check(self) -> Iterator[Finding]:
        yield Finding(self.path, self.KIND, durable.verify_directory(self.path) or "")


def error_message(read: Callable[[], object]) -> str:
    """Calls `read` and returns the `what` of the ElectraError that it raises; "" if it raises none."""
    try:
        read()
    except ElectraError as error:
        return error.what
    return ""


def json_finding(path: Path, what: str) -> Finding:
    """Checks that a file is readable as JSON."""
    return Finding(path, what, error_message(lambda: durable.read_json(path, RunFolderError)))


def distinct_names(paths: Sequence[Sequence[str]]) -> list[str]:
    """Returns the shortest endings (joined by "/") that tell paths, given as parts, from each other."""
    names = [path[-1] for path in paths]
    for depth in range(2, max(map(len, paths), default=0) + 1):
        counts, pairs = Counter(names), zip(paths, names, strict=True)
        names = ["/".join(path[-depth:]) if counts[name] > 1 else name for path, name in pairs]
    return names


def numbered_folders(folder: Path, prefix: str) -> list[tuple[int, Path]]:
    """Returns (N, path) for each folder `prefix`N in `folder`, ordered by N."""
    pairs = [(path.name.removeprefix(prefix), path) for path in folder.glob(f"{prefix}*") if path.is_dir()]
    return sorted((int(number), path) for number, path in pairs if number.isdecimal())
