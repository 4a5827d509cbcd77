"""Selects the documents to keep: not empty, not a duplicate, and optionally not a near-duplicate."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from electra.data.audit import Audit
from electra.data.corpus import Documents
from electra.data.near_duplicates import NearDuplicates
from electra.data.sorted_runs import DigestSet

_CHUNK = 1 << 20  # characters that are encoded or compared at a time
_CHUNK_DOCUMENTS = 1 << 12


class KeptDocument(NamedTuple):
    """A document to encode."""

    text: str
    digest: bytes
    """16 bytes of BLAKE2b: the first half decides whether it is held out, the second identifies
    duplicates and decides whether it is in the sample for the vocabulary."""
    is_held_out: bool
    """Whether it belongs to the held-out text."""
    corpus: int = 0
    """The index of its corpus in a mixture."""


def keep_documents(
    documents: Documents, audit: Audit, progress: Callable[[int], None]
) -> Iterator[KeptDocument]:
    """Yields the documents to encode, and records in the audit how many are read and dropped.

    `progress` receives the number of characters read so far.

    Raises:
        CorpusError: text cannot be read.
        ConfigError: near-duplicates are to be dropped, and the library for it is not installed.
    """
    unique = _unique(documents, audit, progress)
    if documents.config.near_duplicates is None:
        yield from unique
        return
    finder = NearDuplicates(documents.config.near_duplicates)
    for chunk in chunks(unique):
        matches = finder.find([document.text for document in chunk])
        yield from (document for document, match in zip(chunk, matches, strict=True) if match is None)
        audit.documents_near_duplicate += len(chunk) - matches.count(None)
    audit.near_duplicates = finder.examples()


def _unique(documents: Documents, audit: Audit, progress: Callable[[int], None]) -> Iterator[KeptDocument]:
    """Yields the documents that are neither empty nor equal to an earlier document."""
    seen = DigestSet()
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
            yield KeptDocument(
                text, digest, int.from_bytes(digest[:8], "little") < threshold, document.corpus
            )
        if audit.documents_read % 256 == 0:
            progress(characters)
    audit.notes = documents.notes()
    progress(characters)


def chunks(documents: Iterable[KeptDocument]) -> Iterator[list[KeptDocument]]:
    """Yields lists of documents: about a million characters, or 4096 documents, in each."""
    chunk: list[KeptDocument] = []
    size = 0
    for document in documents:
        chunk.append(document)
        size += len(document.text)
        if size >= _CHUNK or len(chunk) >= _CHUNK_DOCUMENTS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
