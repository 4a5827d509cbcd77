"""Finds sources of text: files, folders, globs, stdin, hub data sets, Python's documentation.

The arguments become a list of `Source`s in a stable order: arguments as given, and the files of a folder or
glob sorted. What cannot be read twice (stdin, pipes) is first copied into a scratch folder.
"""

import glob
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

from electra.artifacts import FinetuningFolder, RunFolder, StoreFolder, kind_of
from electra.data.corpus import python_docs
from electra.data.corpus.folders import walk_folders
from electra.data.tables.hub_files import DATA_SET
from electra.data.tables.lines import COMPRESSIONS
from electra.data.tables.table_files import FORMATS as TABLE_FORMATS
from electra.data.tables.table_files import is_saved_dataset, saved_splits, split_name, unknown_extension
from electra.foundation import durable
from electra.foundation.errors import CorpusError, translated
from electra.foundation.options import STDIN
from electra.foundation.progress import Say, quiet
from electra.foundation.terminal_text import plural, with_article

FORMATS = {".txt": "txt", **TABLE_FORMATS}
_WIKI_FILE = re.compile(r"wiki_\d+")  # the names that WikiExtractor gives to its files
_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.\-]+://")
Argument = str | Path
convert_errors = partial(translated, CorpusError, "cannot be read")


@dataclass(frozen=True)
class Source:
    """A file, data set or stream from which text is read."""

    name: str  # for messages and records; also the name of a hub data set or of `python-docs`
    path: Path | None = None  # the file, or the copy of a source that cannot be read twice
    format: str = ""  # of a file: one of the values of FORMATS
    argument: str = ""  # the user's argument, if it is read from a copy

    def describe(self) -> dict[str, Any]:
        """Returns the name and, unless on the hub, the size and SHA-256; CorpusError if it cannot be read."""
        if self.name == python_docs.NAME:
            return python_docs.describe()
        if self.path is None:
            return {"name": self.name, "argument": self.name}
        with convert_errors(OSError, where=self.name):
            size, digest = self.path.stat().st_size, durable.sha256(self.path)
            listing = {"name": self.name, "size": size, "sha256": digest}
        return listing | ({"argument": self.argument} if self.argument else {})


def find_sources(arguments: Sequence[Argument], scratch: Path, format: str = "auto", say: Say = quiet) -> list[Source]:
    """Resolves files, folders, globs and special names; a file that is named twice is read once.

    What cannot be read twice is copied to `scratch`; `format` is one of the values of FORMATS, for all files
    (auto: by their extensions). Raises CorpusError if one does not exist, cannot be read or has no text.
    """
    if not arguments:
        fix = f"Pass files, folders, globs, - for stdin, or {python_docs.NAME}"
        raise CorpusError("no text to read", fix=fix)
    found: dict[Any, Source] = {}
    for argument in arguments:
        with convert_errors(OSError, where=argument):
            for source in _expand(argument, scratch, format, say):
                found.setdefault(source.path.resolve() if source.path else source.name, source)
    return list(found.values())


def is_same_text(listings: list[dict[str, Any]], arguments: Sequence[Argument], format: str = "auto") -> bool:
    """Whether the arguments still have the content of `listings`; of stdin, pipes and hubs: the names."""
    current_listings: list[dict[str, Any]] = []
    for argument in arguments:
        name = str(argument)
        if _is_pipe(name):
            current_listings.append({"argument": name})
        else:
            current_listings += [source.describe() for source in find_sources([argument], Path(), format)]
    recorded, current = ([*dict.fromkeys(map(_identity, each))] for each in (listings, current_listings))
    return recorded == current


def _identity(listing: dict[str, Any]) -> tuple[Any, ...]:
    return ("named", listing["argument"]) if "argument" in listing else (listing["size"], listing["sha256"])


def _is_pipe(argument: str) -> bool:
    path = Path(argument).expanduser()
    return argument == STDIN or (path.exists() and not path.is_file() and not path.is_dir())


def _expand(given: Argument, scratch: Path, format: str, say: Say) -> Iterator[Source]:
    argument = str(given)
    path = Path(argument).expanduser()
    if argument == python_docs.NAME or argument.startswith(DATA_SET):
        yield Source(argument)
    elif _URL.match(argument):
        fix = f"Download it first: curl -LO {argument}"
        raise CorpusError("an address, not a file", where=argument, fix=fix)
    elif path.is_dir():
        yield from _folder(argument, path, format, say)
    elif _is_pipe(argument):
        source = Source(argument, None, _format_of(path.name, format) or "txt", argument)
        file = sys.stdin.fileno() if argument == STDIN else path
        with convert_errors(where=argument), open(file, "rb", closefd=argument != STDIN) as stream:
            yield _copied(source, path.name, stream, scratch)
    elif path.is_file():
        yield Source(argument, path, _known_format(path.name, argument, format))
    elif glob.has_magic(argument):
        files = sorted(match for match in glob.glob(str(path), recursive=True) if os.path.isfile(match))
        if not files:
            raise CorpusError("no file matches this pattern", where=argument, fix="Check the pattern with ls")
        for file in files:
            yield Source(file, Path(file), _known_format(file, file, format))
    else:
        raise CorpusError("no such file or folder", where=argument)


def _folder(name: str, root: Path, format: str, say: Say) -> Iterator[Source]:
    """Yields the files of a folder whose extension is known (all, if a format is set), and names the others.

    Hidden files and our own folders are left out, as are the JSON files that `datasets` saves beside Arrow.
    """
    own = (RunFolder, StoreFolder, FinetuningFolder)
    if (kind := kind_of(root)) in own:
        fix = "Pass a store as `store`" if kind is StoreFolder else "Pass the folder of the text"
        raise CorpusError(f"{with_article(kind.KIND)}, not text", where=name, fix=fix)

    files: list[Path] = []
    skipped: dict[str, list[str]] = {}  # extension -> names
    for folder in walk_folders(root, error=CorpusError, enter=lambda folder: kind_of(folder) not in own):
        if splits := saved_splits(folder):
            fix = f"Pass one: {', '.join(map(str, splits.values()))}"
            raise CorpusError("the data set has several splits", where=folder, fix=fix)
        pattern = "*.arrow" if is_saved_dataset(folder) else "*"
        for path in folder.glob(pattern):
            if path.name.startswith(".") or path.is_dir():
                continue
            if path.is_file() and _format_of(path.name, format):
                files.append(path)
            else:
                kind_of_file = split_name(path)[1] if path.is_file() else "broken links"
                skipped.setdefault(kind_of_file or "no extension", []).append(str(path.relative_to(root)))
    listed = "; ".join(f"{len(names)} of {kind} ({min(names)})" for kind, names in sorted(skipped.items()))
    if not files:
        problem = "no text files in this folder" + (f" (it has {listed})" if listed else "")
        fix = "To read others, pass them as a glob and set `data.format`; known extensions: "
        raise CorpusError(problem, where=name, fix=f"{fix}{' '.join(FORMATS)}")
    if skipped:
        say(f"{name}: {plural(sum(map(len, skipped.values())), 'file')} skipped: {listed}")
    for path in sorted(files, key=lambda file: file.relative_to(root).as_posix()):
        yield Source(str(path), path, _format_of(path.name, format))


def _format_of(name: str, format: str = "auto") -> str:
    if format != "auto":
        return format
    stem, extension = split_name(Path(name))
    return "txt" if _WIKI_FILE.fullmatch(stem) and not extension else FORMATS.get(extension, "")


def _known_format(listed: str, name: str, format: str) -> str:
    if not (found := _format_of(listed, format)):
        error = unknown_extension(Path(listed), [*FORMATS])
        raise CorpusError(error.what, where=name, fix=f"{error.fix}; `data.format` sets another format")
    return found


def _copied(source: Source, name: str, stream: IO[bytes], scratch: Path) -> Source:
    """Returns the source with a copy of the stream, which has the compression of `name`."""
    scratch.mkdir(parents=True, exist_ok=True)
    index = sum(1 for _ in scratch.glob("source-*"))
    suffix = Path(name).suffix.lower()
    compression = suffix if suffix in COMPRESSIONS else ""
    target = scratch / f"source-{index:06d}.{source.format}{compression}"
    read = convert_errors(where=source.name)(stream.read)  # what it raises is told from errors of the disk
    with durable.explain_disk_errors(target), open(target, "wb") as file:
        while block := read(1 << 20):
            file.write(block)
    return replace(source, path=target)
