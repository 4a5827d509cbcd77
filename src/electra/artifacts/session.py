"""Owning a folder for as long as work in it takes: refuse strangers, lock, refuse other settings, log, stop.

    with folder.session(record, say=say) as session:
        session.say("training")            # to the caller, and time-stamped to log.txt
        while not session.stopping():
            ...
        session.interrupt()                # raises Interrupted: the same call resumes

A command writes only into a folder that is new, empty or its own, and resumes only what it began with. What
identifies the work is sometimes known only after work under the lock (a store has to be prepared first): then
the session is opened without a record, and `begin(record)` follows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Protocol

from electra.artifacts import digests
from electra.foundation import durable
from electra.foundation.errors import Interrupted, RunFolderError
from electra.foundation.progress import Say, quiet
from electra.foundation.signals import StopRequest

Differences = Sequence[tuple[str, Any, Any]]  # as `electra.foundation.config.differences` gives them
LOG = "log.txt"


class Owned(Protocol):
    """What a session needs to know of its folder; `artifacts.folder.Folder` is one."""

    KIND: ClassVar[str]  # "run", "fine-tuning": what the folder holds
    RECORD: ClassVar[str]
    BESIDE: ClassVar[tuple[str, ...]]

    @property
    def path(self) -> Path: ...
    def exists(self) -> bool: ...
    def write_record(self, record: Mapping[str, Any]) -> None: ...
    def differences(self, record: Mapping[str, Any]) -> Differences: ...


class Session:
    """A locked folder; see `open_session`."""

    def __init__(self, folder: Owned, say: Say, stopping: Callable[[], bool], leads: bool) -> None:
        self.folder, self.stopping, self.leads = folder, stopping, leads
        self.resumed = folder.exists()  # whether the folder already held its record
        self._say = say

    def begin(
        self,
        record: Mapping[str, Any],
        *,
        differences: Differences | None = None,
        fix: str = "",
        rewrite: bool = False,
    ) -> None:
        """Refuse a record that differs from the one on disk; write it where there is none.

        differences: found by the caller, where the folder's own comparison does not fit.
        rewrite:     the record may grow (another arm, another task), so it is written each time.
        """
        if self.folder.exists():
            changed = self.folder.differences(record) if differences is None else differences
            refuse_differences(self.folder.path, self.folder.KIND, changed, fix=fix)
        if self.leads and (rewrite or not self.folder.exists()):
            self.folder.write_record(record)

    def say(self, line: str) -> None:
        """One line for the caller, and time-stamped for log.txt. A process that does not lead is quiet."""
        if self.leads:
            log_line(self.folder.path / LOG, line)
            self._say(line)

    def interrupt(self) -> NoReturn:
        """To be called when asked to stop, once everything is saved."""
        self.say("stopped; rerun to resume")
        raise Interrupted(self.folder.path, getattr(self.stopping, "exit_code", 0) or 130)


@contextmanager
def open_session(
    folder: Owned,
    record: Mapping[str, Any] | None = None,
    *,
    say: Say = quiet,
    stop: Callable[[], bool] | None = None,
    leads: bool = True,
) -> Iterator[Session]:
    """Hold a folder against other processes; raises RunFolderError where it is not ours to use.

    record: what identifies the work; None: the caller knows it later, and calls `begin`.
    stop:   asked between two steps of the work. None: signals are caught for the length of the session.
    leads:  False in the processes of a group that share the folder with the one that locks and writes it.
    """
    if not folder.exists():
        refuse_strangers(folder.path, folder.RECORD, with_article(folder.KIND), folder.BESIDE)
    with ExitStack() as stack:
        if leads:
            stack.enter_context(durable.lock(folder.path))
        if stop is None:
            stop = stack.enter_context(StopRequest())
        session = Session(folder, say, stop, leads)
        for name, problem in digests.changed(folder.path).items() if leads else ():
            session.say(f"warning: {name} {problem}; see electra verify")
        if record is not None:
            session.begin(record)
        try:
            yield session
        except OSError as error:
            if error.errno not in durable.FULL:
                raise
            raise durable.disk_error(error, folder.path) from error


def with_article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def log_line(path: Path, line: str) -> None:
    with durable.explain_disk_errors(path), durable.open_to_append(path) as file:
        file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}\n")


def refuse_strangers(folder: Path, record: str, kind: str, beside: Collection[str] = ()) -> None:
    """Refuse a folder without the file `record` that holds anything else.

    kind:   what the folder should hold, with its article ("a run").
    beside: names that may lie there before the record does: what a process leaves that was killed early.
        Hidden files always may.
    """
    if folder.exists() and not folder.is_dir():
        raise RunFolderError("is a file, not a folder", where=folder, fix="Choose another `out`")
    if (folder / record).exists():
        return
    strangers = sorted(
        path.name for path in folder.glob("*") if path.name not in beside and not path.name.startswith(".")
    )
    if strangers:
        more = ", ..." if len(strangers) > 1 else ""
        raise RunFolderError(
            f"holds files that are not {kind} ({strangers[0]}{more})",
            where=folder,
            fix="Choose another `out`",
        )


def refuse_differences(
    folder: Path, kind: str, changed: Differences, most: int | None = None, fix: str = ""
) -> None:
    """Refuse to resume where settings differ from those recorded, naming each, or the first `most`."""
    if not changed:
        return
    listed = "; ".join(f"{name} was {_short(old)}, now {_short(new)}" for name, old, new in changed[:most])
    more = f"; and {len(changed[most:])} more" if most is not None and changed[most:] else ""
    raise RunFolderError(
        f"holds another {kind}: {listed}{more}",
        where=folder,
        fix=fix or "Use the same settings, or another `out`",
    )


def _short(value: Any) -> str:
    return "absent" if value is None else "there" if isinstance(value, Mapping) else str(value)[:24]
