"""Holds out documents of a small corpus, in which the hash of the text selects none, few or all of them."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np

from electra.artifacts.store import ShardFolder
from electra.data.audit import Audit
from electra.data.mixture import Mixture
from electra.foundation.errors import CorpusError

MIN_HELDOUT_TOKENS = 10_000  # if the corpus has at least ten times as many
# The record of each document in SPLIT.docs. Its digest decides whether the document is held out.
DOCUMENT_DTYPE = np.dtype([("digest", ">u8", 2), ("characters", "<u8"), ("words", "<u8")])


def hold_out(work: Path, share: float, audit: Audit, mixture: Mixture | None) -> None:
    """Moves documents between the splits in `work` until both have enough text, and updates the audit.

    If the hash selects none, the document with the smallest hash is held out, or only its end if it is more
    than a tenth of the corpus. If the hash selects few, more documents follow in the order of their hashes.
    If it selects all, they all become training documents first.

    Raises:
        CorpusError: there is no text, or too little.
    """
    if not audit.documents_train:  # all are held out
        for held, train in zip(
            *(ShardFolder(work).files_of(split) for split in ("heldout", "train")), strict=True
        ):
            os.replace(held, train)
        audit.documents_train, audit.documents_heldout = audit.documents_heldout, 0
        if mixture is not None:
            mixture.swap_splits()
    if audit.documents_heldout:
        _hold_out_more(work, audit, mixture)
        return
    if not audit.documents_train:
        raise no_text(audit)
    folder = ShardFolder(work)
    ends = np.fromfile(folder.index("train"), dtype="<u8")
    digests = np.fromfile(folder.digests("train"), dtype=DOCUMENT_DTYPE)["digest"]
    index = int(np.lexsort((digests[:, 1], digests[:, 0]))[0])
    total, stop = int(ends[-1]), int(ends[index])
    start = int(ends[index - 1]) if index else 0
    is_whole = len(ends) > 1 and (10 * (stop - start) <= total or stop - start == 1)
    if not is_whole:
        size = max(math.ceil(share * total), min(128, total // 10), 1)
        start = max(stop - size, start + 1)
    if start >= stop:
        raise CorpusError(
            f"too little text ({total} tokens)",
            fix="Add text, because part of it is held out",
        )
    ends[index:] -= np.uint64(stop - start)
    tokens = np.memmap(folder.documents("train"), dtype="u1", mode="r")
    width = len(tokens) // total  # bytes of an id
    folder.documents("heldout").write_bytes(tokens[start * width : stop * width].data)
    folder.index("heldout").write_bytes(np.array([stop - start], dtype="<u8").data)
    with open(work / "rest", "wb") as rest:
        rest.write(tokens[: start * width].data)
        rest.write(tokens[stop * width :].data)
    os.replace(work / "rest", folder.documents("train"))
    folder.index("train").write_bytes(np.delete(ends, [index] if is_whole else []).data)
    audit.heldout_by = "smallest hash" if is_whole else "end of one document"
    audit.documents_train -= int(is_whole)
    audit.documents_heldout = 1
    if is_whole:
        if mixture is not None:
            mixture.hold_out(np.array([index]))
        records = np.fromfile(folder.digests("train"), dtype=DOCUMENT_DTYPE)
        folder.digests("train").write_bytes(np.delete(records, index).tobytes())
        _hold_out_more(work, audit, mixture)


def _hold_out_more(work: Path, audit: Audit, mixture: Mixture | None) -> None:
    """Moves documents from the training split until MIN_HELDOUT_TOKENS tokens are held out.

    Does nothing if that is more than a tenth of the corpus.
    """
    folder = ShardFolder(work)
    (ids, train), (held_ids, held) = (
        (folder.documents(split), np.fromfile(folder.index(split), dtype="<u8").astype(np.int64))
        for split in ("train", "heldout")
    )
    total, missing = int(train[-1] + held[-1]) if len(train) else 0, MIN_HELDOUT_TOKENS - int(held[-1])
    if missing <= 0 or total < 10 * MIN_HELDOUT_TOKENS:
        return
    sizes = np.diff(train, prepend=0)
    digests = np.fromfile(folder.digests("train"), dtype=DOCUMENT_DTYPE)["digest"]
    order = np.lexsort((digests[:, 1], digests[:, 0]))
    fits = order[sizes[order] <= missing]  # no document that is longer than needed
    count = int(np.searchsorted(np.cumsum(sizes[fits]), missing)) + 1
    moved = np.zeros(len(train), dtype=bool)
    moved[fits[:count]] = True
    if mixture is not None:
        mixture.hold_out(np.flatnonzero(moved))
    width = ids.stat().st_size // int(train[-1])
    tokens = np.fromfile(ids, dtype="u1").reshape(-1, width)  # a corpus this small fits into memory
    moved_tokens = np.repeat(moved, sizes)
    with open(held_ids, "ab") as file:
        file.write(tokens[moved_tokens].data)
    held = np.concatenate([held, held[-1] + np.cumsum(sizes[moved])])
    ids.write_bytes(tokens[~moved_tokens].data)
    folder.index("heldout").write_bytes(held.astype("<u8").data)
    folder.index("train").write_bytes(np.cumsum(sizes[~moved]).astype("<u8").data)
    audit.heldout_by = f"hash, at least {MIN_HELDOUT_TOKENS:,} tokens"
    audit.documents_train, audit.documents_heldout = int((~moved).sum()), len(held)


def no_text(audit: Audit) -> CorpusError:
    """Returns the error for a corpus without text; the audit counts its documents and names its sources."""
    where = ", ".join(source["name"] for source in audit.sources)
    return CorpusError(
        f"no text in any of the {audit.documents_read} documents read",
        where=where,
        fix="Pass files that contain text",
    )
