"""Holds out documents of a small corpus, in which the hash of the text selects none, few or all of them."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np

from electra.artifacts.store import RECORDS_SUFFIX, StoreFolder
from electra.data.audit import Audit
from electra.data.mixture import Mixture
from electra.foundation.errors import CorpusError
from electra.foundation.terminal_text import plural

MIN_HELDOUT_TOKENS = 10_000  # if the corpus has at least ten times as many
# The record of each document in SPLIT.docs. Its digest decides whether the document is held out.
DOCUMENT_DTYPE = np.dtype([("digest", ">u8", 2), ("characters", "<u8"), ("words", "<u8")])


def records_path(work: Path, split: str) -> Path:
    """Returns the file of the records of a split, which are needed only while the store is built."""
    return work / f"{split}{RECORDS_SUFFIX}"


def split_files(work: Path, split: str) -> list[Path]:
    """Returns the files of a split while the store is built: ids, index and records."""
    folder = StoreFolder(work)
    return [folder.documents(split), folder.index(split), records_path(work, split)]


def hold_out(work: Path, share: float, audit: Audit, mixture: Mixture | None) -> None:
    """Moves documents between the splits in `work` until both have enough text, and updates the audit.

    If the hash selects none, the document with the smallest hash is held out, or only its end if it is more
    than a tenth of the corpus. If the hash selects few, more documents follow in the order of their hashes.
    If it selects all, they all become training documents first.

    `share` is the fraction of the corpus that is held out from the end of a single document. `mixture` counts
    the documents of each corpus (None: no mixture).

    Raises:
        CorpusError: there is no text, or too little.
    """
    if not audit.documents_train:  # all are held out
        for held, train in zip(*(split_files(work, split) for split in ("heldout", "train")), strict=True):
            os.replace(held, train)
        audit.documents_train, audit.documents_heldout = audit.documents_heldout, 0
        if mixture is not None:
            mixture.swap_splits()
    if audit.documents_heldout:
        _hold_out_more(work, audit, mixture)
        return
    if not audit.documents_train:
        raise no_text(audit)
    folder = StoreFolder(work)
    ends = np.fromfile(folder.index("train"), dtype="<u8")
    digests = np.fromfile(records_path(work, "train"), dtype=DOCUMENT_DTYPE)["digest"]
    index = int(np.lexsort((digests[:, 1], digests[:, 0]))[0])
    num_tokens, stop = int(ends[-1]), int(ends[index])
    start = int(ends[index - 1]) if index else 0
    takes_whole_document = len(ends) > 1 and (10 * (stop - start) <= num_tokens or stop - start == 1)
    if not takes_whole_document:
        size = max(math.ceil(share * num_tokens), min(128, num_tokens // 10), 1)
        start = max(stop - size, start + 1)
    if start >= stop:
        problem = f"too little text ({plural(num_tokens, 'token')})"
        raise CorpusError(problem, fix="Add text, because part of it is held out")
    ends[index:] -= np.uint64(stop - start)
    tokens = np.memmap(folder.documents("train"), dtype="u1", mode="r")
    width = len(tokens) // num_tokens  # bytes of an id
    folder.documents("heldout").write_bytes(tokens[start * width : stop * width].data)
    folder.index("heldout").write_bytes(np.array([stop - start], dtype="<u8").data)
    with open(work / "rest", "wb") as rest:
        rest.write(tokens[: start * width].data)
        rest.write(tokens[stop * width :].data)
    os.replace(work / "rest", folder.documents("train"))
    folder.index("train").write_bytes(np.delete(ends, [index] if takes_whole_document else []).data)
    audit.heldout_by = "smallest hash" if takes_whole_document else "end of one document"
    audit.documents_train -= int(takes_whole_document)
    audit.documents_heldout = 1
    if takes_whole_document:
        if mixture is not None:
            mixture.uncount_training(np.array([index]))
        records = np.fromfile(records_path(work, "train"), dtype=DOCUMENT_DTYPE)
        records_path(work, "train").write_bytes(np.delete(records, index).tobytes())
        _hold_out_more(work, audit, mixture)


def _hold_out_more(work: Path, audit: Audit, mixture: Mixture | None) -> None:
    """Moves documents from the training split until MIN_HELDOUT_TOKENS tokens are held out.

    Does nothing if that is more than a tenth of the corpus.
    """
    folder = StoreFolder(work)
    (train_file, train_ends), (heldout_file, heldout_ends) = (
        (folder.documents(split), np.fromfile(folder.index(split), dtype="<u8").astype(np.int64))
        for split in ("train", "heldout")
    )
    num_tokens, num_missing = (
        int(train_ends[-1] + heldout_ends[-1]) if len(train_ends) else 0,
        MIN_HELDOUT_TOKENS - int(heldout_ends[-1]),
    )
    if num_missing <= 0 or num_tokens < 10 * MIN_HELDOUT_TOKENS:
        return
    sizes = np.diff(train_ends, prepend=0)
    digests = np.fromfile(records_path(work, "train"), dtype=DOCUMENT_DTYPE)["digest"]
    order = np.lexsort((digests[:, 1], digests[:, 0]))
    candidates = order[sizes[order] <= num_missing]  # no document that is longer than needed
    count = int(np.searchsorted(np.cumsum(sizes[candidates]), num_missing)) + 1
    is_moved = np.zeros(len(train_ends), dtype=bool)
    is_moved[candidates[:count]] = True
    if mixture is not None:
        mixture.uncount_training(np.flatnonzero(is_moved))
    width = train_file.stat().st_size // int(train_ends[-1])
    tokens = np.fromfile(train_file, dtype="u1").reshape(-1, width)  # a corpus this small fits into memory
    is_moved_token = np.repeat(is_moved, sizes)
    with open(heldout_file, "ab") as file:
        file.write(tokens[is_moved_token].data)
    heldout_ends = np.concatenate([heldout_ends, heldout_ends[-1] + np.cumsum(sizes[is_moved])])
    train_file.write_bytes(tokens[~is_moved_token].data)
    folder.index("heldout").write_bytes(heldout_ends.astype("<u8").data)
    folder.index("train").write_bytes(np.cumsum(sizes[~is_moved]).astype("<u8").data)
    audit.heldout_by = f"hash, at least {MIN_HELDOUT_TOKENS:,} tokens"
    audit.documents_train, audit.documents_heldout = int((~is_moved).sum()), len(heldout_ends)


def no_text(audit: Audit) -> CorpusError:
    """Returns the error for a corpus without text; the audit counts its documents and names its sources."""
    where = ", ".join(source["name"] for source in audit.sources)
    problem = f"no text in {plural(audit.documents_read, 'document')} read"
    return CorpusError(problem, where=where, fix="Pass files that contain text")
