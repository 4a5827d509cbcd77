"""The only place that writes, and reads back, files that must survive.

A durable directory is committed in one rename: its files are written under a temporary name and fsynced,
`manifest.json` (size and SHA-256 of each) comes last, then the directory takes its name and the parent is
fsynced. So a directory either does not exist, or verifies. There is no "latest" pointer: the newest directory
whose manifest verifies is the truth.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import glob
import hashlib
import json
import os
import re
import shutil
import socket
import stat
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, TextIO

from electra.foundation.errors import DiskError, ElectraError, FullDisk, Note, RunFolderError

MANIFEST = "manifest.json"
STDOUT = "standard output"  # as the name of a file in errors about it
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # what a write fails with where there is no room
_TEMPORARY, _TRASH = ".tmp-", ".trash-"
REHEARSAL = ".rehearsal-"  # a folder to measure in
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # of renameat2 (Linux 3.15)


class Ops:
    """The file operations of a commit: a seam where tests count them, kill the process or fill the disk."""

    def write(self, path: Path, content: bytes | Callable[[Path], None]) -> None:
        if callable(content) and not path.exists():
            path.touch()
            mode = path.stat().st_mode  # of any new file; a library may make its own more private
            content(path)
            path.chmod(mode)
        elif callable(content):
            content(path)
        else:
            path.write_bytes(content)

    def fsync(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def exchange(self, one: Path, other: Path) -> bool:
        """Each takes the other's name at one moment. False where the system or the file system cannot."""
        renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
        if renameat2 is None:
            return False
        if renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
            return True
        if (code := ctypes.get_errno()) in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
            return False
        raise OSError(code, os.strerror(code), str(other))

    def remove_tree(self, path: Path) -> None:
        shutil.rmtree(path)


OPS = Ops()
Content = bytes | Callable[[Path], None]  # bytes, or a function that writes the file at the path it is given


def sha256(path: Path, size: int | None = None) -> str:
    """Of a file, or of its first `size` bytes."""
    with open(path, "rb") as file:
        if size is None:
            return hashlib.file_digest(file, "sha256").hexdigest()
        state = hashlib.sha256()
        while size > 0 and (block := file.read(min(size, 1 << 20))):
            state.update(block)
            size -= len(block)
        return state.hexdigest()


@contextmanager
def explain_disk_errors(path: Path) -> Iterator[None]:
    """Turn the operating system's errors about writing into one line: which volume, and what is free."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise disk_error(error, path) from error
    except Exception as error:  # a library in Rust tells the operating system's error in words
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number is None or isinstance(error, ElectraError):
            raise
        raise disk_error(OSError(int(number[1]), ""), path) from error


def disk_error(error: OSError, path: Path | None = None) -> DiskError:
    """path: what was written (None: not known, and the fullest of the usual volumes is named)."""
    if error.filename == STDOUT:
        where: str | Path = STDOUT
    else:
        where = path or (Path(error.filename) if error.filename else _fullest())
    if error.errno in FULL:
        what, fix = _why_full(error.errno or 0, where)
        return FullDisk(what, where=where, fix=fix)
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return DiskError("too many open files", where=where, fix="Raise the limit (ulimit -n 1024)")
    fix = "Check where it goes" if where == STDOUT else "Choose another folder or fix its permissions"
    return DiskError(f"cannot write here: {os.strerror(error.errno or 0)}", where=where, fix=fix)


def _why_full(number: int, path: str | Path) -> tuple[str, str]:
    if number == errno.EFBIG:
        return "larger than a file may be here", "Raise the limit (ulimit -f unlimited), then run again"
    if number == errno.EDQUOT:
        return "the disk quota is used up", "Free some space of yours, then run again"
    if path == STDOUT or _is_special(Path(path)):
        return "no space left to write there", "Free some space where it goes, then run again"
    volume = os.statvfs(existing(Path(path)))
    if volume.f_files and not volume.f_favail:
        return (
            "no space left to write here: the volume has room, but no inodes for another file",
            "Remove some files, then run again",
        )
    free = mebibytes(volume.f_bavail * volume.f_frsize)
    return f"no space left to write here ({free} free on this volume)", "Free some space, then run again"


def _fullest() -> Path:
    """Of the volumes that work writes to without being told, the one with the least room."""
    usual = [Path(tempfile.gettempdir()), Path("/dev/shm"), Path.cwd()]
    return min(filter(Path.is_dir, usual), key=lambda path: os.statvfs(path).f_bavail)


def existing(path: Path) -> Path:
    """The path, or the nearest folder above it that is there."""
    return next((p for p in [path, *path.absolute().parents] if p.exists()), Path("/"))


def mebibytes(size: float) -> str:
    return f"{size / 2**20:,.0f} MiB"


def make_folder(path: Path, ops: Ops = OPS) -> None:
    """Make a folder, and those above it that are missing, so that a power cut leaves them."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in reversed(missing):
        ops.fsync(folder.parent)


def commit_file(path: Path, content: Content, ops: Ops = OPS) -> None:
    """Write one file so that it is either the old one or the new one, whole.

    A link stays, and what it points to is replaced. A device or a pipe (/dev/stdout) is written into.
    """
    path = _behind_links(Path(path))
    if _is_special(path):
        with explain_disk_errors(path):
            return ops.write(path, content)
    temporary = path.with_name(f"{_TEMPORARY}{path.name}-{os.getpid()}")
    with explain_disk_errors(path):
        try:
            make_folder(path.parent, ops)
            ops.write(temporary, content)
            ops.fsync(temporary)
            ops.rename(temporary, path)
            ops.fsync(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


def to_json(value: Any) -> bytes:
    """As our records are written. A file's name that is no UTF-8 stays what it is."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "surrogateescape")


def commit_json(path: Path, value: Any, ops: Ops = OPS) -> None:
    commit_file(path, to_json(value), ops)


def commit_directory(path: Path, files: dict[str, Content], ops: Ops = OPS) -> None:
    """Write a directory of files with a manifest, all or nothing.

    A directory that has the name already is replaced at one moment, where the file system can exchange
    names; a link stays, and what it points to is replaced.
    """
    path = _behind_links(Path(path))
    if path.exists() and not path.is_dir():
        raise DiskError("is a file, not a folder", where=path, fix="Choose another name")
    temporary = path.with_name(f"{_TEMPORARY}{path.name}-{os.getpid()}")
    with explain_disk_errors(path):
        try:
            shutil.rmtree(temporary, ignore_errors=True)
            make_folder(path.parent, ops)
            temporary.mkdir()
            listing = {}
            for name, content in files.items():
                target = temporary / name
                target.parent.mkdir(parents=True, exist_ok=True)
                ops.write(target, content)
                ops.fsync(target)
                listing[name] = {"size": target.stat().st_size, "sha256": sha256(target)}
            ops.write(temporary / MANIFEST, to_json({"files": listing}))
            ops.fsync(temporary / MANIFEST)
            folders = {folder for name in files for folder in Path(name).parents}
            for folder in sorted(folders, key=lambda folder: -len(folder.parts)):  # the deepest first
                ops.fsync(temporary / folder)
            if path.exists() and ops.exchange(temporary, path):
                ops.fsync(path.parent)
                ops.remove_tree(temporary)  # the old one
            else:
                if path.exists():
                    remove_directory(path, ops)
                ops.rename(temporary, path)
            ops.fsync(path.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    _remove_leftovers(path)


def _remove_leftovers(path: Path) -> None:
    """What processes that were killed left of this very directory, now that it is whole."""
    for leftover in _leftovers_of(path):
        shutil.rmtree(leftover, ignore_errors=True)


def _leftovers_of(path: Path) -> list[Path]:
    """Of one directory, new ones before old ones; not those of a process that is at work."""
    return [
        leftover
        for pattern in (_TEMPORARY, _TRASH)
        for leftover in sorted(path.parent.glob(f"{pattern}{glob.escape(path.name)}-*"))
        if leftover.name.rpartition("-")[0] == f"{pattern}{path.name}" and _is_left(leftover)
    ]


def _is_left(path: Path) -> bool:
    """Whether the process that made a temporary file or folder, and named it by its number, is gone."""
    number = path.name.rpartition("-")[2]
    return not number.isdecimal() or not is_running(int(number))


def is_running(process: int) -> bool:
    """Whether there is a process of this number."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def _behind_links(path: Path) -> Path:
    """What a name stands for. A link out of its folder is refused: a folder of others may hold one."""
    if not path.is_symlink():
        return path
    target = path.resolve()
    if not target.is_relative_to(path.parent.resolve()) and not _is_special(target) and not target.is_dir():
        raise RunFolderError(
            f"a link to {target}, which is not written through",
            where=path,
            fix="Remove the link, or name the file that it leads to",
        )
    return target


def open_to_append(path: Path) -> TextIO:
    """A file of a folder that may be of others, to add lines to."""
    return open(_behind_links(path), "a", encoding="utf-8")


def _is_special(path: Path) -> bool:
    """A device, a pipe or a socket: nothing that a new file may take the name of."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def verify_directory(path: Path, apart: Collection[str] = ()) -> str | None:
    """None when the directory holds just what its manifest says; otherwise what is wrong, naming the file.

    apart: the names of files that are not looked at.
    """
    try:
        listing = json.loads((path / MANIFEST).read_bytes())["files"]
        expected = {str(name): (int(entry["size"]), str(entry["sha256"])) for name, entry in listing.items()}
    except FileNotFoundError:
        return f"{MANIFEST} is missing"
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return f"{MANIFEST} is damaged"
    for name, (size, digest) in expected.items():
        if name in apart:
            continue
        file = path / name
        if points_outside(name):
            return f"{name} points outside the directory"
        if not os.path.isfile(file):  # raises nothing for a name that no file can have
            return f"{name} is missing"
        if file.stat().st_size != size:
            return f"{name} has {file.stat().st_size} bytes instead of {size}"
        if sha256(file) != digest:
            return f"{name} is damaged (its SHA-256 differs)"
    return None


def points_outside(name: str) -> bool:
    """Whether a listed name leaves its directory. A link in it may: the hub's cache is made of them."""
    return ".." in Path(name).parts or Path(name).is_absolute()


def remove_directory(path: Path, ops: Ops = OPS) -> None:
    """Delete a durable directory: first its name, so that a crash leaves nothing that looks whole."""
    trash = path.with_name(f"{_TRASH}{path.name}-{os.getpid()}")
    shutil.rmtree(trash, ignore_errors=True)
    ops.rename(path, trash)
    ops.remove_tree(trash)


def recover(path: Path) -> None:
    """Give a directory its name back when a process was killed between taking the old one away and naming
    the new one, on a file system that cannot exchange names: the new one where it is whole, else the old.
    """
    for leftover in _leftovers_of(path):
        if not path.exists() and leftover.is_dir() and verify_directory(leftover) is None:
            with explain_disk_errors(path):
                leftover.rename(path)


def sweep(parent: Path) -> None:
    """Remove what a killed process left half-written or half-deleted in `parent`."""
    for leftover in [*parent.glob(f"{_TEMPORARY}*"), *parent.glob(f"{_TRASH}*")]:
        name = leftover.name.removeprefix(_TEMPORARY).removeprefix(_TRASH).rpartition("-")[0]
        recover(parent / name)
    for pattern in (_TEMPORARY, _TRASH, REHEARSAL):
        for leftover in filter(_is_left, parent.glob(f"{pattern}*")):
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)


def read_json(path: Path, error: type[ElectraError], fix: str = "") -> Any:
    """Parse a JSON file, or raise `error` naming the file and line."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise error("no such file", where=path, fix=fix) from None
    except (ValueError, OSError, RecursionError) as problem:
        line = getattr(problem, "lineno", None)
        raise error(
            f"not readable as JSON ({problem})", where=f"{path}:{line}" if line else path, fix=fix
        ) from None


def read_record(path: Path, format: int, error: type[ElectraError], what: str, fix: str) -> dict[str, Any]:
    """A JSON file that says which format it has, or `error`. `what` it should be goes with its article."""
    record = read_json(path, error, fix)
    if not isinstance(record, dict) or record.get("format") != format:
        raise error(f"not {what} of this version", where=path, fix=fix)
    return record


@contextmanager
def lock(folder: Path) -> Iterator[IO[str]]:
    """Hold a folder for this process. The kernel lets go however the process ends: no stale locks.

    Where the file system has no locks, a file names the process instead; one that is gone is taken over.
    """
    with explain_disk_errors(folder), ExitStack() as stack:
        make_folder(folder)
        file = stack.enter_context(open(_behind_links(folder / ".lock"), "a+", encoding="utf-8"))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            if problem.errno in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EINTR):
                file.seek(0)
                raise _in_use(folder, file.read().strip()) from None
            stack.enter_context(_named(folder, problem))
        file.truncate(0)
        file.write(f"process {os.getpid()}")
        file.flush()
        entered = stack.pop_all()
    with entered:
        yield file


def _in_use(folder: Path, holder: str, fix: str = "") -> RunFolderError:
    fix = fix or "Wait for it, stop it, or choose another `out`"
    return RunFolderError(f"in use by {holder or 'another process'}", where=folder, fix=fix)


@contextmanager
def _named(folder: Path, problem: OSError) -> Iterator[None]:
    """One writer by a file that names its process and machine."""
    mark, here = folder / ".writer", socket.gethostname()
    own = f"process {os.getpid()} on {here}"
    taken = mark.with_name(f".writer-{os.getpid()}")
    taken.write_text(own, encoding="utf-8")
    try:
        try:
            os.link(taken, mark)
        except FileExistsError:
            holder = mark.read_text(encoding="utf-8")
            number = holder.removeprefix("process ").removesuffix(f" on {here}")
            if not number.isdecimal() or (int(number) != os.getpid() and is_running(int(number))):
                fix = f"Wait for it or stop it. If it is gone, remove {mark}"
                raise _in_use(folder, holder, fix) from None
            os.replace(taken, mark)
    finally:
        taken.unlink(missing_ok=True)
    if mark.read_text(encoding="utf-8") != own:  # somebody else took it over at the same moment
        raise _in_use(folder, mark.read_text(encoding="utf-8"))
    what = f"{folder}: this file system has no locks ({os.strerror(problem.errno or 0)})"
    warnings.warn(f"{what}: {mark.name} keeps other processes of this machine out", Note, stacklevel=2)
    try:
        yield
    finally:
        mark.unlink(missing_ok=True)


def held(folder: Path) -> bool:
    """Whether a process that can be seen from here holds the folder; the lock itself is not touched."""
    file = folder / ".lock"
    try:
        inode, holder = file.stat().st_ino, file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    try:
        return re.search(rf"FLOCK .*:{inode} ", Path("/proc/locks").read_text(encoding="ascii")) is not None
    except OSError:  # not Linux
        number = holder.removeprefix("process ")
        return number.isdecimal() and is_running(int(number))
