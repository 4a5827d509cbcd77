"""The token store: a corpus as flat arrays of token ids on disk, mapped into memory.

docs/formats.md lists its files. The ids are little-endian uint16 (uint32 above 65,535 ids), documents back to
back without special tokens, and the index has the end of each as uint64. They have the layout of datatrove's
TokenizedFile, so that a corpus that datatrove prepared on a cluster opens without conversion:
`TokenStore.open(NAME.ds, tokenizer=...)`.
"""

import hashlib
import math
import os
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from electra.artifacts.store_files import DOCUMENTS_SUFFIX, SPLITS, StoreFolder, index_path
from electra.data.corpus.cut_vocabulary import ids_in_original
from electra.data.corpus.encoding import id_dtype
from electra.data.corpus.tokenizer import Tokenizer
from electra.data.corpus.tokenizer_folder import Specials
from electra.foundation import durable
from electra.foundation.arrays import Ints
from electra.foundation.errors import StoreError

FORMAT = 1  # version of store.json; increase it if stores written earlier can no longer be read correctly
REBUILD = "Delete the store and run electra prepare again"
_BLOCK = 1 << 20  # ids per block when a whole file is read
RANDOM = "none"  # the tokenizer's digest in a store of random ids, which any tokenizer could have made


@dataclass(frozen=True)
class TokenDocuments:
    """Documents as one array of ids and the position where each document ends."""

    tokens: npt.NDArray[np.unsignedinteger[Any]]  # all ids [N], uint16 or uint32
    ends: npt.NDArray[np.uint64]  # the end of each document [D]: the position in `tokens` of the next one

    @property
    def num_tokens(self) -> int:
        """The number of tokens, without special tokens."""
        return len(self.tokens)

    @property
    def num_documents(self) -> int:
        """The number of documents."""
        return len(self.ends)

    def document(self, index: int) -> npt.NDArray[np.unsignedinteger[Any]]:
        """Returns a view of the ids of a document."""
        start = int(self.ends[index - 1]) if index else 0
        return self.tokens[start : int(self.ends[index])]

    def out_of_order(self) -> bool:
        """Whether any document ends before its predecessor."""
        blocks = (self.ends[start : start + _BLOCK] for start in range(0, len(self.ends), _BLOCK - 1))
        return any((block[1:] < block[:-1]).any() for block in blocks)


@dataclass(frozen=True)
class TokenStore:
    """A corpus as token ids, with the tokenizer that made them. Read-only; ids are read when used."""

    path: Path
    train: TokenDocuments
    heldout: TokenDocuments
    specials: Specials
    vocab_size: int
    tokenizer_digest: str
    description: dict[str, Any] = field(repr=False)  # the content of store.json
    given_tokenizer: Tokenizer | None = field(default=None, repr=False)  # of a bare pair; None: a store

    @cached_property
    def counts(self) -> Ints:
        """How often each token occurs in the training split, int64 [V]."""
        return count_ids(self.train, self.vocab_size)

    @classmethod
    def open(cls, path: str | Path, tokenizer: Tokenizer | None = None, heldout: float = 0.005) -> "TokenStore":
        """Opens a store, or a bare pair of files `NAME.ds` and `NAME.ds.index`.

        A bare pair needs the tokenizer that made the ids, and the fraction of documents at its end that are
        held out (at least one); a store must have been made with `tokenizer`, or with the one that it was cut
        from. Raises StoreError if the store is missing, damaged, or made with another tokenizer.
        """
        path = Path(os.path.expanduser(path))
        if path.suffix == DOCUMENTS_SUFFIX:
            return _open_bare(path, tokenizer, heldout)
        folder = StoreFolder.open(path, fix="Make one with electra prepare")
        description = durable.read_json(path / folder.RECORD, StoreError, fix=REBUILD)
        try:
            if (found := description["format"]) != FORMAT:
                raise _damage(f"the store has format {found}, but this version reads format {FORMAT}", path)
            dtype = np.dtype(description["dtype"]).newbyteorder("<")
            splits: dict[str, TokenDocuments] = {}
            for split in SPLITS:
                recorded = description[split]
                splits[split] = map_documents(folder.documents(split), dtype, int(recorded["tokens"]))
                if (count := splits[split].num_documents) != recorded["documents"]:
                    problem = f"{count} documents instead of {recorded['documents']}"
                    raise _damage(problem, folder.index(split))
            vocab_size, specials = int(description["vocab_size"]), description["specials"]
            if not all(type(id_) is int and 0 <= id_ < vocab_size for id_ in specials.values()):
                raise ValueError(f"special tokens {specials}, in a vocabulary of {vocab_size}")
            store = cls(
                path,
                splits["train"],
                splits["heldout"],
                specials=Specials(**specials),
                vocab_size=vocab_size,
                tokenizer_digest=str(description["tokenizer_digest"]),
                description=description,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise _damage(f"{folder.RECORD} is damaged ({error!r})", path) from None
        if tokenizer is None or tokenizer.digest == store.tokenizer_digest:
            return store
        if ids_in_original(store.tokenizer, tokenizer) is None:
            fix = "Omit the tokenizer, or prepare the corpus with it"
            raise StoreError("this store was built with another tokenizer", where=path, fix=fix)
        return store

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that made the ids. Raises StoreError if the store holds another one."""
        tokenizer = self.given_tokenizer or Tokenizer.load(StoreFolder(self.path).tokenizer)
        if tokenizer.digest != self.tokenizer_digest:
            problem = "the tokenizer in this store is not the one that made its ids"
            raise _damage(problem, StoreFolder(self.path).tokenizer)
        if tokenizer.specials != self.specials:
            problem = f"its special tokens are {self.specials}, but the tokenizer's are {tokenizer.specials}"
            raise _damage(problem, self.path / StoreFolder.RECORD)
        return tokenizer

    @cached_property
    def digest(self) -> str:
        """A hash that identifies the data: the ids, the division into documents and the tokenizer."""
        recorded = self.description.get("digest")
        return str(recorded) if recorded else content_digest(self.train, self.heldout, self.tokenizer_digest)

    @cached_property
    def audit(self) -> dict[str, Any]:
        """The content of audit.json; {} for a bare pair of files."""
        if self.given_tokenizer is not None:
            return {}
        audit: dict[str, Any] = durable.read_json(StoreFolder(self.path).audit, StoreError, fix=REBUILD)
        return audit

    def check(self) -> None:
        """Reads the whole store before training, about a gigabyte in a second.

        Raises StoreError for ids outside the vocabulary, documents out of order, damaged records, or content
        that does not match store.json (flipped bits, exchanged files).
        """
        if self.tokenizer.vocab_size != self.vocab_size:
            entries = self.tokenizer.vocab_size
            problem = f"vocab_size is {self.vocab_size}, but the tokenizer has {entries} entries"
            raise _damage(problem, self.path / StoreFolder.RECORD)
        for split, documents in zip(SPLITS, (self.train, self.heldout), strict=True):
            if documents.out_of_order():
                raise _damage("document ends are not in order", StoreFolder(self.path).index(split))
            if (largest := largest_id(documents)) >= self.vocab_size:
                problem = f"token id {largest} is outside the vocabulary of {self.vocab_size}"
                raise _damage(problem, StoreFolder(self.path).documents(split))
        self._compare(skip=StoreFolder.split_files())

    def verify(self) -> None:
        """Reads every file; StoreError at the first whose hash differs. A bare pair has no hashes."""
        self._compare()

    def _compare(self, skip: Collection[str] = ()) -> None:
        """Compares the files except those in `skip` with the manifest, and the content with store.json."""
        if self.given_tokenizer is None:
            if damage := durable.verify_directory(self.path, skip=skip):
                raise _damage(damage, self.path)
            if content_digest(self.train, self.heldout, self.tokenizer_digest) != self.digest:
                problem = "the content does not match store.json: files are damaged or exchanged"
                raise _damage(problem, self.path)


def _damage(problem: str, where: Path) -> StoreError:
    return StoreError(problem, where=where, fix=REBUILD)


def largest_id(documents: TokenDocuments) -> int:
    """Returns the largest token id; 0 if there are no tokens."""
    blocks = range(0, documents.num_tokens, _BLOCK)
    return max((int(documents.tokens[start : start + _BLOCK].max()) for start in blocks), default=0)


def content_digest(train: TokenDocuments, heldout: TokenDocuments, tokenizer_digest: str) -> str:
    """Returns the SHA-256 of both splits and the tokenizer; see `TokenStore.digest`. Reads all ids."""
    hasher = hashlib.sha256(tokenizer_digest.encode())
    for documents in (train, heldout):
        for array in (documents.tokens, documents.ends):
            hasher.update(f"{array.dtype.str} {len(array)} ".encode())
            for start in range(0, len(array), _BLOCK):
                hasher.update(np.ascontiguousarray(array[start : start + _BLOCK]).data)
    return hasher.hexdigest()


def map_documents(
    path: Path, dtype: np.dtype[Any], num_tokens: int | None = None, fix: str = REBUILD
) -> TokenDocuments:
    """Maps a `.ds` file and its index into memory, without reading the ids.

    If `num_tokens` is not None, there must be so many ids. `fix` is the advice in errors. Raises StoreError
    if a file is missing, or its size is wrong.
    """
    index = index_path(path)
    for file, item_size in ((path, dtype.itemsize), (index, 8)):
        if not file.is_file():
            raise StoreError("no such file", where=file, fix=fix)
        size = file.stat().st_size
        if size == 0 or size % item_size:
            problem = "the file is empty" if size == 0 else f"{size} bytes, not a multiple of {item_size}"
            raise StoreError(problem, where=file, fix=fix)
    tokens = np.asarray(np.memmap(path, dtype=dtype, mode="r"))
    ends = np.memmap(index, dtype="<u8", mode="r")
    if num_tokens is not None and len(tokens) != num_tokens:
        raise StoreError(f"{len(tokens)} tokens instead of {num_tokens}", where=path, fix=fix)
    if int(ends[-1]) != len(tokens):
        problem = f"the last document ends at {ends[-1]}, but there are {len(tokens)} tokens"
        raise StoreError(problem, where=index, fix=fix)
    return TokenDocuments(tokens, ends)


def count_ids(documents: TokenDocuments, vocab_size: int) -> npt.NDArray[np.int64]:
    """Returns the number of occurrences [V], int64, of each token id."""
    counts = np.zeros(vocab_size, dtype=np.int64)
    for start in range(0, documents.num_tokens, _BLOCK):
        counts += np.bincount(documents.tokens[start : start + _BLOCK], minlength=vocab_size)
    return counts


def _open_bare(path: Path, tokenizer: Tokenizer | None, heldout: float) -> TokenStore:
    if tokenizer is None:
        problem = "a bare .ds file does not record its tokenizer"
        raise StoreError(problem, where=path, fix="Pass the tokenizer")
    size = tokenizer.vocab_size
    dtype = id_dtype(size)
    with suppress(OSError, ValueError, IndexError):
        if size == 1 << 16 and 2 * int(np.memmap(index_path(path), "<u8", "r")[-1]) == path.stat().st_size:
            dtype = np.dtype("<u2")  # as datatrove writes 65,536 entries
    fix = f"Pass the path of a .ds file whose index, {path.name}.index, is next to it, or make both again"
    documents = map_documents(path, dtype, fix=fix)
    if documents.out_of_order():
        raise StoreError("document ends are not in order", where=index_path(path), fix=fix)
    if (largest := largest_id(documents)) >= size:
        fix = f"Pass the tokenizer that made the file (read as {dtype.name}, for a vocabulary of {size})"
        raise StoreError(f"token id {largest} is outside the tokenizer's vocabulary", where=path, fix=fix)
    if documents.num_documents < 2:
        problem = "a single document leaves none to train on"
        raise StoreError(problem, where=path, fix="Prepare more documents")
    first = documents.num_documents - max(1, math.floor(heldout * documents.num_documents))
    start = int(documents.ends[first - 1])
    return TokenStore(
        path,
        TokenDocuments(documents.tokens[:start], documents.ends[:first]),
        TokenDocuments(documents.tokens[start:], documents.ends[first:] - np.uint64(start)),
        tokenizer.specials,
        size,
        tokenizer.digest,
        {"bare": path.name},
        tokenizer,
    )
