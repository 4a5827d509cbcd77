"""A corpus: the documents of named sources of text, in a stable order, and which of them are kept."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unicodedata import normalize

from electra.data.corpus import readers
from electra.data.corpus.audit import Audit
from electra.data.corpus.readers import ReadText
from electra.data.corpus.sources import Argument, find_sources
from electra.data.text_settings import CorpusConfig
from electra.foundation.progress import doing

_CHUNK = 1 << 20  # characters that are encoded at a time
_CHUNK_DOCUMENTS = 1 << 12


class Documents:
    """The documents of a corpus, which can be iterated repeatedly.

    Sources are files, folders, globs, `-`, `python-docs` and `hub:NAME[:CONFIG][:SPLIT]`; those that cannot
    be read twice are copied to `scratch`. Raises CorpusError if one does not exist or cannot be read.
    """

    def __init__(self, sources: Sequence[Argument], config: CorpusConfig, scratch: Path = Path()) -> None:
        self.config = config
        self.search_notes: list[str] = []  # for the user, on how the sources were found
        self.faults = readers.Faults()  # faults in the last iteration
        self.sources = find_sources(sources, scratch, config.format, self.search_notes.append)

    def __iter__(self) -> Iterator[ReadText]:
        faults = self.faults = readers.Faults()
        for source in self.sources:
            yield from readers.read_source(source, self.config, faults)
        faults.check(self.config.broken_rows)

    def notes(self) -> list[str]:
        """Returns notes for the user on how the text was found and read, one line each."""
        return self.search_notes + self.faults.notes()

    def describe(self) -> list[dict[str, Any]]:
        """Returns what identifies each source; see `Source.describe`."""
        return [source.describe() for source in self.sources]


class KeptDocument(NamedTuple):
    """A document to encode."""

    text: str
    # 16 bytes of BLAKE2b of the text in Unicode's form NFC: the first half decides whether it is held out,
    # the second whether it is in the sample for the vocabulary
    digest: bytes
    is_held_out: bool


def keep_documents(documents: Documents, audit: Audit, stage: str) -> Iterator[KeptDocument]:
    """Yields the documents that are neither empty nor equal to an earlier one, and counts all in the audit.

    Texts are equal if their forms NFC are. The digests of all documents stay in memory. `stage` is
    shown with the number of characters read so far.
    """
    seen: set[bytes] = set()
    threshold = int(documents.config.heldout * 2**64)
    characters = 0
    for document in documents:
        audit.documents_read += 1
        audit.bytes_replaced += document.replaced
        audit.nuls_dropped += document.nuls
        characters += len(document.text)
        text = document.text.strip()
        composed = normalize("NFC", text)
        audit.documents_not_nfc += composed != text
        digest = hashlib.blake2b(composed.encode(), digest_size=16).digest()
        if not text:
            audit.documents_empty += 1
        elif digest in seen:
            audit.documents_duplicate += 1
        else:
            seen.add(digest)
            yield KeptDocument(text, digest, int.from_bytes(digest[:8], "little") < threshold)
        if audit.documents_read % 256 == 0:
            show(stage, characters)
    audit.notes = documents.notes()
    show(stage, characters)


def show(stage: str, characters: int) -> None:
    """Shows how much text a stage of the work has processed so far."""
    doing(f"{stage}: {characters / 1e6:,.1f} million characters")


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
