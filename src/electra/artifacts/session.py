"""Sessions: a command locks a folder while it works there.

    with folder.session(record, say=say) as session:
        session.say("training")            # printed, and added to log.txt with the time
        while not session.stopping():
            ...
        session.interrupt()                # raises Interrupted; the same call resumes

A command writes only into a folder that is new, empty or of its kind, and resumes only with the recorded
settings. If the record depends on work that needs the lock (a store must be prepared first), the session is
opened without a record, and `begin(record)` follows.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, NoReturn

from electra.foundation import durable
from electra.foundation.config import describe_change
from electra.foundation.errors import ElectraError, Interrupted, RunFolderError
from electra.foundation.progress import Say, quiet, running_command
from electra.foundation.signals import StopRequest
from electra.foundation.terminal_text import some_of, with_article

Folder = Any  # of `artifacts.folder`, which imports this module

Differences = Sequence[tuple[str, Any, Any]]  # as returned by `electra.foundation.config.differences`
LOG = "log.txt"
COMMANDS = "commands.json"  # the lines of the commands that worked in the folder, each once
POLL_SECONDS = 0.1
SILENT_SECONDS = 3.0  # time to wait for another process before a line says so


class Session:
    """A locked folder; see `open_session`. `stopping()` says whether to stop."""

    def __init__(self, folder: Folder, say: Say, stopping: Callable[[], bool], is_main: bool, lock: ExitStack) -> None:
        self.folder, self.stopping, self.is_main = folder, stopping, is_main
        self.resumed = folder.exists()  # whether it already had its record
        self._say, self._lock = say, lock

    def share(self) -> None:
        """Releases the lock for other processes. Files that they write too must be written in `exclusive`."""
        self._lock.close()

    def exclusive(self) -> AbstractContextManager[None]:
        """Locks the folder of a shared session, to write a file that all of its processes write."""
        return wait_and_lock(self.folder.path, self.say)

    def begin(self, record: Mapping[str, Any]) -> None:
        """Writes the settings that identify the work; RunFolderError if those on disk differ."""
        if self.folder.exists():
            raise_if_changed(self.folder.path, self.folder.KIND, self.folder.differences(record))
        elif self.is_main:
            self.folder.write_record(record)

    def say(self, line: str) -> None:
        """Prints a line and adds it to log.txt with the time. Does nothing unless the process `is_main`."""
        if self.is_main:
            log_line(self.folder.path / LOG, line)
            self._say(line)

    def interrupt(self) -> NoReturn:
        """Raises Interrupted; call it after a request to stop, once everything is saved."""
        self.say("stopped; rerun to resume")
        raise Interrupted(self.folder.path, getattr(self.stopping, "exit_code", 0) or 130)


@contextmanager
def open_session(
    folder: Folder,
    record: Mapping[str, Any] | None = None,
    *,
    say: Say = quiet,
    stop: Callable[[], bool] | None = None,
    is_main: bool = True,
    shared: bool = False,
) -> Iterator[Session]:
    """Opens a session, which holds the folder's lock.

    Raises RunFolderError if the folder contains something else, is in use, or was begun with other settings;
    and DiskError if the disk is full, or the lock or the log cannot be written.

    Args:
        folder: the folder to work in.
        record: the settings that identify the work (None: the caller calls `begin` later).
        say: prints the session's lines.
        stop: returns whether to stop; polled between steps of the work (None: the session catches signals).
        is_main: False if another process of the same group locks and writes the folder.
        shared: wait for other sessions of the folder instead of failing; each calls `share` to let others in.
    """
    if not folder.exists():
        require_no_other_contents(folder)
    with ExitStack() as stack:
        stack.enter_context(durable.guarded(folder.path))  # also when the lock is shared
        lock = stack.enter_context(ExitStack())
        if is_main and not shared:
            lock.enter_context(durable.lock(folder.path))
        if stop is None:
            stop = stack.enter_context(StopRequest())
        if is_main and shared:
            lock.enter_context(wait_and_lock(folder.path, say, stop))
        session = Session(folder, say, stop, is_main, lock)
        if is_main:
            stack.enter_context(_command_recorded(folder.path))
        if record is not None:
            session.begin(record)
        try:
            yield session
        except OSError as error:
            if error.errno not in durable.NO_ROOM:
                raise
            raise durable.disk_error(error, folder.path) from error


def recorded_commands(folder: Path) -> list[str]:
    """Returns the lines of the commands that worked in a folder, the first one first; [] of older folders."""
    path, fix = folder / COMMANDS, "Remove it"
    lines = durable.read_json(path, RunFolderError, fix=fix) if path.exists() else []
    if not isinstance(lines, list):
        raise RunFolderError("not a list of commands", where=path, fix=fix)
    return [str(line) for line in lines]


@contextmanager
def _command_recorded(folder: Path) -> Iterator[None]:
    line, path = running_command.get()(), folder / COMMANDS
    is_new = bool(line) and line not in recorded_commands(folder)
    if is_new:
        durable.commit_json(path, [*recorded_commands(folder), line])
    try:
        yield
    except ElectraError:
        others = [known for known in recorded_commands(folder) if known != line]
        if is_new and others:
            durable.commit_json(path, others)
        elif is_new:
            path.unlink(missing_ok=True)
        raise


@contextmanager
def wait_and_lock(folder: Path, say: Say = quiet, stop: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Locks a folder that several processes share, after waiting for the one that holds the lock.

    `say` receives a line after a few seconds. Raises RunFolderError once `stop` says not to wait any longer.
    """
    waited = 0.0
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(durable.lock(folder))
                break
            except RunFolderError as error:
                if stop():
                    raise
                if waited <= SILENT_SECONDS < (waited := waited + POLL_SECONDS):
                    say(f"waiting: {error.what} ({folder})")
            time.sleep(POLL_SECONDS)
        yield


def log_line(path: Path, line: str) -> None:
    """Appends a line with the local time to a log. Raises DiskError if it cannot be written."""
    with durable.explain_disk_errors(path), durable.open_to_append(path) as file:
        file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}\n")


def require_no_other_contents(folder: Folder) -> None:
    """Raises RunFolderError for a folder without its record that contains other files.

    Hidden files may be there, and the names that a command that was killed early leaves.
    """
    path, fix, early = folder.path, "Choose another `out`", (*folder.ALLOWED_EARLY, COMMANDS)
    if path.exists() and not path.is_dir():
        raise RunFolderError("is a file, not a folder", where=path, fix=fix)
    foreign = sorted(p.name for p in path.glob("*") if p.name not in early and not p.name.startswith("."))
    if foreign and not (path / folder.RECORD).exists():
        kind = with_article(folder.KIND)
        problem = f"contains files that do not belong to {kind} ({some_of(foreign, most=1)})"
        raise RunFolderError(problem, where=path, fix=fix)


def raise_if_changed(folder: Path, kind: str, changed: Differences, limit: int | None = None, fix: str = "") -> None:
    """Raises RunFolderError if there are differences, naming all of them or only the first `limit`."""
    if changed:
        listed = "; ".join(describe_change(*change) for change in changed[:limit])
        more = f"; and {len(changed) - limit} more" if limit is not None and changed[limit:] else ""
        problem = f"contains {with_article(kind)} with other settings: {listed}{more}"
        raise RunFolderError(problem, where=folder, fix=fix or "Use the same settings, or another `out`")
