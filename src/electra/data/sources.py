"""Where text comes from: files, folders, globs, stdin, remote addresses, hub data sets, the Python
documentation.

What a user names becomes a list of `Source`s in a stable order: arguments as given, the files of a folder or
glob sorted. What cannot be read twice (stdin, pipes, remote files) is first copied, as it is, into a scratch
folder.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

from electra import durable
from electra.artifacts import Folder, RunFolder, StoreFolder, TuningFolder, kind_of
from electra.artifacts.session import with_article
from electra.data import python_docs
from electra.data.folders import folders_below
from electra.data.lines import COMPRESSIONS
from electra.errors import CorpusError, ElectraError

FORMATS = {".txt": "txt", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
STDIN, HUB = "-", "hub:"
_SUFFIXES = f"{' '.join(FORMATS)}, each also {' '.join(COMPRESSIONS)}"
_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.\-]+://")


@dataclass(frozen=True)
class Source:
    """One thing that text is read from."""

    name: str  # as the user would say it
    kind: str  # "file", "python-docs" or "hub"
    path: Path = Path()  # of the file, or of the copy of what cannot be read twice
    format: str = ""  # of a file: one of the values of FORMATS
    compression: str = ""  # of a file: "" or one of COMPRESSIONS
    named: bool = True  # named by the user, not found in a folder: then it must hold text
    argument: str = ""  # what the user named, when it is read through a copy

    def describe(self) -> dict[str, Any]:
        """What identifies the content: the name, and the size and SHA-256 of the raw file."""
        if self.kind == "python-docs":
            return python_docs.describe()
        if self.kind == "hub":
            return {"name": self.name, "argument": self.name}
        with explain(self.name, OSError):
            listing: dict[str, Any] = {
                "name": self.name,
                "size": self.path.stat().st_size,
                "sha256": durable.sha256(self.path),
            }
        return listing | ({"argument": self.argument} if self.argument else {})


def is_remote(name: str) -> bool:
    return bool(_URL.match(name))


def find_sources(arguments: Sequence[str | Path], scratch: Path, forced_format: str = "auto") -> list[Source]:
    """Resolve what the user names; a name without text is an error, a file named twice is read once."""
    if not arguments:
        raise CorpusError(
            "no text named", fix=f"Name files, folders, globs, - for stdin, or {python_docs.NAME}"
        )
    found: dict[str, Source] = {}
    for argument in map(str, arguments):
        with explain(argument, OSError):
            for source in _expand(argument, scratch, forced_format):
                found.setdefault(str(source.path.resolve()) if source.kind == "file" else source.name, source)
    return list(found.values())


def same_text(
    listings: list[dict[str, Any]], arguments: Sequence[str | Path], forced_format: str = "auto"
) -> bool:
    """Whether the user names what `describe` listed: by content, or by name where reading again copies."""
    now: list[dict[str, Any]] = []
    for argument in map(str, arguments):
        if _is_copied(argument):
            now.append({"argument": argument})
        else:
            now += [source.describe() for source in find_sources([argument], Path(), forced_format)]
    # a glob of addresses is many listings
    return list(dict.fromkeys(map(_identity, listings))) == list(dict.fromkeys(map(_identity, now)))


def _identity(listing: dict[str, Any]) -> tuple[Any, ...]:
    return ("named", listing["argument"]) if "argument" in listing else (listing["size"], listing["sha256"])


def _is_copied(argument: str) -> bool:
    path = Path(argument)
    return (
        argument == STDIN
        or argument.startswith(HUB)
        or bool(_URL.match(argument))
        or (path.exists() and not path.is_file() and not path.is_dir())
    )


def _expand(argument: str, scratch: Path, forced: str) -> Iterator[Source]:
    path = Path(argument).expanduser()
    if argument == python_docs.NAME:
        yield Source(argument, "python-docs")
    elif argument.startswith(HUB):
        yield Source(argument, "hub")
    elif argument == STDIN:
        with open(sys.stdin.fileno(), "rb", closefd=False) as stream:
            yield _copied(
                Source(argument, "file", format="txt" if forced == "auto" else forced, argument=argument),
                stream,
                scratch,
            )
    elif _URL.match(argument):
        yield from _remote(argument, scratch, forced)
    elif path.is_dir():
        if (kind := _ours(path)) is not None:
            fix = "Give a store as `store`" if kind is StoreFolder else "Give the folder of the text"
            raise CorpusError(f"this is {with_article(kind.KIND)}, not text", where=argument, fix=fix)
        files = sorted(_files_below(path), key=lambda file: file.relative_to(path).as_posix())
        sources = [_file(str(file), file, forced, named=False) for file in files if _kind(file.name)[0]]
        if not sources:
            raise CorpusError(
                "no text files in this folder",
                where=argument,
                fix=f"Recognised extensions: {_SUFFIXES}",
            )
        yield from sources
    elif path.exists():
        yield _file(argument, path, forced) if path.is_file() else _pipe(argument, path, scratch, forced)
    elif glob.has_magic(argument):
        files = sorted(Path(match) for match in glob.glob(str(path), recursive=True) if os.path.isfile(match))
        if not files:
            raise CorpusError(
                "no file matches this pattern", where=argument, fix="Quote the pattern and check it with ls"
            )
        yield from (_file(str(file), file, forced) for file in files)
    else:
        fix = "Names of corpora are for a mixture: give `data.mix_temperature`" if "=" in argument else ""
        raise CorpusError("no such file or folder", where=argument, fix=fix)


def _files_below(root: Path) -> Iterator[Path]:
    """Files below a folder; hidden ones are left out, and so are runs, stores and fine-tunings, which may lie
    beside the text. No folder is read twice, whatever links to it.
    """

    def fail(error: OSError) -> None:
        raise CorpusError(f"cannot be read ({error.strerror})", where=error.filename)

    read = set()
    for folder in folders_below(root, fail=fail, enter=lambda folder: _ours(folder) is None):
        if (real := folder.resolve()) not in read:
            read.add(real)
            yield from (
                path for path in folder.iterdir() if not path.name.startswith(".") and not path.is_dir()
            )


def _ours(folder: Path) -> type[Folder] | None:
    """Whether a run, a store or a fine-tuning lies there, and which."""
    kind = kind_of(folder)
    return kind if kind in (RunFolder, StoreFolder, TuningFolder) else None


def _kind(name: str) -> tuple[str, str]:
    """Format and compression that a file's name tells ("" when it tells none)."""
    stem, suffix = os.path.splitext(name.lower())
    compression = suffix if suffix in COMPRESSIONS else ""
    return FORMATS.get(os.path.splitext(stem)[1] if compression else suffix, ""), compression


def _file(name: str, path: Path, forced: str, named: bool = True) -> Source:
    return Source(name, "file", path, *_told(path.name, name, forced), named)


def _told(listed: str, name: str, forced: str) -> tuple[str, str]:
    """(format, compression) of a file by the name it has, or by what the user says."""
    known, compression = _kind(listed)
    if forced == "auto" and not known:
        fix = f"Use {_SUFFIXES}, or give `data.format`"
        raise CorpusError("unrecognised file extension", where=name, fix=fix)
    return known if forced == "auto" else forced, compression


def _pipe(name: str, path: Path, scratch: Path, forced: str) -> Source:
    known, compression = _kind(path.name)
    format = (known or "txt") if forced == "auto" else forced
    with explain(name), open(path, "rb") as stream:
        return _copied(
            Source(name, "file", format=format, compression=compression, argument=name), stream, scratch
        )


def _copied(source: Source, stream: IO[bytes], scratch: Path) -> Source:
    scratch.mkdir(parents=True, exist_ok=True)
    target = scratch / f"source-{sum(1 for _ in scratch.glob('source-*')):06d}"
    with durable.explain_disk_errors(target), open(target, "wb") as file:
        shutil.copyfileobj(stream, file, 1 << 20)
    return replace(source, path=target)


def _remote(url: str, scratch: Path, forced: str) -> Iterator[Source]:
    """A remote file, or through fsspec a glob or folder."""
    for name, opened in _web(url) if url.startswith(("http://", "https://")) else _file_system(url):
        format, compression = _told(re.sub(r"[?#].*", "", name), name, forced)
        with explain(name), opened() as stream:
            yield _copied(
                Source(name, "file", format=format, compression=compression, argument=url), stream, scratch
            )


def _web(url: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """One file over http; fsspec would need two more packages for it."""
    from urllib.request import urlopen

    yield url, lambda: urlopen(url, timeout=60)


def _file_system(url: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    import fsspec

    with explain(url):
        system, path = fsspec.core.url_to_fs(url)
        if glob.has_magic(path):
            files = sorted(system.glob(path))
        else:
            files = [path] if _kind(path)[0] else sorted(file for file in system.find(path) if _kind(file)[0])
    if not files:
        raise CorpusError("no text files found there", where=url, fix=f"Recognised extensions: {_SUFFIXES}")
    for file in files:
        yield url if file == path else system.unstrip_protocol(file), partial(system.open, file, "rb")


@contextmanager
def explain(
    name: str, kind: type[Exception] = Exception, error: type[ElectraError] = CorpusError
) -> Iterator[None]:
    """A file system's error in one line that names the source; fsspec's raise every kind of exception."""
    try:
        yield
    except ElectraError:
        raise
    except kind as problem:
        reason = getattr(problem, "strerror", None) or str(problem).strip() or type(problem).__name__
        raise error(f"cannot be read ({reason.splitlines()[0]})", where=name) from problem
