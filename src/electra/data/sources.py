"""Finds sources of text: files, folders, globs, stdin, URLs, hub data sets, Python's documentation.

The arguments become a list of `Source`s in a stable order: arguments as given, and the files of a folder,
glob or zip file sorted. Sources that cannot be read twice (stdin, pipes, remote files) are first copied into
a scratch folder. The files of a folder that are not read are counted and reported; it is an error if they
hold most of its text.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any

from electra.artifacts import FinetuningFolder, Folder, RunFolder, StoreFolder, kind_of
from electra.data import python_docs
from electra.data.folders import walk_folders
from electra.data.hub_files import DATA_SET
from electra.data.lines import COMPRESSIONS, HEAD, decode_head, encoding_of, expansion_error, open_bytes
from electra.data.table_files import FORMATS as TABLE_FORMATS
from electra.data.table_files import (
    SAVE_AS_CSV,
    SPREADSHEETS,
    ZIP,
    files_of,
    is_saved_dataset,
    saved_splits,
)
from electra.data.tables import EXPANSION_BYTES, HIDDEN, ReadOptions, get_field, stream_table
from electra.foundation import durable
from electra.foundation.errors import CorpusError, ElectraError, reason_of
from electra.foundation.options import STDIN
from electra.foundation.progress import Say, quiet
from electra.foundation.terminal_text import with_article

FORMATS = {".txt": "txt", **TABLE_FORMATS}
TEXT_EXPANSION_RATIO = 1000  # a file may expand to EXPANSION_BYTES plus this many times its size
_SUFFIXES = f"{' '.join(FORMATS)}, each also {' '.join(COMPRESSIONS)}, and {ZIP}"
_ALWAYS = ("txt", "jsonl", "parquet")  # tables in other formats may hold metadata instead of text
_INTERCHANGEABLE = ({"json", "jsonl"}, {"csv", "tsv"})
UNPACK = "Unpack it, and pass the folder"
_UNSUPPORTED = {  # advice -> common extensions of files that are not read
    "Extract its text into .txt or .jsonl files first": ".htm .html .xml .pdf .doc .docx .odt .epub .warc",
    UNPACK: ".tar .tgz .7z .rar",
    SAVE_AS_CSV: SPREADSHEETS,
}
WIKI = re.compile(r"<doc id=\"[^\"]*\"[^>\n]*>\s*")  # the first line of a document from WikiExtractor
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f\ud800-\udfff]")
_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.\-]+://")


@dataclass(frozen=True)
class Texts:
    """Texts from Python, which are read as often as needed."""

    items: Iterable[Any]
    field: str = "text"

    def __str__(self) -> str:
        return "texts"


Argument = str | Path | Texts


@dataclass(frozen=True)
class Source:
    """A file, data set or stream from which text is read."""

    name: str  # for messages and records
    kind: str  # "file", "texts", "python-docs" or "hub"
    path: Path = Path()  # the file, or the copy of a source that cannot be read twice
    format: str = ""  # format of a file: one of the values of FORMATS
    compression: str = ""  # compression of a file: "" or one of COMPRESSIONS
    named: bool = True  # whether the user named it, so that it must contain text; False: it is from a folder
    argument: str = ""  # the user's argument, if it is read from a copy
    member: str = ""  # the name in a zip file
    texts: Texts | None = None

    def describe(self) -> dict[str, Any]:
        """Returns the identity of the content: the name, and the size and SHA-256 of the raw file.

        A hub data set has only a name; texts are like a file of JSON lines. Raises CorpusError if the file
        cannot be read.
        """
        if self.kind == "python-docs":
            return python_docs.describe()
        if self.kind == "hub":
            return {"name": self.name, "argument": self.name}
        if self.texts is not None:
            size, hasher = 0, hashlib.sha256()
            for text in self.texts.items:
                line = f"{json.dumps({self.texts.field: text})}\n".encode()
                size += len(line)
                hasher.update(line)
            return {"name": self.name, "size": size, "sha256": hasher.hexdigest()}
        with convert_errors(self.name, OSError), self.file() as path:
            listing = {"name": self.name, "size": path.stat().st_size, "sha256": durable.sha256(path)}
        return listing | ({"argument": self.argument} if self.argument else {})

    @contextmanager
    def file(self) -> Iterator[Path]:
        """Yields the file to read; for a member of a zip file, a temporary copy."""
        if not self.member:
            yield self.path
            return
        with tempfile.TemporaryDirectory(prefix="electra-") as folder:
            target = Path(folder) / f"member.{self.format}{self.compression}"
            with (
                convert_errors(self.name),
                zipfile.ZipFile(self.path) as archive,
                archive.open(self.member) as stream,
                open(target, "wb") as file,
            ):
                shutil.copyfileobj(stream, file, 1 << 20)  # at most the listed size
            yield target


@dataclass(frozen=True)
class SourceOptions:
    """Settings that decide which files are read, and how; `say` prints notes."""

    format: str = "auto"
    field: str = "text"
    encoding: str | None = None
    say: Say = quiet


def is_remote(name: str) -> bool:
    """Whether the name is a URL."""
    return bool(_URL.match(name))


def must_be_source(argument: str) -> bool:
    """Whether a string must name a source: a special name, a URL, or a file with a known extension."""
    is_special = argument in {STDIN, python_docs.NAME} or argument.startswith(DATA_SET) or is_remote(argument)
    return is_special or ("\n" not in argument and _has_known_extension(argument))


def find_sources(
    arguments: Sequence[Argument],
    scratch: Path,
    options: SourceOptions = SourceOptions(),
) -> list[Source]:
    """Resolves the user's arguments to sources; a file that is named twice is read once.

    Args:
        arguments: files, folders, globs, addresses and special names.
        scratch: a folder for copies of sources that cannot be read twice.
        options: which files are read, and how.

    Raises:
        CorpusError: an argument does not exist, cannot be read or has no text.
    """
    if not arguments:
        fix = f"Pass files, folders, globs, - for stdin, or {python_docs.NAME}"
        raise CorpusError("no text to read", fix=fix)
    found: dict[str, Source] = {}
    for argument in arguments:
        with convert_errors(str(argument), OSError):
            for source in _expand(argument, scratch, options):
                is_file = source.kind == "file"
                name = source.path.resolve() if is_file else source.name
                found.setdefault(f"{name}/{source.member}{id(source.texts) if source.texts else ''}", source)
    return list(found.values())


def is_same_text(
    listings: list[dict[str, Any]],
    arguments: Sequence[Argument],
    options: SourceOptions = SourceOptions(),
) -> bool:
    """Whether the arguments still have the content of earlier `listings`, as from `Source.describe`.

    Stdin, pipes, addresses and hub data sets are compared by name only. Raises CorpusError like
    `find_sources`.
    """
    current_listings: list[dict[str, Any]] = []
    for argument in arguments:
        if not isinstance(argument, Texts) and _is_read_once(str(argument)):
            current_listings.append({"argument": str(argument)})
        else:
            current_listings += [source.describe() for source in find_sources([argument], Path(), options)]
    # A glob of addresses has several listings for one argument.
    recorded, current = ([*dict.fromkeys(map(_identity, each))] for each in (listings, current_listings))
    return recorded == current


def _identity(listing: dict[str, Any]) -> tuple[Any, ...]:
    return ("named", listing["argument"]) if "argument" in listing else (listing["size"], listing["sha256"])


def _is_read_once(argument: str) -> bool:
    return argument.startswith(DATA_SET) or is_remote(argument) or _is_pipe(argument)


def _is_pipe(argument: str) -> bool:
    path = Path(argument).expanduser()
    return argument == STDIN or (path.exists() and not path.is_file() and not path.is_dir())


def _expand(given: Argument, scratch: Path, options: SourceOptions) -> Iterator[Source]:
    if isinstance(given, Texts):
        yield Source("texts", "texts", texts=given)
        return
    argument = str(given)
    path = Path(argument).expanduser()
    if argument == python_docs.NAME:
        yield Source(argument, "python-docs")
    elif argument.startswith(DATA_SET):
        yield Source(argument, "hub")
    elif is_remote(argument):
        yield from _remote(argument, scratch, options)
    elif path.is_dir():
        if (kind := _electra_kind(path)) is not None:
            fix = "Pass a store as `store`" if kind is StoreFolder else "Pass the folder of the text"
            raise CorpusError(f"{with_article(kind.KIND)}, not text", where=argument, fix=fix)
        yield from _Folder(argument, path, options).sources()
    elif _is_pipe(argument):
        yield _piped(argument, path, scratch, options)
    elif path.is_file():
        yield from _file(argument, path, options)
    elif glob.has_magic(argument):
        files = sorted(Path(match) for match in glob.glob(str(path), recursive=True) if os.path.isfile(match))
        if not files:
            raise CorpusError("no file matches this pattern", where=argument, fix="Check the pattern with ls")
        for file in files:
            yield from _file(str(file), file, options)
    else:
        raise CorpusError("no such file or folder", where=argument)


class _Folder:
    """Chooses which files of a folder are read, and counts the others."""

    def __init__(self, name: str, root: Path, options: SourceOptions) -> None:
        self.name, self.root, self.options = name, root, options
        self.skipped: dict[str, list[str]] = {}  # kind of file -> names
        self.bytes_read = self.skipped_bytes = self.skipped_text = 0

    def sources(self) -> list[Source]:
        """Returns the files to read. Raises CorpusError if there are none, or most text would be skipped."""
        files = sorted(
            _files_below(self.root, self._skip), key=lambda file: file.relative_to(self.root).as_posix()
        )
        sources = [source for file in files for source in self._sources_in(file)]
        self._report(bool(sources))
        return sources

    def _sources_in(self, file: Path) -> Iterator[Source]:
        if file.name.lower().endswith(ZIP):
            candidates = [replace(source, named=False) for source in _zipped(str(file), file)]
        else:
            format, compression = _format_and_compression(file.name)
            candidates = [Source(str(file), "file", file, format, compression, named=False)]
        for source in candidates or [Source(str(file), "file", file)]:
            format, kind = self._decide(source)
            size = file.stat().st_size // max(1, len(candidates))
            if format:
                self.bytes_read += size
                yield replace(source, format=format)
            elif size:
                holds_text = UNPACK[0].lower() + UNPACK[1:] in kind or bool(source.format) or _is_text(source)
                self._skip(file, kind, size if holds_text else 0)

    def _decide(self, source: Source) -> tuple[str, str]:
        """Returns the format in which to read a file ("": skip it), and a phrase for files of its kind."""
        suffix, advice = _extension(source.member or source.path.name, source.compression)
        has_extension = bool(suffix) and not suffix[1:].isdigit()
        kind = f"{suffix}{source.compression} files" if has_extension else "files without an extension"
        kind += f" ({advice[0].lower()}{advice[1:]})" if advice else ""
        forced = self.options.format
        if forced != "auto":
            fits = source.format == forced or (not source.format and _is_text(source))
            if {source.format, forced} in _INTERCHANGEABLE:
                fits = _has_text_field(replace(source, format=forced), self.options)
            return forced if fits else "", kind
        if source.format in _ALWAYS or (source.format and _has_text_field(source, self.options)):
            return source.format, kind
        if source.format:
            return "", f"without a field {self.options.field!r}, {kind}"
        head = _head(source) if not has_extension or source.compression else ""
        return "txt" if WIKI.match(head) else "jsonl" if head.startswith('{"') else "", kind

    def _skip(self, file: Path, kind: str, text: int = 0) -> None:
        self.skipped.setdefault(kind, []).append(file.relative_to(self.root).as_posix())
        self.skipped_text += text
        self.skipped_bytes += file.stat().st_size if file.is_file() else 0

    def _report(self, any_read: bool) -> None:
        kinds = sorted(self.skipped.items(), key=lambda entry: -len(entry[1]))
        listed = "; ".join(
            f"{len(files):,} {kind if len(files) > 1 else kind.replace('files', 'file', 1)} ({files[0]}"
            f"{', ...' if len(files) > 1 else ''})"
            for kind, files in kinds
        )
        fix = "To read them, set their format with `data.format`, or their field with `data.text_field`"
        if not any_read:
            contents, fix = (f" (it has {listed})", f"{fix}; r") if listed else ("", "R")
            problem = f"no text files in this folder{contents}"
            raise CorpusError(problem, where=self.name, fix=f"{fix}ecognised extensions: {_SUFFIXES}")
        if self.skipped_text > self.bytes_read:
            problem = f"most of the text of this folder would be skipped: {listed}"
            raise CorpusError(problem, where=self.name, fix=f"{fix}, or pass the files to read as a glob")
        if listed:
            skipped_kb, total_kb = self.skipped_bytes / 1e3, (self.skipped_bytes + self.bytes_read) / 1e3
            self.options.say(f"{self.name}: skipped {skipped_kb:,.1f} of {total_kb:,.1f} kB: {listed}")


def _head(source: Source) -> str:
    """Returns the first characters of a file; "" if it cannot be read."""
    with suppress(ElectraError, OSError), source.file() as path:
        with open_bytes(path, source.compression, source.name, error=CorpusError) as stream:
            content = stream.peek(HEAD)[:HEAD]
        return decode_head(content, encoding_of(content))
    return ""


def _is_text(source: Source) -> bool:
    head = _head(source)
    return bool(head) and not count_control_characters(head)


def count_control_characters(head: str) -> int:
    """Returns how many control characters and undecoded bytes a file begins with; 0 if they are few."""
    count = len(_CONTROL.findall(head))
    return count if count > 8 and count * 10 > len(head) else 0


def _has_text_field(source: Source, options: SourceOptions) -> bool:
    """Whether a table has the text field, judging by its columns or its first 100 rows."""
    try:
        with source.file() as path:
            ratio, field = TEXT_EXPANSION_RATIO, options.field
            settings = ReadOptions(source.format, options.encoding, lenient=True, ratio=ratio, only=field)
            table = stream_table(path, settings)
            if table.columns:
                return table.find_column(field) is not None
            return any(get_field(row, field) is not None for _, row in islice(table.rows, 100))
    except ElectraError:
        return False


def _files_below(root: Path, skip: Callable[[Path, str], None]) -> Iterator[Path]:
    """Yields the files below a folder, except hidden ones and electra's own runs, stores and fine-tunings.

    No folder is read twice, even if there are links to it. From a data set that `datasets` saved, the
    training split is read, or else the first one. `skip` is called with other files and their kind.
    """

    def fail(error: OSError) -> None:
        raise CorpusError(f"cannot be read ({error.strerror})", where=error.filename)

    visited: set[Path] = set()
    skipped: set[Path] = set()
    for folder in walk_folders(root, fail=fail, enter=lambda folder: _electra_kind(folder) is None):
        splits = saved_splits(folder)
        kept = splits.get("train") or next(iter(splits.values()), None)
        for split in (each for each in splits.values() if each != kept):
            skipped.add(split)
            skip(split, "saved splits")
        if folder in skipped or folder.resolve() in visited:
            continue
        visited.add(folder.resolve())
        if splits or is_saved_dataset(folder):
            yield from () if splits else files_of(folder)
            continue
        for path in folder.iterdir():
            if path.name.startswith(".") or path.is_dir():
                continue
            if path.exists():
                yield path
            else:
                skip(path, "broken links")


def _electra_kind(folder: Path) -> type[Folder] | None:
    """Returns the class of a run, store or fine-tuning folder; None for any other folder."""
    kind = kind_of(folder)
    return kind if kind in (RunFolder, StoreFolder, FinetuningFolder) else None


def _has_known_extension(name: str) -> bool:
    return bool(_format_and_compression(name)[0]) or name.lower().endswith(ZIP)


def _format_and_compression(name: str) -> tuple[str, str]:
    """Returns the format and compression that a file's extension indicates ("" if unknown)."""
    stem, suffix = os.path.splitext(name.lower())
    compression = suffix if suffix in COMPRESSIONS else ""
    return FORMATS.get(os.path.splitext(stem)[1] if compression else suffix, ""), compression


def _file(name: str, path: Path, options: SourceOptions) -> Iterator[Source]:
    if path.name.lower().endswith(ZIP):
        members = list(_zipped(name, path, options.format))
        if not members:
            fix = f"Recognised extensions: {_SUFFIXES}"
            raise CorpusError("no text files in this zip file", where=name, fix=fix)
        yield from members
    else:
        yield Source(name, "file", path, *_format_of(path.name, name, options.format, path))


def _zipped(name: str, path: Path, forced: str = "auto") -> Iterator[Source]:
    """Yields the text files in a zip file."""
    with convert_errors(name), zipfile.ZipFile(path) as archive:
        entries = sorted(archive.infolist(), key=lambda entry: entry.filename)
    max_size = EXPANSION_BYTES + TEXT_EXPANSION_RATIO * path.stat().st_size
    if sum(entry.file_size for entry in entries) > max_size:
        raise expansion_error("expands to far more than its size", name, CorpusError)
    for entry in entries:
        format, compression = _format_and_compression(entry.filename)
        if format and not HIDDEN.search(entry.filename):
            format = format if forced == "auto" else forced
            yield Source(f"{name}/{entry.filename}", "file", path, format, compression, member=entry.filename)


def _format_of(listed: str, name: str, forced: str, path: Path | None = None) -> tuple[str, str]:
    """Returns (format, compression), judging by a file's name or as the user set it; detects WikiExtractor.

    Raises:
        CorpusError: the extension is not supported.
    """
    format, compression = _format_and_compression(listed)
    if forced != "auto":
        return forced, compression
    if not format and path is not None and WIKI.match(_head(Source(name, "file", path, "", compression))):
        format = "txt"
    if not format:
        suffix, advice = _extension(listed, compression)
        problem = f"{suffix} files are not supported" if advice else "unrecognised file extension"
        raise CorpusError(problem, where=name, fix=advice or f"Use {_SUFFIXES}, or set `data.format`")
    return format, compression


def _extension(name: str, compression: str) -> tuple[str, str]:
    """Returns a file's extension without that of a compression, and advice if it is unsupported (else "")."""
    suffix = Path(name.lower().removesuffix(compression)).suffix
    return suffix, next(
        (fix for fix, extensions in _UNSUPPORTED.items() if suffix and suffix in extensions.split()), ""
    )


def _piped(name: str, path: Path, scratch: Path, options: SourceOptions) -> Source:
    format, compression = _format_and_compression(path.name)
    format = (format or "txt") if options.format == "auto" else options.format
    source = Source(name, "file", format=format, compression=compression, argument=name)
    file = sys.stdin.fileno() if name == STDIN else path
    with convert_errors(name), open(file, "rb", closefd=name != STDIN) as stream:
        return _copied(source, stream, scratch)


def _copied(source: Source, stream: IO[bytes], scratch: Path, size: int | None = None) -> Source:
    """Returns the source with a copy of the stream, which must have `size` bytes (None: unknown)."""
    scratch.mkdir(parents=True, exist_ok=True)
    index = sum(1 for _ in scratch.glob("source-*"))
    target = scratch / f"source-{index:06d}.{source.format}{source.compression}"
    with durable.explain_disk_errors(target), open(target, "wb") as file:
        copy_bytes(stream, file, size, source.name)
    return replace(source, path=target)


def copy_bytes(
    stream: IO[bytes], file: IO[bytes], size: int | None, name: str, error: type[ElectraError] = CorpusError
) -> None:
    """Copies a remote file. Raises `error` if it is longer or shorter than `size` (None: unknown)."""
    num_copied = 0

    def read() -> bytes:
        with convert_errors(name, error=error):
            return stream.read(1 << 20)

    while block := read():
        num_copied += len(block)
        if size is not None and num_copied > size:
            raise error(f"longer than its listed size ({size:,} bytes)", where=name, fix="Try again later")
        file.write(block)
    if size is not None and num_copied < size:
        raise error(f"ended after {num_copied:,} of {size:,} bytes", where=name, fix="Try again")


def _remote(url: str, scratch: Path, options: SourceOptions) -> Iterator[Source]:
    """Yields a remote file or, through fsspec, the files of a remote glob or folder."""
    for name, open_stream in [(url, partial(open_web, url))] if is_web(url) else _file_system(url):
        file_name = re.sub(r"[?#].*", "", name)
        is_zip = file_name.lower().endswith(ZIP)
        format, compression = ("zip", "") if is_zip else _format_of(file_name, name, options.format)
        with convert_errors(name), open_stream() as stream:
            source = Source(name, "file", format=format, compression=compression, argument=url)
            copy = _copied(source, stream, scratch, listed_size(stream))
        if is_zip:
            yield from (replace(member, argument=url) for member in _zipped(name, copy.path, options.format))
        else:
            yield copy


def listed_size(stream: Any) -> int | None:
    """Returns the size of an open remote file according to its server or file system; None if unknown."""
    headers = getattr(stream, "headers", None)
    size = headers.get("Content-Length") if headers is not None else getattr(stream, "size", None)
    return int(size) if size is not None and str(size).isdecimal() else None


def is_web(address: str) -> bool:
    """Whether `open_web` opens the address; fsspec would need two more packages for it."""
    return address.startswith(("http://", "https://"))


def open_web(url: str, start: int = 0) -> IO[bytes]:
    """Opens a file over http at byte `start`, or at 0 if the server cannot do so."""
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    headers = {"User-Agent": "electra"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        opened: IO[bytes] = urlopen(Request(url, headers=headers), timeout=60)
    except HTTPError as error:
        error.close()  # it holds the connection open
        raise
    return opened


def _file_system(url: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    import fsspec

    with convert_errors(url):
        system, path = fsspec.core.url_to_fs(url)
        if _has_known_extension(path) and not glob.has_magic(path):
            files = [path]
        elif glob.has_magic(path):
            files = sorted(system.glob(path))
        else:
            files = sorted(filter(_has_known_extension, system.find(path)))
    if not files:
        fix = f"Recognised extensions: {_SUFFIXES}"
        raise CorpusError("no text files at this address", where=url, fix=fix)
    for file in files:
        yield url if file == path else system.unstrip_protocol(file), partial(system.open, file, "rb")


@contextmanager
def convert_errors(
    name: str,
    kind: type[Exception] = Exception,
    error: type[ElectraError] = CorpusError,
    what: str = "read",
) -> Iterator[None]:
    """Turns a file system's errors into an `error` that names the source.

    Only exceptions of class `kind` are caught; the file systems of fsspec raise many kinds. `what` is
    the failed action as a participle, for the message: "read" or "written".
    """
    try:
        yield
    except ElectraError:
        raise
    except kind as problem:
        reason = getattr(problem, "strerror", None) or reason_of(problem)
        raise error(f"cannot be {what} ({reason})", where=name) from problem
