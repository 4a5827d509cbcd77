"""Public data sets: where each is published, and the folders that tasks, suites and probes read.

`public.toml` lists them with the size and SHA-256 of every file. Downloads stay in OUT/.downloads until their
folder is complete, so that an interrupted download resumes. Archives are unpacked only after their checksum
is verified, and only the members that `public.toml` lists, under names without a slash. A folder is committed
in one rename, with `source.json` (its origin) and `manifest.json` (hashes of its files).
"""

from __future__ import annotations

import io
import json
import re
import shutil
import zipfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from itertools import chain, pairwise
from pathlib import Path
from typing import IO, Any, Literal

from electra.artifacts.data_set import DataFolder
from electra.data.remote import continues, open_at
from electra.data.sources import convert_errors, is_remote
from electra.foundation import durable
from electra.foundation.config import build, read_toml
from electra.foundation.errors import DataError, unknown_choice
from electra.foundation.progress import Progress, Say, no_progress, quiet
from electra.foundation.visible import plural

TABLE = Path(__file__).with_suffix(".toml")
DOWNLOADS = ".downloads"
BLOCK = 1 << 20  # bytes
# In WikiText, headings are "= Title =" and "= = Section = =", and joined words "well @-@ known", "1 @,@ 000".
HEADING = re.compile(r"((?:= )+)(.+?)((?: =)+)")
JOINED = re.compile(r" @([-,.])@ ")
Opener = Callable[[], AbstractContextManager[Any]]  # opens a stream of bytes


@dataclass(frozen=True)
class Download:
    """A published file."""

    url: str
    size: int
    """Bytes."""
    sha256: str
    name: str = ""
    """Its name in the folder ("": as in `url`)."""
    files: dict[str, str] = field(default_factory=dict)
    """The members of a zip file to unpack, by their names in the folder; `*` is the same text in both."""

    @property
    def file(self) -> str:
        """The name of the published file."""
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class PublicFolder:
    """A folder of a data set, and the published files from which it is made."""

    path: str
    """The folder below OUT."""
    downloads: tuple[Download, ...]
    convert: Literal["copy", "articles", "mrpc"] = "copy"
    """How its files are made: unchanged; WikiText as a JSON object for each article; or MRPC as in GLUE."""


@dataclass(frozen=True)
class PublicSet:
    """A data set, in one folder or in one for each task."""

    name: str
    title: str
    licence: str
    homepage: str
    use: str
    """A command that uses it; OUT stands for the folder that it was written to."""
    folders: tuple[PublicFolder, ...]

    @property
    def folder(self) -> str:
        """The name of the folder that it is written to."""
        return self.folders[0].path.partition("/")[0]

    @property
    def downloads(self) -> list[Download]:
        """The published files of all its folders."""
        return [download for folder in self.folders for download in folder.downloads]

    def address(self, download: Download, mirror: str = "") -> str:
        """Returns the address to download from: the published one, or MIRROR/SET/FILE."""
        return f"{mirror.rstrip('/')}/{self.name}/{download.file}" if mirror else download.url


@dataclass(frozen=True)
class _Table:
    sets: tuple[PublicSet, ...]


@cache
def public_sets() -> dict[str, PublicSet]:
    """Returns all data sets by name."""
    table = build(_Table, read_toml(TABLE), where=TABLE.name)
    return {data_set.name: data_set for data_set in table.sets}


def find_sets(names: Sequence[str]) -> list[PublicSet]:
    """Returns the data sets with these names. Raises DataError for an unknown name, or for no name."""
    known = public_sets()
    if not names:
        raise DataError("no data set to fetch", fix=f"Name at least one of {', '.join(known)}")
    for name in names:
        if name not in known:
            what, fix = unknown_choice(name, known)
            raise DataError(what, where="data set", fix=fix)
    return [known[name] for name in dict.fromkeys(names)]


def fetch(
    sets: Sequence[PublicSet],
    out: Path,
    mirror: str = "",
    say: Say = quiet,
    progress: Progress = no_progress,
) -> None:
    """Writes the folders of these sets below `out`, except those that are already complete.

    With `mirror`, an address or a folder, each file is read from MIRROR/SET/FILE.

    Raises:
        DataError: a file cannot be read or is not the published one, or a folder contains something else.
        RunFolderError: another process is downloading to `out`.
    """
    if mirror and not is_remote(mirror) and not Path(mirror).is_dir():
        raise DataError("no such folder", where=mirror)
    missing = [
        (data_set, folder)
        for data_set in sets
        for folder in data_set.folders
        if not _is_complete(DataFolder(out / folder.path), _record(data_set, folder), say)
    ]
    if not missing:
        return
    with _downloads(out) as downloads:
        for data_set, folder in missing:
            paths = [downloads / f"{item.sha256[:16]}-{item.file}" for item in folder.downloads]
            for item, path in zip(folder.downloads, paths, strict=True):
                _download(item, data_set.address(item, mirror), path, progress)
            streams = dict(chain.from_iterable(map(_streams, folder.downloads, paths)))
            files = _converted(folder.convert, streams)
            progress(f"writing {out / folder.path}", None)
            files[DataFolder.RECORD] = durable.to_json(_record(data_set, folder))
            durable.commit_directory(out / folder.path, files)
            say(f"written: {out / folder.path} ({plural(len(files) - 1, 'file')})")
            for path in paths:
                path.unlink()


def _record(data_set: PublicSet, folder: PublicFolder) -> dict[str, Any]:
    return {
        **{"title": data_set.title, "licence": data_set.licence, "homepage": data_set.homepage},
        **{"convert": folder.convert, "downloads": [asdict(item) for item in folder.downloads]},
    }


def _is_complete(folder: DataFolder, record: Mapping[str, Any], say: Say) -> bool:
    """Whether the folder contains this data. Raises DataError if it contains anything else."""
    path, fix = folder.path, "Remove it, or choose another `out`"
    durable.recover(path)
    if not folder.exists():
        if path.exists() and not (path.is_dir() and not any(path.iterdir())):
            raise DataError("already exists and was not written by electra data", where=path, fix=fix)
        return False
    if any(folder.record.get(name) != record[name] for name in ("convert", "downloads")):
        raise DataError("contains another version of this data set", where=path, fix=fix)
    if (problem := durable.verify_directory(path)) is not None:
        raise DataError(problem, where=path, fix="Remove the folder to download it again")
    say(f"already complete: {path}")
    return True


@contextmanager
def _downloads(out: Path) -> Iterator[Path]:
    """Yields the locked folder of downloads, and removes it afterwards unless a download can resume."""
    folder, existed = out / DOWNLOADS, out.exists()
    try:
        with durable.lock(folder):
            try:
                yield folder
            finally:
                if not [path for path in folder.iterdir() if path.name != ".lock"]:
                    (folder / ".lock").unlink(missing_ok=True)
                    folder.rmdir()
    finally:
        if not existed:
            with suppress(OSError):  # it is not empty
                out.rmdir()


def _download(download: Download, address: str, path: Path, progress: Progress) -> None:
    """Downloads a file, or the rest of it. Raises DataError if its size or checksum differs."""
    size, received = download.size, path.stat().st_size if path.exists() else 0
    activity = f"downloading {download.file}: {size / 1e6:,.2f} MB"
    try:
        with (
            durable.explain_disk_errors(path),
            open(path, "r+b" if received else "wb") as file,
            closing(_blocks(address, received)) as blocks,
        ):
            for offset, block in blocks if received < size else ():
                file.seek(offset)
                file.truncate()
                file.write(block)
                received = offset + len(block)
                progress(activity, min(received / size, 0.999))
                if received > size:
                    break
    finally:
        if received == 0:
            path.unlink(missing_ok=True)
    if received < size:
        problem = f"ended after {received:,} of {size:,} bytes"
        raise DataError(problem, where=address, fix="Rerun the command to resume")
    if received > size or durable.sha256(path) != download.sha256:
        path.unlink()
        difference = (
            f"longer than {size:,} bytes" if received > size else f"its SHA-256 is not {download.sha256}"
        )
        fix = "It was damaged in transfer, or replaced by another version: try again, or use `mirror`"
        raise DataError(f"not the published file ({difference})", where=address, fix=fix)


def _blocks(address: str, start: int) -> Generator[tuple[int, bytes], None, None]:
    """Yields offsets and bytes of a file from `start`, or from 0 if the server cannot resume."""
    with convert_errors(address, error=DataError), open_at(address, start) as stream:
        offset = start if continues(stream, start) else 0
        while block := stream.read(BLOCK):
            yield offset, block
            offset += len(block)


def _streams(download: Download, path: Path) -> Iterator[tuple[str, Opener]]:
    """Yields the files of a download: the name in the folder, and a function that opens the content."""
    if not download.files:
        yield download.name or download.file, partial(open, path, "rb")
        return
    with zipfile.ZipFile(path) as archive:
        members = archive.namelist()
    for name, member in download.files.items():
        pattern = re.compile(re.escape(member).replace(r"\*", "([^/]+)"))
        matches = list(filter(None, map(pattern.fullmatch, members)))
        if not matches:
            raise DataError(f"the archive has no {member}", where=download.url)
        for match in matches:
            yield name.replace("*", match[1]) if "*" in name else name, partial(_member, path, match[0])


@contextmanager
def _member(path: Path, name: str) -> Iterator[IO[bytes]]:
    with zipfile.ZipFile(path) as archive, archive.open(name) as stream:
        yield stream


def _converted(conversion: str, streams: Mapping[str, Opener]) -> dict[str, durable.Content]:
    """Returns the files to write, by name."""
    if conversion == "mrpc":
        return _mrpc(streams)
    write = _write_articles if conversion == "articles" else _copy
    return {name: partial(write, opener) for name, opener in streams.items()}


def _copy(opener: Opener, target: Path) -> None:
    with opener() as stream, open(target, "wb") as file:
        shutil.copyfileobj(stream, file, BLOCK)


def _write_articles(opener: Opener, target: Path) -> None:
    with opener() as stream, open(target, "w", encoding="utf-8") as file:
        for title, text in articles(io.TextIOWrapper(stream, "utf-8", newline="\n")):
            file.write(json.dumps({"title": title, "text": text}, ensure_ascii=False) + "\n")


def articles(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yields the title and text of each article of WikiText, with one paragraph or heading per line.

    An article begins with a first-level heading between empty lines. The marks of headings and joined words
    are removed.
    """
    title, previous = "", ""
    text: list[str] = []
    for line, following in pairwise(chain((line.strip() for line in lines), [""])):
        heading = HEADING.fullmatch(line)
        if heading and heading[1] == "= " and heading[3] == " =" and not previous and not following:
            if text:
                yield title, "\n".join(text)
            title, text = JOINED.sub(r"\1", heading[2]), []
        elif line:
            text.append(JOINED.sub(r"\1", heading[2] if heading else line))
        previous = line
    if text:
        yield title, "\n".join(text)


def _mrpc(streams: Mapping[str, Opener]) -> dict[str, durable.Content]:
    """Returns MRPC as in GLUE: the dev set is given by a list of ids, and the test set has no labels."""

    def rows(name: str) -> list[list[str]]:
        with streams[name]() as stream:
            text = stream.read().decode("utf-8-sig")
        return [line.strip().split("\t") for line in text.split("\n") if line.strip()]

    def table(rows: Iterable[Sequence[str]]) -> bytes:
        return "".join("\t".join(row) + "\n" for row in rows).encode()

    header, *labelled = rows("msr_paraphrase_train.txt")
    dev_ids = {tuple(pair) for pair in rows("mrpc_dev_ids.tsv")}
    is_dev = [tuple(row[1:3]) in dev_ids for row in labelled]
    unlabelled = [[str(index), *row[1:]] for index, row in enumerate(rows("msr_paraphrase_test.txt")[1:])]
    return {
        "train.tsv": table([header, *(row for row, dev in zip(labelled, is_dev, strict=True) if not dev)]),
        "dev.tsv": table([header, *(row for row, dev in zip(labelled, is_dev, strict=True) if dev)]),
        "test.tsv": table([["index", *header[1:]], *unlabelled]),
    }
