"""Leases on a shared folder: each piece of work is done by one process at a time, on any machine.

    leases = Leases(folder)
    lease = leases.take("glue/cola")      # None: another process is working on it
    ...                                   # do the work; stop if lease.lost()
    lease.release()

A lease is a file that names its holder and contains a counter, which the holder increments while it lives.
This needs neither file-system locks nor a common clock. The file appears under its name in one step (a hard
link). A lease counts as abandoned once its counter has not changed for `PATIENCE` seconds of the reader's own
clock, or at once if the holder was a process on the reader's machine that has ended. The next holder of an
abandoned or released lease creates a file with the next number, which only one process can do. A holder that
finds such a file has lost its lease.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote
from uuid import uuid4

from electra.foundation import durable

BEAT = 5.0
"""Seconds between two increments of the counter."""
PATIENCE = 60.0
"""Seconds without a change of the counter after which the holder is considered gone."""


@dataclass
class Lease:
    """A piece of work that this process holds."""

    path: Path
    holder: dict[str, Any]
    _ended: threading.Event = field(default_factory=threading.Event)
    _lost: threading.Event = field(default_factory=threading.Event)

    def lost(self) -> bool:
        """Whether another process has taken over the work because this process's counter stopped."""
        return self._lost.is_set()

    def release(self) -> None:
        """Lets other processes take the work, if it is not done."""
        self._ended.set()
        if not self.lost() and not _has_successor(self.path):
            with suppress(OSError):  # then others take it over after `patience` seconds
                _write(self.path, {**self.holder, "released": True})

    def keep(self, beat: float) -> None:
        """Increments the counter until the lease is released or lost; runs in a thread of its own."""
        while not self._ended.wait(beat):
            if _has_successor(self.path):
                self._lost.set()
                return
            self.holder["count"] += 1
            with suppress(OSError):  # such as a full disk: others take over after `patience` seconds
                _write(self.path, self.holder)


class Leases:
    """The leases in a folder, as this process sees them."""

    def __init__(self, folder: Path, beat: float = BEAT, patience: float = PATIENCE) -> None:
        self.folder, self.beat, self.patience = folder, beat, patience
        self._seen: dict[str, tuple[Any, float]] = {}  # file name -> the lease as last read, and since when

    def take(self, name: str) -> Lease | None:
        """Returns a lease on a piece of work, or None if another process holds it. Raises DiskError."""
        file_name = quote(name, safe=" ")
        with durable.explain_disk_errors(self.folder):
            durable.make_folder(self.folder)
            number = max(_numbers(self.folder, file_name), default=-1)
            if number >= 0 and not self._is_free(file_name, number):
                return None
            lease = Lease(self.folder / f"{file_name}.{number + 1}", _own_record())
            if not _create(lease.path, lease.holder):
                return None
        for old in range(number + 1):
            (self.folder / f"{file_name}.{old}").unlink(missing_ok=True)
        threading.Thread(target=lease.keep, args=(self.beat,), daemon=True).start()
        return lease

    def clear(self) -> None:
        """Removes the folder of leases, unless a lease is held."""
        if self.folder.is_dir() and not self.held():
            shutil.rmtree(self.folder, ignore_errors=True)

    def holder(self, name: str) -> str:
        """Returns the holder of a piece of work as text, or "" if there is none."""
        file_name = quote(name, safe=" ")
        number = max(_numbers(self.folder, file_name), default=-1)
        record = _read(self.folder / f"{file_name}.{number}") if number >= 0 else None
        if not record or record.get("released") or _is_gone(record):
            return ""
        return f"process {record.get('process')} on {record.get('host')}"

    def held(self) -> dict[str, str]:
        """Returns the holder of each piece of work that is held, as far as this process can tell."""
        names = {unquote(path.name.rpartition(".")[0]) for path in self.folder.glob("[!.]*")}
        return {name: holder for name in sorted(names) if (holder := self.holder(name))}

    def label(self, name: str) -> str:
        """Returns the name of a piece of work, followed by its holder if there is one."""
        holder = self.holder(name)
        return f"{name} ({holder})" if holder else name

    def _is_free(self, file_name: str, number: int) -> bool:
        record = _read(self.folder / f"{file_name}.{number}")
        if record is not None and (record.get("released") or _is_gone(record)):
            return True
        before, since = self._seen.get(file_name, (None, 0.0))
        if before != (number, record):
            self._seen[file_name] = (number, record), time.monotonic()
            return False
        return time.monotonic() - since > self.patience


def _own_record() -> dict[str, Any]:
    return {
        "host": socket.gethostname(),
        "boot": _boot_id(),
        "process": os.getpid(),
        "started": _start_time(os.getpid()),
        "id": uuid4().hex,
        "count": 0,
    }


def _is_gone(record: dict[str, Any]) -> bool:
    """Whether the holder was a process on this machine that has ended."""
    process = record.get("process")
    if not isinstance(process, int) or (record.get("host"), record.get("boot")) != (
        socket.gethostname(),
        _boot_id(),
    ):
        return False
    return not durable.is_running(process) or _start_time(process) != record.get("started")


def _boot_id() -> str:
    """Returns an identifier of this boot and this process namespace; "" if there is none."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _start_time(process: int) -> str:
    """Returns when a process started, in clock ticks since the start of the system; "" if unknown."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return fields.rpartition(")")[2].split()[19]  # the name in parentheses may contain anything


def _numbers(folder: Path, file_name: str) -> list[int]:
    suffixes = (path.name.removeprefix(f"{file_name}.") for path in folder.glob(f"{file_name}.*"))
    return [int(suffix) for suffix in suffixes if suffix.isdecimal()]


def _has_successor(path: Path) -> bool:
    file_name, _, number = path.name.rpartition(".")
    return max(_numbers(path.parent, file_name), default=-1) > int(number)


def _read(path: Path) -> dict[str, Any] | None:
    """Returns the content of a lease, or None if it cannot be read now."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def _draft(path: Path, holder: dict[str, Any]) -> Path:
    draft = path.with_name(f".{path.name}-{holder['id']}")
    draft.write_text(json.dumps(holder), encoding="utf-8")
    return draft


def _write(path: Path, holder: dict[str, Any]) -> None:
    os.replace(_draft(path, holder), path)


def _create(path: Path, holder: dict[str, Any]) -> bool:
    """Creates the file, complete in one step if possible. Returns False if another process was quicker."""
    draft = _draft(path, holder)
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError:  # no hard links here; exclusive creation works everywhere
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            return False
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(json.dumps(holder))
    finally:
        draft.unlink(missing_ok=True)
    return True
