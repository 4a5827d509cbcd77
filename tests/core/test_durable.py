"""Whatever operation fails or is killed, a durable directory is complete or absent."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from electra.artifacts.ledger import Writer
from electra.artifacts.session import log_line
from electra.foundation import durable
from electra.foundation.errors import DiskError, ElectraError, FullDisk, RunFolderError

FILES: dict[str, durable.Content] = {
    "a.bin": b"x" * 1000,
    "sub/b.txt": b"hello",
    "c.json": lambda path: path.write_text("{}") and None,
}


class Failing:
    """Counts the operations of `durable`, and fails number `at` as on a full disk."""

    def __init__(self, patch: pytest.MonkeyPatch, at: int = -1) -> None:
        self.at, self.count = at, 0
        for name in ("write", "fsync", "rename", "remove_tree"):
            patch.setattr(durable, name, partial(self._do, getattr(durable, name)))

    def _do(self, operation: Callable[..., None], path: Path, *given: Any) -> None:
        self.count += 1
        if self.count == self.at:
            if given and isinstance(given[0], bytes):
                path.write_bytes(given[0][: len(given[0]) // 2])  # a torn write
            raise OSError(errno.ENOSPC, "No space left on device")
        operation(path, *given)


def test_a_full_disk_at_every_operation_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        counted = Failing(patch)
        durable.commit_directory(tmp_path / "probe", FILES)
    assert counted.count >= 10
    for at in range(1, counted.count + 1):
        target = tmp_path / f"run{at}" / "thing"
        with monkeypatch.context() as patch, pytest.raises(FullDisk) as caught:
            Failing(patch, at)
            durable.commit_directory(target, FILES)
        assert str(target) in str(caught.value) and "MiB free" in str(caught.value)
        assert not target.exists() or durable.verify_directory(target) is None
        assert [p for p in target.parent.iterdir() if p.name.startswith(".tmp-")] == []


def test_writing_keeps_links_and_devices(tmp_path: Path) -> None:
    durable.commit_directory(tmp_path / "v1", FILES)
    (tmp_path / "current").symlink_to("v1")
    durable.commit_directory(tmp_path / "current", {"new.txt": b"new"})
    assert (tmp_path / "current").is_symlink() and (tmp_path / "v1" / "new.txt").read_bytes() == b"new"
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to("file")
    durable.commit_file(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_bytes() == b"new"
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    durable.commit_file(tmp_path / "pipe", b"through")
    assert os.read(reader, 100) == b"through" and (tmp_path / "pipe").is_fifo()
    os.close(reader)
    with pytest.raises(DiskError):
        durable.commit_directory(tmp_path / "file", FILES)


def test_every_kind_of_damage_is_named(tmp_path: Path) -> None:
    target = tmp_path / "thing"
    durable.commit_directory(target, FILES)
    assert durable.verify_directory(target) is None
    whole, manifest = (target / "a.bin").read_bytes(), target / "manifest.json"
    for damage in (whole[:-1], whole[:500] + b"y" + whole[501:], b""):
        (target / "a.bin").write_bytes(damage)
        assert "a.bin" in (durable.verify_directory(target) or "")
    (target / "a.bin").unlink()
    assert "missing" in (durable.verify_directory(target) or "")
    manifest.write_text("{")
    assert "damaged" in (durable.verify_directory(target) or "")
    for name, said in (("../evil", "outside"), ("x" * 3000, "missing")):
        manifest.write_text(json.dumps({"files": {name: {"size": 1, "sha256": "0"}}}))
        assert said in (durable.verify_directory(target) or "")


def test_a_replaced_file_is_the_old_or_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file.json"
    durable.commit_json(path, {"version": 1})
    for at in range(1, 4):
        with monkeypatch.context() as patch, pytest.raises(DiskError):
            Failing(patch, at)
            durable.commit_file(path, b"{}")
        assert json.loads(path.read_text()) == {"version": 1}
    durable.commit_json(path, {"version": 2})
    assert json.loads(path.read_text()) == {"version": 2}
    assert [p.name for p in tmp_path.iterdir()] == ["file.json"]


def test_a_lock_excludes_other_processes_and_ends_with_its_process(tmp_path: Path) -> None:
    words = [sys.executable, "-u", "-c", HOLD, str(tmp_path)]
    holder = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    with pytest.raises(RunFolderError), durable.lock(tmp_path):
        pass
    holder.kill()
    holder.wait()
    holder.stdout.close()
    with durable.lock(tmp_path):
        pass


HOLD = """
import sys, time
from pathlib import Path
from electra.foundation import durable
with durable.lock(Path(sys.argv[1])):
    print("held")
    time.sleep(60)
"""


FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


@pytest.mark.parametrize("number", [*FULL, errno.EMFILE, errno.EACCES])
def test_errors_of_a_disk_are_explained(tmp_path: Path, number: int) -> None:
    with pytest.raises(DiskError) as caught, durable.explain_disk_errors(tmp_path / "a" / "b"):
        raise OSError(number, os.strerror(number))
    assert isinstance(caught.value, FullDisk) == (number in FULL)
    assert caught.value.exit_code == (74 if number in FULL else 2)


def test_a_read_only_volume_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(path: Path, *given: object, **named: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(Path, "mkdir", refuses)
    with pytest.raises(DiskError), durable.lock(tmp_path / "run"):
        pass
    with pytest.raises(DiskError):
        durable.commit_directory(tmp_path / "model", FILES)


def test_a_file_above_the_real_size_limit_is_explained(tmp_path: Path) -> None:
    """safetensors writes past RLIMIT_FSIZE: one line, exit code 74, nothing left."""
    program = """
import resource, sys, signal
from pathlib import Path
from electra.foundation import durable
from electra.foundation.errors import FullDisk
import numpy
from safetensors.numpy import save_file
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
try:
    write = lambda path: save_file({"a": numpy.zeros(9999)}, path)
    durable.commit_directory(Path(sys.argv[1]), {"model.safetensors": write})
except FullDisk as error:
    sys.exit(str(error))
"""
    words = [sys.executable, "-c", program, str(tmp_path / "model")]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "ulimit -f" in ended.stderr, ended.stderr
    assert not list(tmp_path.iterdir())


def test_the_next_commit_removes_leftovers_of_killed_processes(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    left = [tmp_path / f".tmp-model-{ended.pid}", tmp_path / f".trash-model-{ended.pid}"]
    living, other = tmp_path / f".tmp-model-{os.getppid()}", tmp_path / f".tmp-model-2-{ended.pid}"
    for folder in (*left, living, other):
        folder.mkdir()
    durable.commit_directory(tmp_path / "model", FILES)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([living.name, other.name, "model"])
    durable.remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([living.name, "model"])


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("report.html", lambda path: durable.commit_file(path, b"page")),
        ("figures", lambda path: durable.commit_file(path / "loss.svg", b"figure")),
        ("checkpoints", lambda path: durable.commit_directory(path / "step-2", FILES)),
        ("checkpoints", lambda path: durable.remove_directory(path / "step-1")),
        ("discriminator", lambda path: durable.commit_directory(path, FILES)),
        ("seeds", lambda path: durable.make_folder(path / "seed-2")),
        (".lock", lambda path: durable.lock(path.parent).__enter__()),
        ("log.txt", lambda path: log_line(path, "a line")),
        ("metrics.jsonl", lambda path: Writer(path, 0)),
    ],
)
def test_links_that_leave_a_folder_are_not_followed(name: str, write: Callable[[Path], object], tmp_path: Path) -> None:
    """A run of somebody else's may hold report.html -> ~/.ssh/authorized_keys, or checkpoints -> ~/.ssh."""
    is_file, run = "." in name, tmp_path / "here" / "run"
    kept = tmp_path / "kept" if is_file else tmp_path / "kept" / "step-1" / "file"
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text("kept")
    (tmp_path / "disk").mkdir()
    (tmp_path / "here").symlink_to(tmp_path / "disk")  # the user's own link
    run.mkdir()
    (run / name).symlink_to(tmp_path / "kept")
    with durable.guarded(run), pytest.raises(ElectraError):
        write(run / name)
    found = {path.name for path in (tmp_path / "kept").rglob("*")}
    assert kept.read_text() == "kept" and found == (set() if is_file else {"step-1", "file"})
    with durable.guarded(run):
        durable.commit_directory(run / "own", FILES)
        assert durable.verify_directory(run / "own") is None


def test_of_a_checkpoint_on_another_disk_the_link_is_removed(tmp_path: Path) -> None:
    durable.commit_directory(tmp_path / "disk" / "step-1", FILES)
    (tmp_path / "run").mkdir()
    for name in ("step-1", ".trash-step-1-99999999"):  # what an earlier version left
        (tmp_path / "run" / name).symlink_to(tmp_path / "disk" / "step-1")
    with durable.guarded(tmp_path / "run"):
        durable.remove_directory(tmp_path / "run" / "step-1")
        durable.remove_leftovers(tmp_path / "run")
    assert not list((tmp_path / "run").iterdir())
    assert durable.verify_directory(tmp_path / "disk" / "step-1") is None


REPLACE = """
import sys
from pathlib import Path
from electra.foundation import durable
for version in range(int(sys.argv[2])):
    files = {name: str(version).encode() for name in "ab"}
    durable.commit_directory(Path(sys.argv[1]), files)
"""


def test_a_reader_finds_one_version_while_a_directory_is_replaced(tmp_path: Path) -> None:
    folder, seen = tmp_path / "model", set[str]()
    subprocess.run([sys.executable, "-c", REPLACE, folder, "2"], check=True)
    if not durable.exchange(folder, folder):
        pytest.skip("this file system exchanges no names")
    with subprocess.Popen([sys.executable, "-c", REPLACE, folder, "60"]) as writer:
        while writer.poll() is None:
            versions = durable.read_together(folder, lambda: {(folder / name).read_text() for name in "ab"})
            assert len(versions) == 1
            seen |= versions
    assert writer.returncode == 0 and len(seen) > 3
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_without_an_exchange_a_directory_is_replaced_by_two_renames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "exchange", lambda one, other: False)
    for content in (b"old", b"new"):
        durable.commit_directory(tmp_path / "model", {"a": content})
    assert (tmp_path / "model" / "a").read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_folder_that_got_only_a_lock_is_removed(tmp_path: Path) -> None:
    new, empty, used = (tmp_path / name for name in ("new", "empty", "used"))
    empty.mkdir()
    with durable.lock(new), durable.lock(empty), durable.lock(used):
        (used / "file").touch()
    assert not new.exists() and empty.is_dir() and (used / "file").exists()


def test_a_lock_that_another_process_removed_is_taken_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its holder may end between the opening of the file and the locking."""
    removals = [True]

    def flock(file: object, operation: int) -> None:
        if removals.pop() if removals else False:
            (tmp_path / "a" / ".lock").unlink()
            (tmp_path / "a").rmdir()

    monkeypatch.setattr(durable.fcntl, "flock", flock)
    with durable.lock(tmp_path / "a"):
        assert (tmp_path / "a" / ".lock").read_text() == f"process {os.getpid()}" and not removals
