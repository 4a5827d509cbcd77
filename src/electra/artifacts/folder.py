"""The base of all kinds of folder: what marks one, its record, whose it is, and working in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from electra import config, durable
from electra.artifacts.session import LOG, Say, Session, open_session, quiet
from electra.errors import ElectraError, RunFolderError


@dataclass(frozen=True)
class Finding:
    """One thing that was verified: what it is, and what is wrong with it (empty: nothing)."""

    path: Path
    what: str
    problem: str = ""


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
            what = "no such folder" if not path.exists() else f"not a {cls.KIND} (no {cls.RECORD} in it)"
            raise cls.ERROR(what, where=path)
        return cls(path)

    def exists(self) -> bool:
        return self.is_at(self.path)

    @property
    def log(self) -> Path:
        return self.path / LOG

    @property
    def record(self) -> dict[str, Any]:
        """What the folder says of itself, read anew."""
        record = durable.read_json(self.path / self.RECORD, self.ERROR)
        if not isinstance(record, dict):
            raise self.ERROR(f"not the record of a {self.KIND}", where=self.path / self.RECORD)
        return record

    def write_record(self, record: Mapping[str, Any]) -> None:
        durable.commit_json(self.path / self.RECORD, record)

    def differences(self, record: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
        """The settings that keep `record` from resuming what lies here: (name, recorded value, value now)."""
        old, new = self.record, json.loads(json.dumps(record, default=str))  # as it will be read: no tuples
        parts = [(old.get(part, {}), new.get(part, {})) for part in self.IDENTITY] or [(old, new)]
        return [entry for a, b in parts for entry in config.differences(a, b)]

    def verify(self) -> Iterator[Finding]:
        """Checks what can be checked without torch."""
        yield Finding(self.path / self.RECORD, f"record of a {self.KIND}", self._problem())

    def _problem(self) -> str:
        try:
            self.record  # noqa: B018
        except ElectraError as error:
            return error.what
        return ""

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
