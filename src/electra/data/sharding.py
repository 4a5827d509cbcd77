"""A corpus prepared in pieces, on as many machines as there are: shards, and the merge that makes one store
of them.

    electra prepare CORPUS --tokenizer T --shard 3/8 --out shards/3      (one job of an array)
    electra prepare shards/* --merge --out store

The store is the one that a single command would have made, to the byte: shards are runs of neighbouring
files, documents said before in an earlier shard are dropped at the merge, and what is held out is decided by
each document's hash.

    SHARD/ train.ds  train.ds.index  train.docs  heldout.*   shard.json   tokenizer/   manifest.json
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from electra.artifacts.store import SPLITS, ShardFolder, StoreFolder
from electra.data import packing, store
from electra.data.audit import Audit
from electra.data.corpus import Documents
from electra.data.encoding import id_dtype
from electra.data.kept import kept
from electra.data.packing import RECORD, Counted, Writer
from electra.data.runs import MEMORY
from electra.data.seen import Seen
from electra.data.settings import CorpusConfig
from electra.data.store import TokenStore
from electra.data.tokenizer import Tokenizer
from electra.foundation import durable, machine
from electra.foundation.config import differences
from electra.foundation.errors import ConfigError, CorpusError, StoreError

_DOCUMENTS = 1 << 16  # copied at a time


def parse_shard(text: str) -> tuple[int, int]:
    """`3/8` -> (3, 8). Shards are counted from 0, as array jobs are."""
    index, slash, count = text.partition("/")
    if not (slash and index.isdecimal() and count.isdecimal() and int(index) < int(count)):
        raise ConfigError(f"{text!r} is not a shard", key="shard", fix="Use 0/8, 1/8, ... 7/8")
    return int(index), int(count)


def build_shard(
    arguments: Sequence[str | Path],
    tokenizer: Tokenizer,
    out: Path,
    shard: tuple[int, int],
    *,
    config: CorpusConfig | None = None,
    workers: int | None = None,
    memory: int = MEMORY,
    progress: Counted = lambda stage, characters: None,
) -> bool:
    """Encode one shard into the folder `out`. False if it was there already."""
    config = config or CorpusConfig()
    if config.near_duplicates is not None:
        fix = "Prepare the corpus in one command, or without `near_duplicates`"
        raise ConfigError("shards do not know each other's documents", key="near_duplicates", fix=fix)
    if config.mix_temperature is not None:
        fix = "Prepare the corpus in one command, or without `mix_temperature`"
        raise ConfigError("shards do not know the sizes of the corpora", key="data.mix_temperature", fix=fix)
    settings = {
        "corpus": config.record(arguments),
        "tokenizer": packing.describe(tokenizer),
        "shard": list(shard),
    }
    if out.exists() and any(out.iterdir()):
        recorded = _open(out)["settings"]
        changed = [f"{name} was {old!r}, now {new!r}" for name, old, new in differences(recorded, settings)]
        if changed:
            raise StoreError(
                f"holds another shard: {'; '.join(changed)}", where=out, fix="Choose another `out`"
            )
        packing.sweep(out)
        return False
    with packing.workplace(out) as work:
        documents = Documents(arguments, config, work / "copies", shard)
        audit = Audit(vocab_size=tokenizer.vocab_size, sources=documents.describe())
        with durable.explain_disk_errors(out):
            packing.write_documents(
                kept(documents, audit, partial(progress, "encoding"), work, memory),
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
        packing.publish(work, out, files)
    return True


def merge(
    folders: Sequence[Path], out: Path, progress: Counted = lambda stage, characters: None
) -> TokenStore:
    """One store of all shards of a corpus, given in any order."""
    shards = _in_order(folders)
    settings = {name: value for name, value in shards[0][1]["settings"].items() if name != "shard"}
    tokenizer = Tokenizer.load(ShardFolder(shards[0][0]).tokenizer)
    if out.exists() and any(out.iterdir()):
        packing.sweep(out)
        found = TokenStore.open(out).description if StoreFolder.is_at(out) else {}
        read = [source for _, description in shards for source in description["audit"]["sources"]]
        if found.get("settings") != settings or found.get("sources") != read:
            raise StoreError("exists already", where=out, fix="Choose another `out`, or remove it")
        return TokenStore.open(out)
    with packing.workplace(out) as work:
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
                    _join([folder for folder, _ in shards], Writer(work, split), work, audit, progress),
                )
        if not audit.documents_train + audit.documents_heldout:
            raise CorpusError("no text in any of the shards", where=shards[0][0].parent)
        packing.commit_store(work, out, tokenizer, audit, settings)
    return TokenStore.open(out)


def _join(folders: list[Path], writer: Writer, work: Path, audit: Audit, progress: Counted) -> int:
    """Append one split of every shard without repeated documents. Returns the number of documents."""
    seen = Seen(work)
    dtype = id_dtype(audit.vocab_size)
    try:
        for folder in folders:
            tokens, ends, records = (
                _array(path, of)
                for path, of in zip(
                    ShardFolder(folder).of_split(writer.split), (dtype, "<u8", RECORD), strict=True
                )
            )
            for first in range(0, len(ends), _DOCUMENTS):
                part = slice(first, first + _DOCUMENTS)
                start, stop = int(ends[first - 1]) if first else 0, int(ends[part][-1])
                sizes = np.concatenate([[int(ends[first]) - start], ends[part][1:] - ends[part][:-1]]).astype(
                    np.int64
                )
                new = np.array([seen.add(digest) for digest in records["digest"][part][:, 1].tolist()])
                writer.append(tokens[start:stop][np.repeat(new, sizes)], sizes[new], records[part][new])
                audit.documents_duplicate += int((~new).sum())
                audit.tokens_lost += int(sizes[new].sum())  # until they are found in the files
                audit.characters += int(records["characters"][part][new].sum())
                audit.words += int(records["words"][part][new].sum())
                progress("merging", audit.characters)
    finally:
        writer.close()
    return writer.documents


def _array(path: Path, dtype: Any) -> npt.NDArray[Any]:
    return np.memmap(path, dtype=dtype, mode="r") if path.stat().st_size else np.empty(0, dtype=dtype)


def _open(folder: Path) -> dict[str, Any]:
    if not ShardFolder.is_at(folder):
        raise StoreError(
            f"not a shard (it has no {ShardFolder.RECORD})",
            where=folder,
            fix="Make one with electra prepare --shard",
        )
    problem = durable.verify_directory(folder)
    if problem:
        raise StoreError(problem, where=folder, fix="Delete this shard and prepare it again")
    description: dict[str, Any] = ShardFolder(folder).record
    if description["format"] != store.FORMAT:
        raise StoreError(
            f"shard format {description['format']}, this version reads format {store.FORMAT}", where=folder
        )
    return description


def _in_order(folders: Sequence[Path]) -> list[tuple[Path, dict[str, Any]]]:
    """The shards from the first to the last: all of one corpus, each once, made with the same settings."""
    if not folders:
        raise ConfigError(
            "no shards named",
            where="electra prepare --merge",
            fix="For example: electra prepare shards/* --merge --out store",
        )
    opened = [(folder, _open(folder)) for folder in folders]
    opened.sort(key=lambda entry: int(entry[1]["settings"]["shard"][0]))
    first, base = opened[0]
    count = int(base["settings"]["shard"][1])
    for folder, description in opened:
        there = {**description["settings"], "shard": [0, description["settings"]["shard"][1]]}
        changed = differences({**base["settings"], "shard": [0, count]}, there)
        if changed:
            name, old, new = changed[0]
            raise StoreError(
                f"not a shard of the same corpus as {first}: {name} is {new!r} instead of {old!r}",
                where=folder,
            )
    numbers = [int(description["settings"]["shard"][0]) for _, description in opened]
    missing = sorted(set(range(count)) - set(numbers))
    if missing:
        raise StoreError(
            f"shard {missing[0]}/{count} is missing"
            + (f", and {len(missing) - 1} more" if missing[1:] else ""),
            where=first.parent,
        )
    twice = [
        folder
        for (folder, _), number, before in zip(opened[1:], numbers[1:], numbers, strict=False)
        if number == before
    ]
    if twice:
        raise StoreError("this shard is given twice", where=twice[0])
    return opened
