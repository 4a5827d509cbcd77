"""Prepares a corpus in shards, on several machines, and merges them into one store.

    electra prepare CORPUS --tokenizer T --shard 3/8 --out shards/3      (one job of an array)
    electra prepare shards/* --merge --out store

    electra prepare CORPUS --tokenizer T --shard all/8 --out store       (on any number of machines)

The store is byte-identical to that of a single command: shards are contiguous parts of the list of files, the
merge drops duplicates of documents in earlier shards, and the hash of a document decides whether it is held
out.

With all/8, each process takes shards that no other has taken, in .store.shards next to the store, and one of
the processes merges them.

    SHARD/ train.ds  train.ds.index  train.docs  heldout.*   shard.json   tokenizer/   manifest.json
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from electra.artifacts.store import SPLITS, ShardFolder, ShardsFolder, StoreFolder, shard_name
from electra.data import store, store_builder
from electra.data.audit import Audit
from electra.data.corpus import Documents
from electra.data.deduplication import keep_documents
from electra.data.encoding import id_dtype
from electra.data.holding_out import DOCUMENT_DTYPE
from electra.data.settings import CorpusConfig
from electra.data.sorted_runs import DEFAULT_MEMORY_BYTES, DigestSet
from electra.data.sources import Argument
from electra.data.store import TokenStore
from electra.data.store_builder import SplitWriter, StageProgress
from electra.data.tokenizer import Tokenizer
from electra.foundation import durable, machine
from electra.foundation.config import differences
from electra.foundation.errors import ConfigError, CorpusError, Interrupted, StoreError
from electra.foundation.jobs import SharedWork
from electra.foundation.leases import Leases
from electra.foundation.progress import Say
from electra.foundation.signals import Stop

ALL = "all"
_DOCUMENTS = 1 << 16  # documents copied at a time


def parse_shard(text: str) -> tuple[int | None, int]:
    """Parses "3/8" as (3, 8); shards are counted from 0, like array jobs. "all/8" is (None, 8).

    With "auto" or "auto/8", the index, and the count if it is omitted, come from the job that this process
    belongs to: a Slurm array, an indexed Kubernetes Job, or torchrun. Without such a job, "auto/8" means
    "all/8".

    Raises:
        ConfigError: the text is not a shard, or the environment does not identify one.
    """
    index, slash, count = text.partition("/")
    if index == "auto":
        index, job_count = _shard_of_environment(count)
        slash, count = "/", count or job_count
    if index == ALL and slash and count.isdecimal() and int(count):
        return None, int(count)
    if not (slash and index.isdecimal() and count.isdecimal() and int(index) < int(count)):
        raise ConfigError(f"{text!r} is not a shard", key="shard", fix="Use 0/8, 1/8, ... 7/8, or all/8")
    return int(index), int(count)


ENVIRONMENTS = (  # variables that hold the index, the first index and the count in array jobs
    ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_COUNT"),
    ("JOB_COMPLETION_INDEX", "", "JOB_COMPLETIONS"),
    ("RANK", "", "WORLD_SIZE"),
)


def _shard_of_environment(requested: str) -> tuple[str, str]:
    """Returns the index and the count of shards; the count is "" if the environment lacks it.

    `requested` is the count that the user passes ("" if none). Outside a job, the index is "all" and
    the count the requested one. Raises ConfigError if there is neither a job nor a count.
    """
    for index_variable, first_variable, count_variable in ENVIRONMENTS:
        own_index = os.environ.get(index_variable, "")
        if own_index.isdecimal():
            first_index = os.environ.get(first_variable, "0")
            return str(int(own_index) - int(first_index)), os.environ.get(count_variable, "")
    if requested:
        return ALL, requested
    names = ", ".join(index_variable for index_variable, _, _ in ENVIRONMENTS)
    raise ConfigError(f"none of {names} is set", key="shard", fix="Use all/8, or 0/8, 1/8, ... 7/8")


def build_shard(
    sources: Sequence[Argument],
    tokenizer: Tokenizer,
    out: Path,
    shard: tuple[int, int],
    *,
    config: CorpusConfig | None = None,
    workers: int | None = None,
    memory: int = DEFAULT_MEMORY_BYTES,
    progress: StageProgress = lambda stage, characters: None,
) -> bool:
    """Encodes one shard of a corpus into the folder `out`; see `store_builder.build_store` for the arguments.

    Returns True if it was made, False if it existed already.

    Raises:
        ConfigError: an option is set that does not work across shards, or there are fewer files than shards.
        CorpusError: text is missing or cannot be read.
        StoreError: `out` contains something else, or another shard.
        RunFolderError: another process is building this shard.
    """
    config = config or CorpusConfig()
    _check_config(config)
    settings = {
        "corpus": config.record(sources),
        "tokenizer": store_builder.tokenizer_record(tokenizer),
        "shard": list(shard),
    }
    if out.exists() and any(out.iterdir()):
        recorded = _open(out)["settings"]
        changes = [f"{name} was {old!r}, now {new!r}" for name, old, new in differences(recorded, settings)]
        if changes:
            raise StoreError(
                f"contains another shard: {'; '.join(changes)}", where=out, fix="Choose another `out`"
            )
        store_builder.remove_stale_build(out)
        return False
    with store_builder.build_folder(out) as work:
        documents = Documents(sources, config, work / "copies", shard)
        audit = Audit(vocab_size=tokenizer.vocab_size, sources=documents.describe())
        with durable.explain_disk_errors(out):
            store_builder.write_documents(
                keep_documents(documents, audit, partial(progress, "encoding"), work, memory),
                tokenizer,
                workers or machine.cores(),
                work,
                audit,
            )
        files: dict[str, durable.Content] = {
            f"tokenizer/{name}": content for name, content in tokenizer.files().items()
        }
        files |= {
            ShardFolder.RECORD: durable.to_json(
                {"format": store.FORMAT, "settings": settings, "audit": asdict(audit)}
            )
        }
        files |= {name: partial(os.replace, work / name) for name in ShardFolder.split_files()}
        store_builder.publish(work, out, files)
    return True


def _check_config(config: CorpusConfig) -> None:
    if config.near_duplicates is not None:
        fix = "Prepare the corpus in one command, or without `near_duplicates`"
        raise ConfigError("near-duplicates cannot be found across shards", key="near_duplicates", fix=fix)
    if config.mix_exponent is not None:
        fix = "Prepare the corpus in one command, or without `mix_exponent`"
        raise ConfigError("mixing does not work across shards", key="data.mix_exponent", fix=fix)


def build_shards(
    sources: Sequence[Argument],
    tokenizer: Tokenizer,
    out: Path,
    count: int,
    *,
    config: CorpusConfig,
    workers: int | None,
    memory: int,
    say: Say,
    stop: Stop,
    progress: StageProgress = lambda stage, characters: None,
) -> None:
    """Makes the store `out` in `count` shards, together with all processes that run the same command.

    Each process takes shards that no other has taken. When all are done, one process merges them, while the
    others wait. See `store_builder.build_store` for the other arguments.

    Raises:
        ConfigError: an option is set that does not work across shards, or there are fewer files than shards.
        CorpusError, StoreError: as raised by `build_shard` and `merge`.
        RunFolderError: other processes are making this store with other settings.
        Interrupted: `stop` returned True.
    """
    _check_config(config)
    folder = ShardsFolder.of(out)
    settings = {
        "corpus": config.record(sources),
        "tokenizer": store_builder.tokenizer_record(tokenizer),
        "shards": count,
    }
    with folder.session(settings, say=say, stop=stop, shared=True) as session:
        session.share()

        def build(number: int, *, say: Say, stop: Stop) -> None:
            is_new = build_shard(
                sources,
                tokenizer,
                folder.shard(number).path,
                (number, count),
                config=config,
                workers=workers,
                memory=memory,
                progress=_stoppable(progress, stop, out),
            )
            if is_new:
                say(f"shard {number}/{count} written")

        def join(*, say: Say, stop: Stop) -> None:
            shards = [folder.shard(number).path for number in range(count)]
            merge(shards, out, _stoppable(progress, stop, out))

        shared = SharedWork(Leases(folder.leases), say, stop)
        numbers = {shard_name(number, count): number for number in range(count)}
        try:
            for _ in shared.run(
                {name: partial(build, number) for name, number in numbers.items()}, folder.has
            ):
                pass
            for _ in shared.run({"merge": join}, lambda name: StoreFolder(out).exists()):
                pass
        finally:
            begun = any(map(folder.has, numbers)) or shared.leases.held()
            if not begun or StoreFolder(out).exists():
                shutil.rmtree(folder.path, ignore_errors=True)


def _stoppable(progress: StageProgress, stop: Stop, out: Path) -> StageProgress:
    """Returns a `progress` that also raises Interrupted once `stop` returns True."""

    def report(stage: str, characters: int) -> None:
        if stop():
            raise Interrupted(out, saved=False)
        progress(stage, characters)

    return report


def missing_shards(out: Path, count: int) -> list[str]:
    """Returns what `build_shards` has still to do, each item with the process working on it, if any."""
    folder = ShardsFolder.of(out)
    if StoreFolder(out).exists():
        return []
    names = [shard_name(number, count) for number in range(count)]
    remaining = [name for name in names if not folder.has(name)] or ["merge"]
    return [Leases(folder.leases).label(name) for name in remaining]


def merge(
    folders: Sequence[Path], out: Path, progress: StageProgress = lambda stage, characters: None
) -> TokenStore:
    """Merges all shards of a corpus, in any order, into the store `out`.

    A store that was made from these shards is reused.

    Raises:
        StoreError: a shard is missing, damaged, repeated or from another corpus; or `out` contains something
            else.
        ConfigError: there are no folders.
        CorpusError: no shard contains text.
    """
    shards = _open_all(folders)
    settings = {name: value for name, value in shards[0][1]["settings"].items() if name != "shard"}
    tokenizer = Tokenizer.load(ShardFolder(shards[0][0]).tokenizer)
    if out.exists() and any(out.iterdir()):
        store_builder.remove_stale_build(out)
        existing = TokenStore.open(out).description if StoreFolder.is_at(out) else {}
        sources = [source for _, description in shards for source in description["audit"]["sources"]]
        if existing.get("settings") != settings or existing.get("sources") != sources:
            raise StoreError(
                "already exists, and was not made from these shards",
                where=out,
                fix="Choose another `out`, or remove it",
            )
        return TokenStore.open(out)
    with store_builder.build_folder(out) as work:
        audit = Audit(vocab_size=tokenizer.vocab_size)
        for _, description in shards:
            for name in (
                "documents_read",
                "documents_empty",
                "documents_duplicate",
                "bytes_replaced",
                "nuls_dropped",
            ):
                setattr(audit, name, getattr(audit, name) + description["audit"][name])
            audit.sources += description["audit"]["sources"]
            audit.notes += description["audit"].get("notes", [])  # absent in older shards
        with durable.explain_disk_errors(out):
            for split in SPLITS:
                setattr(
                    audit,
                    f"documents_{split}",
                    _join([folder for folder, _ in shards], SplitWriter(work, split), work, audit, progress),
                )
        if not audit.documents_train + audit.documents_heldout:
            raise CorpusError("no text in any of the shards", where=shards[0][0].parent)
        store_builder.commit_store(work, out, tokenizer, audit, settings)
    return TokenStore.open(out)


def _join(folders: list[Path], writer: SplitWriter, work: Path, audit: Audit, progress: StageProgress) -> int:
    """Appends one split of every shard, without duplicate documents. Returns the number of documents."""
    seen = DigestSet(work)
    dtype = id_dtype(audit.vocab_size)
    try:
        for folder in folders:
            tokens, ends, records = (
                _array(path, kind)
                for path, kind in zip(
                    ShardFolder(folder).files_of(writer.split), (dtype, "<u8", DOCUMENT_DTYPE), strict=True
                )
            )
            for first in range(0, len(ends), _DOCUMENTS):
                part = slice(first, first + _DOCUMENTS)
                start, stop = int(ends[first - 1]) if first else 0, int(ends[part][-1])
                sizes = np.concatenate([[int(ends[first]) - start], ends[part][1:] - ends[part][:-1]]).astype(
                    np.int64
                )
                is_new = np.array([seen.add(digest) for digest in records["digest"][part][:, 1].tolist()])
                writer.append(
                    tokens[start:stop][np.repeat(is_new, sizes)], sizes[is_new], records[part][is_new]
                )
                audit.documents_duplicate += int((~is_new).sum())
                # commit_store subtracts the tokens in the files
                audit.tokens_lost += int(sizes[is_new].sum())
                audit.characters += int(records["characters"][part][is_new].sum())
                audit.words += int(records["words"][part][is_new].sum())
                progress("merging", audit.characters)
    finally:
        writer.close()
    return writer.documents


def _array(path: Path, dtype: Any) -> npt.NDArray[Any]:
    return np.memmap(path, dtype=dtype, mode="r") if path.stat().st_size else np.empty(0, dtype=dtype)


def _open(folder: Path) -> dict[str, Any]:
    """Returns the content of a shard's shard.json, after verifying its files."""
    if not ShardFolder.is_at(folder):
        raise StoreError(
            f"not a shard (it contains no {ShardFolder.RECORD})",
            where=folder,
            fix="Make one with electra prepare --shard",
        )
    problem = durable.verify_directory(folder)
    if problem:
        raise StoreError(problem, where=folder, fix="Delete this shard and prepare it again")
    description: dict[str, Any] = ShardFolder(folder).record
    if description["format"] != store.FORMAT:
        raise StoreError(
            f"the shard has format {description['format']}, but this version reads {store.FORMAT}",
            where=folder,
        )
    return description


def _open_all(folders: Sequence[Path]) -> list[tuple[Path, dict[str, Any]]]:
    """Opens the shards and returns them in order, after checking that they are all shards of one corpus."""
    if not folders:
        raise ConfigError(
            "no shards to merge",
            where="electra prepare --merge",
            fix="For example: electra prepare shards/* --merge --out store",
        )
    opened = [(folder, _open(folder)) for folder in folders]
    opened.sort(key=lambda entry: int(entry[1]["settings"]["shard"][0]))
    first_folder, first_description = opened[0]
    count = int(first_description["settings"]["shard"][1])
    for folder, description in opened:
        settings = {**description["settings"], "shard": [0, description["settings"]["shard"][1]]}
        changes = differences({**first_description["settings"], "shard": [0, count]}, settings)
        if changes:
            name, old, new = changes[0]
            raise StoreError(
                f"not a shard of the same corpus as {first_folder}: {name} is {new!r} instead of {old!r}",
                where=folder,
            )
    numbers = [int(description["settings"]["shard"][0]) for _, description in opened]
    missing = sorted(set(range(count)) - set(numbers))
    if missing:
        raise StoreError(
            f"shard {missing[0]}/{count} is missing"
            + (f", and {len(missing) - 1} more" if missing[1:] else ""),
            where=first_folder.parent,
        )
    repeated_folders = [
        folder
        for (folder, _), number, previous in zip(opened[1:], numbers[1:], numbers, strict=False)
        if number == previous
    ]
    if repeated_folders:
        raise StoreError("this shard is listed twice", where=repeated_folders[0])
    return opened
