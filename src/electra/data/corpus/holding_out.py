"""Holds out documents of a small corpus, in which the hash of the text selects none, few or all of them."""

import math
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from electra.artifacts.store_files import RECORDS_SUFFIX, SPLITS, StoreFolder
from electra.data.corpus.audit import Audit
from electra.foundation.errors import CorpusError
from electra.foundation.terminal_text import plural

MIN_HELDOUT_TOKENS = 10_000  # if the corpus has at least ten times as many
DIGEST_BYTES = 16  # of a document; the first half decides whether it is held out


def split_files(work: Path, split: str) -> tuple[Path, Path, Path]:
    """Returns the files of a split while the store is built: ids, index, and the documents' digests."""
    folder = StoreFolder(work)
    return folder.documents(split), folder.index(split), work / f"{split}{RECORDS_SUFFIX}"


def hold_out(work: Path, share: float, audit: Audit) -> None:
    """Moves documents between the splits in `work` until both have enough text, and updates the audit.

    If the hash selects none, the document with the smallest hash is held out, or only its end if it is more
    than a tenth of the corpus. If the hash selects few, more documents follow in the order of their hashes.
    If it selects all, they all become training documents first. `share` is the fraction of the corpus that is
    held out from the end of a single document. Raises CorpusError if there is no text, or too little.
    """
    train, held_out = (split_files(work, split) for split in SPLITS)
    if not audit.documents_train:  # the hash selects all
        for source, target in zip(held_out, train, strict=True):
            os.replace(source, target)
            source.touch()
        audit.documents_train, audit.documents_heldout = audit.documents_heldout, 0
    if not audit.documents_train:
        raise no_text(audit)
    ends, held_ends = (np.fromfile(files[1], dtype="<u8").astype(np.int64) for files in (train, held_out))
    num_held = int(held_ends[-1]) if len(held_ends) else 0
    num_tokens, has_few = int(ends[-1]) + num_held, num_held < MIN_HELDOUT_TOKENS
    is_large = num_tokens >= 10 * MIN_HELDOUT_TOKENS
    if num_held and not (has_few and is_large):
        return
    sizes = np.diff(ends, prepend=0)
    digests = np.fromfile(train[2], dtype=">u8").reshape(-1, 2)
    order = np.lexsort((digests[:, 1], digests[:, 0]))
    moved, cut = order[:0], 0  # documents, and tokens at the end of the first in the order
    if not num_held:
        size = int(sizes[order[0]])
        if len(sizes) > 1 and (10 * size <= num_tokens or size == 1):
            moved, num_held, audit.heldout_by = order[:1], size, "smallest hash"
        else:
            cut = min(max(math.ceil(share * num_tokens), min(128, num_tokens // 10), 1), size - 1)
            audit.heldout_by = "end of one document"
            if not cut:
                problem = f"too little text ({plural(num_tokens, 'token')})"
                raise CorpusError(problem, fix="Add text, because part of it is held out")
    if not cut and is_large and (num_missing := MIN_HELDOUT_TOKENS - num_held) > 0:
        others = order[len(moved) :]
        others = others[sizes[others] <= num_missing]  # no document that is longer than needed
        count = int(np.searchsorted(np.cumsum(sizes[others]), num_missing)) + 1
        moved = np.concatenate([moved, np.sort(others[:count])])
        audit.heldout_by = f"hash, at least {MIN_HELDOUT_TOKENS:,} tokens"
    lengths = np.array([cut]) if cut else sizes[moved]
    stops = ends[order[:1]] if cut else ends[moved]
    spans = [*zip(stops - lengths, stops, strict=True)]
    _move_tokens(train[0], held_out[0], int(ends[-1]), spans)
    held_ends = np.cumsum([*np.diff(held_ends, prepend=0), *lengths])
    sizes[order[0]] -= cut
    ends = np.cumsum(np.delete(sizes, moved))
    train[1].write_bytes(ends.astype("<u8").data)
    held_out[1].write_bytes(held_ends.astype("<u8").data)
    audit.documents_train, audit.documents_heldout = len(ends), len(held_ends)


def _move_tokens(source: Path, target: Path, num_tokens: int, spans: Sequence[tuple[int, int]]) -> None:
    """Moves the tokens of the spans from one file to the end of another, in this order."""
    content = np.memmap(source, dtype="u1", mode="r").reshape(num_tokens, -1)
    with open(target, "ab") as file:
        for start, stop in spans:
            file.write(content[start:stop].data)
    rest = source.with_name("rest")
    with open(rest, "wb") as file:
        position = 0
        for start, stop in sorted(spans):
            file.write(content[position:start].data)
            position = stop
        file.write(content[position:].data)
    os.replace(rest, source)


def no_text(audit: Audit) -> CorpusError:
    """Returns the error for a corpus without text; the audit counts its documents and names its sources."""
    where = ", ".join(source["name"] for source in audit.sources)
    problem = f"no text in {plural(audit.documents_read, 'document')} read"
    return CorpusError(problem, where=where, fix="Pass files that contain text")
