"""The only module that writes files that must survive a crash or a power cut, and that verifies them.

A durable directory is committed in one rename: its files are written under a temporary name and fsynced,
`manifest.json` (size and SHA-256 of each) comes last, then the directory is renamed and its parent fsynced.
So a directory either does not exist or is complete. There is no "latest" pointer: the newest directory that
matches its manifest is used. A directory is replaced in one exchange of two names, so that readers always
find a complete one. Where the file system cannot do that, the old one is renamed away first, and `recover`
completes a replacement that was killed in between.
"""

import ctypes
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, TypeVar

from electra.foundation.errors import DiskError, ElectraError, FullDisk, RunFolderError

MANIFEST = "manifest.json"
STDOUT = "standard output"  # used as its file name in errors
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # error codes that mean there is no room to write
_TEMPORARY, _TRASH = ".tmp-", ".trash-"
Content = bytes | Callable[[Path], None]  # bytes, or a function that writes the file at a path
rename, remove_tree = os.replace, shutil.rmtree  # like `write` and `fsync`, for tests to replace
Read = TypeVar("Read")
_guarded: list[Path] = []  # absolute paths of the folders that this process works in


def write(path: Path, content: Content) -> None:
    """Writes the bytes, or calls the function with the path, without fsync."""
    if callable(content):
        existed = path.exists()
        path.touch()
        mode = path.stat().st_mode  # set by the umask; a library may make its files more private
        content(path)
        if not existed:
            path.chmod(mode)
    else:
        path.write_bytes(content)


def fsync(path: Path) -> None:
    """Flushes a file, or the entries of a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256(path: Path) -> str:
    """Returns the hexadecimal SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def explain_disk_errors(path: Path) -> Iterator[None]:
    """Turns operating-system errors, except a broken pipe, into the DiskError of `disk_error`."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise disk_error(error, path) from error
    except Exception as error:  # libraries in Rust put the operating system's error into the message
        code = re.search(r"\(os error (\d+)\)", str(error))
        if code is None or isinstance(error, ElectraError):
            raise
        raise disk_error(OSError(int(code[1]), ""), path) from error


def disk_error(error: OSError, path: Path | None = None) -> DiskError:
    """Returns the DiskError for a failed write to `path` (None: the file that the error names)."""
    where = STDOUT if error.filename == STDOUT else path or Path(error.filename or tempfile.gettempdir())
    if error.errno == errno.EFBIG:
        fix = "Raise the limit (ulimit -f unlimited), then rerun"
        return FullDisk("the file exceeds the size limit", where=where, fix=fix)
    if error.errno in NO_ROOM:
        problem = "the quota is used up" if error.errno == errno.EDQUOT else "no space left to write here"
        if isinstance(where, Path) and not _is_special(where):
            problem += f" ({mebibytes(shutil.disk_usage(nearest_existing(where)).free)} free on this volume)"
        return FullDisk(problem, where=where, fix="Free some space (or inodes), then rerun")
    reason = os.strerror(error.errno) if error.errno else str(error) or type(error).__name__
    fix = "Choose another folder or fix its permissions"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        fix = "Raise the limit (ulimit -n 1024)"
    return DiskError(f"cannot write here: {reason}", where=where, fix=fix)


def nearest_existing(path: Path) -> Path:
    """Returns the path, or the nearest folder above it that exists."""
    return next((p for p in [path, *path.absolute().parents] if p.exists()), Path("/"))


def mebibytes(size: float) -> str:
    """Formats a number of bytes, such as "1,024 MiB"."""
    return f"{size / 2**20:,.0f} MiB"


def make_folder(path: Path) -> None:
    """Makes a folder and its missing parents, and fsyncs them so that they survive a power cut."""
    refuse_outside(path)
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in reversed(missing):
        fsync(folder.parent)


def commit_file(path: Path, content: Content) -> None:
    """Writes a file atomically: a crash leaves either the old content or the new.

    A link stays and its target is replaced. A device or a pipe (/dev/stdout) is written to. Raises
    DiskError, or RunFolderError for a link that leads out of its folder.
    """
    path = _follow_link(Path(path))
    if _is_special(path):
        with explain_disk_errors(path):
            return write(path, content)
    temporary = _beside(path, _TEMPORARY)
    with explain_disk_errors(path):
        try:
            make_folder(path.parent)
            write(temporary, content)
            fsync(temporary)
            rename(temporary, path)
            fsync(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


def to_json(value: Any) -> bytes:
    """Returns indented JSON as bytes. File names that are not UTF-8 keep their bytes."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "surrogateescape")


def commit_json(path: Path, value: Any) -> None:
    """Writes a value as JSON with `commit_file`."""
    commit_file(path, to_json(value))


def commit_directory(path: Path, files: dict[str, Content]) -> None:
    """Writes a directory of files with a manifest, all or nothing.

    `files` maps names, which may contain subfolders, to contents. An existing directory is replaced. A link
    stays and its target is replaced. Raises the same errors as `commit_file`.
    """
    path = _follow_link(Path(path))
    if path.exists() and not path.is_dir():
        raise DiskError("is a file, not a folder", where=path, fix="Choose another name")
    temporary, trash = _beside(path, _TEMPORARY), _beside(path, _TRASH)
    with explain_disk_errors(path):
        try:
            shutil.rmtree(temporary, ignore_errors=True)
            make_folder(path.parent)
            temporary.mkdir()
            listing = {}
            for name, content in files.items():
                target = temporary / name
                target.parent.mkdir(parents=True, exist_ok=True)
                write(target, content)
                fsync(target)
                listing[name] = {"size": target.stat().st_size, "sha256": sha256(target)}
            write(temporary / MANIFEST, to_json({"files": listing}))
            fsync(temporary / MANIFEST)
            folders = {folder for name in files for folder in Path(name).parents}
            for folder in sorted(folders, key=lambda folder: -len(folder.parts)):  # deepest first
                fsync(temporary / folder)
            if not (path.exists() and exchange(temporary, path)):
                if path.exists():
                    shutil.rmtree(trash, ignore_errors=True)
                    rename(path, trash)
                rename(temporary, path)
            fsync(path.parent)
            for old in (temporary, trash):
                if old.exists():
                    remove_tree(old)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    recover(path)


def exchange(one: Path, other: Path) -> bool:
    """Exchanges the names of two folders in one step; False if the system or the file system cannot."""
    here, swap = -100 if sys.platform == "linux" else -2, 2  # AT_FDCWD; RENAME_EXCHANGE or RENAME_SWAP
    name = "renameat2" if sys.platform == "linux" else "renameatx_np"
    call = getattr(ctypes.CDLL(None), name, None)
    return call is not None and call(here, os.fsencode(one), here, os.fsencode(other), swap) == 0


def read_together(folder: Path, read: Callable[[], Read]) -> Read:
    """Returns what `read` reads in a folder, from one version of it if it is replaced meanwhile."""
    while True:
        before, failure = _identity(folder), None
        try:
            result = read()
        except ElectraError as error:
            failure = error
        if _identity(folder) == before:
            if failure is not None:
                raise failure
            return result


def _identity(folder: Path) -> tuple[int, int] | None:
    with suppress(OSError, ValueError):
        found = folder.stat()
        return found.st_ino, found.st_ctime_ns  # a number is used again for the next folder
    return None


def remove_directory(path: Path) -> None:
    """Deletes a folder (of a link, the link), renamed first: after a crash no part is in its place."""
    if path.is_symlink():
        return path.unlink()
    refuse_outside(path)
    trash = _beside(path, _TRASH)
    shutil.rmtree(trash, ignore_errors=True)
    rename(path, trash)
    remove_tree(trash)


def recover(path: Path) -> None:
    """Completes a replacement of this directory that was interrupted, and removes what killed processes left.

    If a process was killed after it had renamed the old directory and before it renamed the new one, neither
    is at `path`. The new one is moved there if it is complete, otherwise the old one.
    """
    remove_leftovers(path.parent, path.name)


def remove_leftovers(parent: Path, name: str | None = None) -> None:
    """Recovers the directories in `parent`, and removes what killed processes left of its files, too."""
    for prefix in (_TEMPORARY, _TRASH):  # unfinished versions, then discarded ones
        for leftover in sorted(parent.glob(f"{prefix}*")):
            its_name, _, process = leftover.name.removeprefix(prefix).rpartition("-")
            if name not in (None, its_name) or _is_running(process):
                continue
            target = parent / its_name
            if not leftover.is_dir() or leftover.is_symlink():
                leftover.unlink(missing_ok=True)
            elif its_name and not target.exists() and verify_directory(leftover) is None:
                with explain_disk_errors(target):
                    leftover.rename(target)
            else:
                shutil.rmtree(leftover, ignore_errors=True)


def _beside(path: Path, prefix: str) -> Path:
    return path.with_name(f"{prefix}{path.name}-{os.getpid()}")


def _is_running(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, ValueError):
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def _follow_link(path: Path) -> Path:
    """Resolves a link. Refuses one that leads out of its folder: the folder may come from a stranger."""
    refuse_outside(path)
    if not path.is_symlink():
        return path
    target = path.resolve()
    if not target.is_relative_to(path.parent.resolve()) and not _is_special(target) and not target.is_dir():
        problem = f"links to {target}; files outside the folder are not overwritten"
        raise RunFolderError(problem, where=path, fix="Remove the link, or pass the path of its target")
    return target


@contextmanager
def guarded(folder: Path) -> Iterator[None]:
    """In the block, nothing is written or deleted below the folder that a link leads out of it.

    The folder may come from a stranger. It may itself be a link, or lie below one, because the user named it.
    """
    _guarded.append(root := Path(os.path.abspath(folder)))
    try:
        yield
    finally:
        _guarded.remove(root)


def refuse_outside(path: Path) -> None:
    """Raises RunFolderError if a link leads from a guarded folder to `path` outside of it."""
    absolute = Path(os.path.abspath(path))
    for root in _guarded:
        target = absolute.resolve() if root in absolute.parents else root.resolve()
        if not target.is_relative_to(root.resolve()) and not _is_special(target):
            problem = f"a link leads to {target}; files outside of {root} are not written or deleted"
            fix = "Remove the link, or move the whole folder and pass its path"
            raise RunFolderError(problem, where=path, fix=fix)


def open_to_append(path: Path) -> TextIO:
    """Opens a UTF-8 file to append lines, and treats links as `commit_file` does."""
    return open(_follow_link(path), "a", encoding="utf-8")


def _is_special(path: Path) -> bool:
    """Whether the path is a device, pipe or socket, which a new file must not replace."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def plain(path: Path) -> Path:
    """Returns the path. Raises OSError for a pipe, socket or device, which may never end, outside /dev."""
    if _is_special(path) and Path("/dev") not in path.parents:
        raise OSError(errno.EINVAL, "not a plain file", str(path))
    return path


def verify_directory(path: Path, skip: Collection[str] = ()) -> str | None:
    """Compares the files, except those to `skip`, with the manifest; returns the first problem, or None."""
    try:
        listing = json.loads(plain(path / MANIFEST).read_bytes())["files"]
        expected = {str(name): (int(entry["size"]), str(entry["sha256"])) for name, entry in listing.items()}
    except FileNotFoundError:
        return f"{MANIFEST} is missing"
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return f"{MANIFEST} is damaged"
    for name, (size, digest) in expected.items():
        if name in skip:
            continue
        if points_outside(name):
            return f"{name} points outside the directory"
        if not os.path.isfile(path / name):  # unlike Path.is_file, False for a name that no file can have
            return f"{name} is missing"
        if (actual := (path / name).stat().st_size) != size:
            return f"{name} has {actual} bytes instead of {size}"
        if sha256(path / name) != digest:
            return f"{name} is damaged (its SHA-256 differs)"
    return None


def points_outside(name: str) -> bool:
    """Whether a listed name leads out of its directory. Links may do so: the hub's cache consists of them."""
    return ".." in Path(name).parts or Path(name).is_absolute()


def read_json(path: Path, error: type[ElectraError], fix: str = "") -> Any:
    """Parses a JSON file. Raises `error`, naming the file and line, if it is missing or not JSON."""
    try:
        return json.loads(plain(Path(path)).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise error("no such file", where=path, fix=fix) from None
    except (ValueError, OSError, RecursionError) as problem:
        line = getattr(problem, "lineno", None)
        where = f"{path}:{line}" if line else path
        raise error(f"not readable as JSON ({problem})", where=where, fix=fix) from None


def read_object(path: Path, error: type[ElectraError], fix: str = "") -> dict[str, Any]:
    """Returns the object in a JSON file. Raises `error` as `read_json` does, and for any other value."""
    value = read_json(path, error, fix)
    if not isinstance(value, dict):
        raise error("not a JSON object", where=path, fix=fix)
    return value


def read_record(path: Path, format: int, error: type[ElectraError], what: str, fix: str) -> dict[str, Any]:
    """Reads a JSON object whose `format` must equal `format`; raises `error` otherwise.

    `what` names the expected record in the message, with its article.
    """
    record = read_object(path, error, fix)
    if record.get("format") != format:
        raise error(f"not {what} of this version", where=path, fix=fix)
    return record


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Locks a folder for this process; the kernel releases the lock however the process ends.

    A missing folder is made, and removed again if nothing is written into it. Raises RunFolderError if
    another process holds the folder, and DiskError if the lock cannot be written or the file system has none.
    """
    existed = folder.exists()
    try:
        with lock_file(folder / ".lock") as holder:
            if holder:
                fix = "Wait for it, stop it, or choose another `out`"
                raise RunFolderError(f"in use by {holder}", where=folder, fix=fix)
            with guarded(folder):
                yield
    finally:
        with suppress(OSError):
            if not existed:
                folder.rmdir()


@contextmanager
def lock_file(path: Path) -> Iterator[str]:
    """Locks a file, which is removed afterwards. Yields "", or the process that holds the lock already."""
    with ExitStack() as stack:
        with explain_disk_errors(path.parent):
            holder = None
            while holder is None:
                make_folder(path.parent)
                file = stack.enter_context(open(_follow_link(path), "ab+", buffering=0))
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    file.seek(0)
                    holder = file.read().decode() or "another process"
                    break
                # The process that held the lock may have removed the file after it was opened here.
                with suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                        stack.callback(path.unlink, missing_ok=True)
                        file.truncate(0)
                        file.write(f"process {os.getpid()}".encode())
                        holder = ""
        yield holder
