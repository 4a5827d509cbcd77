"""The documents that are kept: neither empty nor said before, nor nearly said before where that is asked."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from electra.data.audit import Audit
from electra.data.corpus import Documents
from electra.data.near import NearDuplicates
from electra.data.runs import MEMORY
from electra.data.seen import Seen

_CHUNK = 1 << 20  # characters that a worker gets at a time, and that are compared at a time
_CHUNK_DOCUMENTS = 1 << 12


class Kept(NamedTuple):
    """A document to encode."""

    text: str
    # 16 bytes; the first half decides whether it is held out, the second whether it is in the vocabulary's
    # sample
    digest: bytes
    held: bool
    corpus: int = 0  # which of the named corpora of a mixture it is of


def kept(
    documents: Documents,
    audit: Audit,
    progress: Callable[[int], None],
    work: Path,
    memory: int = MEMORY,
) -> Iterator[Kept]:
    """The documents to encode; the audit counts those, and those that are left out.

    work: a folder for what must be remembered of them. memory: bytes of it that stay in memory.
    """
    config = documents.config
    if config.near_duplicates is None:
        yield from _new(documents, audit, progress, Seen(work, memory))
        return
    with closing(NearDuplicates(config.near_duplicates, work, memory // 2)) as near:
        for chunk in chunks(_new(documents, audit, progress, Seen(work, memory // 2))):
            for document, earlier in zip(chunk, near.find([one.text for one in chunk]), strict=True):
                if earlier is None:
                    yield document
                else:
                    audit.documents_near_duplicate += 1
        audit.near_duplicates = near.examples()


def _new(documents: Documents, audit: Audit, progress: Callable[[int], None], seen: Seen) -> Iterator[Kept]:
    """Those that are neither empty nor exactly an earlier one."""
    threshold = int(documents.config.heldout * 2**64)
    characters = 0
    for document in documents:
        audit.documents_read += 1
        audit.bytes_replaced += document.replaced
        audit.nuls_dropped += document.nuls
        characters += len(document.text)
        text = document.text.strip()
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        if not text:
            audit.documents_empty += 1
        elif not seen.add(int.from_bytes(digest[8:], "little")):
            audit.documents_duplicate += 1
        else:
            yield Kept(text, digest, int.from_bytes(digest[:8], "little") < threshold, document.corpus)
        if audit.documents_read % 256 == 0:
            progress(characters)
    audit.notes = documents.notes()
    progress(characters)


def chunks(documents: Iterable[Kept]) -> Iterator[list[Kept]]:
    chunk: list[Kept] = []
    size = 0
    for document in documents:
        chunk.append(document)
        size += len(document.text)
        if size >= _CHUNK or len(chunk) >= _CHUNK_DOCUMENTS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
