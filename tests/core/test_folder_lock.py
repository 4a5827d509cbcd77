"""A folder has one writer at a time, with and without locks of the file system."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from electra.foundation import durable
from electra.foundation.errors import FullDisk, Note, RunFolderError

WITHOUT = [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EIO]


@pytest.fixture(params=WITHOUT, ids=errno.errorcode.get)
def no_locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    def flock(file: object, how: int) -> None:
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", flock)
    return int(request.param)


def test_without_file_locks_a_note_says_why(tmp_path: Path, no_locks: int) -> None:
    with pytest.warns(Note, match=os.strerror(no_locks)), durable.lock(tmp_path / "run"):
        assert (tmp_path / "run" / ".lock").exists()
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [".lock"]


@pytest.mark.filterwarnings("ignore::electra.foundation.errors.Note")
@pytest.mark.parametrize("no_locks", [errno.ENOSYS], indirect=True)
def test_without_file_locks_a_second_process_is_still_refused(tmp_path: Path, no_locks: int) -> None:
    mark = tmp_path / ".writer"
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        mark.write_text(f"process {other.pid} on {socket.gethostname()}")
        with pytest.raises(RunFolderError, match=str(other.pid)), durable.lock(tmp_path):
            pass
    finally:
        other.kill()
        other.wait()
    with durable.lock(tmp_path):  # it is gone
        assert str(os.getpid()) in mark.read_text()
    mark.write_text("process 1 on another-machine")
    with pytest.raises(RunFolderError, match="another-machine") as refused, durable.lock(tmp_path):
        pass
    assert str(mark) in refused.value.fix, "how to go on if that process is gone"


def test_with_file_locks_a_second_process_is_refused(tmp_path: Path) -> None:
    program = "import sys; from electra.foundation import durable; from pathlib import Path\n"
    program += "with durable.lock(Path(sys.argv[1])): pass"
    with durable.lock(tmp_path):
        ended = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False
        )
    assert f"in use by process {os.getpid()}" in ended.stderr


def test_a_lock_on_a_full_disk_names_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(file: object, how: int) -> None:
        monkeypatch.setattr(os, "getpid", full)  # what the lock writes of it does not fit

    def full() -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(FullDisk) as error, durable.lock(tmp_path / "run"):
        pass
    assert error.value.where == str(tmp_path / "run")


def test_a_folder_that_got_only_a_lock_is_removed(tmp_path: Path) -> None:
    new, empty, used = (tmp_path / name for name in ("new", "empty", "used"))
    empty.mkdir()
    with durable.lock(new), durable.lock(empty), durable.lock(used):
        (used / "file").touch()
    assert not new.exists() and empty.is_dir() and (used / "file").exists()


def test_a_lock_that_another_process_removed_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its holder may end between the opening of the file and the locking."""
    removals = [True]

    def flock(file: object, operation: int) -> None:
        if removals.pop() if removals else False:
            (tmp_path / "a" / ".lock").unlink()
            (tmp_path / "a").rmdir()

    monkeypatch.setattr(durable.fcntl, "flock", flock)
    with durable.lock(tmp_path / "a") as file:
        assert (tmp_path / "a" / ".lock").samefile(file.name) and not removals
