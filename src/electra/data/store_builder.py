"""Builds a token store: reads documents, drops empty and duplicate ones, holds some out, encodes, writes.

The bytes of a store depend only on the text and the settings: documents are encoded independently and written
in the order of reading, whatever the number of workers. The store is built in a sibling folder
`.NAME.building` and gets its name in one rename. A killed build leaves that folder, and the next build
empties it.
"""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from electra.artifacts.store import SPLITS, TOKENIZER, StoreFolder
from electra.data import store
from electra.data.audit import Audit
from electra.data.batches import Batches
from electra.data.corpus import Documents, KeptDocument, chunks, keep_documents
from electra.data.cut_vocabulary import VocabularyCut, counts_in, cut
from electra.data.encoding import id_dtype
from electra.data.holding_out import DIGEST_BYTES, hold_out, no_text, split_files
from electra.data.parallel import Encoded, encode_in_order
from electra.data.settings import CorpusConfig, TokenizerConfig
from electra.data.sources import Argument, is_same_text
from electra.data.store import TokenStore
from electra.data.tokenizer import Tokenizer
from electra.data.wordpiece import MIN_FREQUENCY, Characters, choose_accents
from electra.foundation import config as recipes
from electra.foundation import durable, machine
from electra.foundation.errors import RunFolderError, StoreError

# Receives the stage and the number of characters processed so far; may raise to end the build.
StageProgress = Callable[[str, int], None]
_ACCENT_SAMPLE = 4_000_000  # characters of text in which accents are counted


def build_store(
    sources: Sequence[Argument],
    tokenizer: Tokenizer | TokenizerConfig | VocabularyCut,
    out: str | Path,
    *,
    config: CorpusConfig | None = None,
    workers: int | None = None,
    progress: StageProgress = lambda stage, characters: None,
) -> TokenStore:
    """Builds the token store of a corpus; reuses a store at `out` with the same text and settings.

    Args:
        sources: files, folders and other sources, as for `data.corpus.Documents`.
        tokenizer: a tokenizer, or the settings for training one on the corpus or cutting a vocabulary.
        out: the folder of the store.
        config: how the corpus is read and split (None: the defaults).
        workers: processes that encode (None: one for each core).
        progress: see `StageProgress`.

    Raises:
        CorpusError: text is missing or cannot be read.
        StoreError: `out` is not a store, or was built from different text or settings.
        TokenizerError, ConfigError: a vocabulary cannot be trained or cut with these settings.
        RunFolderError: another process is building this store.
        RunFailed: a process that encodes failed.
    """
    out, config = Path(out), config or CorpusConfig()
    existing = _existing_store(sources, tokenizer, out, config)
    if existing is not None:
        remove_stale_build(out)
        return existing
    with build_folder(out) as work:
        existing = _existing_store(sources, tokenizer, out, config)  # another process may have built it
        if existing is None:
            _build(
                Documents(sources, config, work / "copies"),
                tokenizer,
                out,
                settings={"corpus": config.record(), "tokenizer": tokenizer_record(tokenizer)},
                work=work,
                workers=workers or machine.cores(),
                progress=progress,
            )
    return existing or TokenStore.open(out)


def _build(
    documents: Documents,
    tokenizer: Tokenizer | TokenizerConfig | VocabularyCut,
    out: Path,
    *,
    settings: dict[str, Any],
    work: Path,
    workers: int,
    progress: StageProgress,
) -> None:
    sources = documents.describe()
    accents = None
    if not isinstance(tokenizer, Tokenizer):
        audit = Audit(sources=sources)
        kept = keep_documents(documents, audit, partial(progress, "reading"))
        sample = sample_documents(kept, 1_000_000 * tokenizer.sample_mb)
        if not sample:
            raise no_text(audit)
        if isinstance(tokenizer, VocabularyCut):
            progress("counting the vocabulary", sum(map(len, sample)))
            original = tokenizer.tokenizer
            tokenizer = cut(original, counts_in(sample, original), tokenizer.size)
        else:
            progress("training the vocabulary", sum(map(len, sample)))
            tokenizer, accents = choose_accents(sample, tokenizer)
            tokenizer = Tokenizer.train(sample, tokenizer)
        del sample
    audit = Audit(vocab_size=tokenizer.vocab_size, sources=sources)
    characters = Characters()

    def kept_documents() -> Iterator[KeptDocument]:
        for document in keep_documents(documents, audit, partial(progress, "encoding")):
            if characters.total < _ACCENT_SAMPLE:
                characters.add(document.text)
            yield document

    with durable.explain_disk_errors(out):
        write_documents(kept_documents(), tokenizer, workers, work, audit)
    accents = accents or tokenizer.removed_accents(characters)
    audit.accents = None if accents is None else accents._asdict()
    commit_store(work, out, tokenizer, audit, settings)


def commit_store(work: Path, out: Path, tokenizer: Tokenizer, audit: Audit, settings: dict[str, Any]) -> None:
    """Makes the store at `out` from the splits in `work`: holds documents out, counts and renames.

    Raises:
        CorpusError: there is too little text.
    """
    folder, dtype, size = StoreFolder(work), id_dtype(tokenizer.vocab_size), tokenizer.vocab_size
    with durable.explain_disk_errors(out):
        hold_out(work, settings["corpus"]["heldout"], audit)
    train, heldout = (store.map_documents(folder.documents(split), dtype) for split in SPLITS)
    counts = store.count_ids(train, size) + store.count_ids(heldout, size)
    audit.tokens_unknown, audit.vocabulary_used = int(counts[tokenizer.specials.unk]), int((counts > 0).sum())
    audit.tokens_train, audit.tokens_heldout = train.num_tokens, heldout.num_tokens
    audit.tokens_lost -= audit.tokens
    audit.padding = {
        str(length): Batches(train, length=length, seed=0, specials=tokenizer.specials).padding()
        for length in (128, 512)
    }
    description = {
        "format": store.FORMAT,
        "digest": store.content_digest(train, heldout, tokenizer.digest),
        "dtype": train.tokens.dtype.name,
        "vocab_size": size,
        "specials": tokenizer.specials._asdict(),
        "tokenizer_digest": tokenizer.digest,
        "train": {"tokens": train.num_tokens, "documents": train.num_documents},
        "heldout": {"tokens": heldout.num_tokens, "documents": heldout.num_documents},
        "settings": settings,
        "sources": audit.sources,
    }
    files: dict[str, durable.Content] = {
        f"{TOKENIZER}/{name}": content for name, content in tokenizer.files().items()
    }
    files[StoreFolder.RECORD] = durable.to_json(description)
    files[folder.audit.name] = durable.to_json(audit.as_json())
    files |= {name: partial(os.replace, work / name) for name in StoreFolder.split_files()}
    publish(work, out, files)


def publish(work: Path, out: Path, files: dict[str, durable.Content]) -> None:
    """Writes files to a folder inside `work`, then renames the folder to `out`."""
    complete_folder = work / "made"
    durable.commit_directory(complete_folder, files)
    with durable.explain_disk_errors(out):
        durable.rename(complete_folder, out)
        durable.fsync(out.parent)


@contextmanager
def build_folder(out: Path) -> Iterator[Path]:
    """Yields an empty folder next to `out`, locked against another build and removed afterwards.

    Raises:
        RunFolderError: another process is building this store.
        StoreError: another process has just finished building it.
    """
    work = out.with_name(f".{out.name}.building")
    with durable.lock(work) as lock:
        # The build that has just finished may have removed this lock file after we opened it.
        if not (work / ".lock").exists() or not os.path.samestat(
            os.fstat(lock.fileno()), os.stat(work / ".lock")
        ):
            problem = "another process has just finished building this store"
            raise StoreError(problem, where=out, fix="Rerun the command")
        for leftover in work.iterdir():
            if leftover.is_dir() and not leftover.is_symlink():
                shutil.rmtree(leftover)
            elif leftover.name != ".lock":
                leftover.unlink()
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)


def remove_stale_build(out: Path) -> None:
    """Removes the folder of a killed build next to a finished store, unless another build is using it."""
    if out.with_name(f".{out.name}.building").is_dir():
        with suppress(RunFolderError, StoreError), build_folder(out):
            pass


def _existing_store(
    sources: Sequence[Argument],
    tokenizer: Tokenizer | TokenizerConfig | VocabularyCut,
    out: Path,
    config: CorpusConfig,
) -> TokenStore | None:
    """Returns the store at `out`, or None if there is nothing or an empty folder.

    Raises:
        StoreError: `out` is not a store, or was built from different text or settings.
    """
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return None
    if not StoreFolder.is_at(out):
        fix = "Choose another `out`, or remove it"
        raise StoreError("exists and is not a token store", where=out, fix=fix)
    existing = TokenStore.open(out)
    settings: dict[str, Any] = {"corpus": config.record(), "tokenizer": tokenizer_record(tokenizer)}
    recorded = dict(existing.description["settings"])
    if isinstance(tokenizer, Tokenizer) and tokenizer.digest == existing.tokenizer_digest:
        recorded["tokenizer"] = settings["tokenizer"]
    if ("digest" in recorded["tokenizer"]) != ("digest" in settings["tokenizer"]):
        for each in (recorded, settings):
            each["tokenizer"] = "an existing one" if "digest" in each["tokenizer"] else "one to train"
    changes = [recipes.describe_change(*change) for change in recipes.differences(recorded, settings)]
    if not is_same_text(existing.description["sources"], sources, config.format):
        changes.append("the text itself")
    if changes:
        problem = f"was built differently: {'; '.join(changes)}"
        raise StoreError(problem, where=out, fix="Choose another `out`, or remove the store")
    return existing


def tokenizer_record(tokenizer: Tokenizer | TokenizerConfig | VocabularyCut) -> dict[str, Any]:
    """Returns what a store records about its tokenizer.

    That is its digest, the settings to train it with, or, for a vocabulary to cut, the original's digest and
    the settings of the cut.
    """
    if isinstance(tokenizer, Tokenizer):
        return {"digest": tokenizer.digest}
    if isinstance(tokenizer, VocabularyCut):
        cut_settings = {"cut_to": tokenizer.size, "sample_mb": tokenizer.sample_mb}
        return tokenizer_record(tokenizer.tokenizer) | cut_settings
    settings = asdict(tokenizer)
    settings |= {"min_frequency": MIN_FREQUENCY, "sample_mb": settings.pop("sample_mb")}  # in this order
    if settings["kind"] == "wordpiece":  # older stores do not record the kind
        del settings["kind"]
    return settings


def sample_documents(documents: Iterable[KeptDocument], characters: int) -> list[str]:
    """Returns training documents sampled by their hash, with at most `characters` characters in total.

    At least one document is returned whole, whatever its length. If the hash holds out every document, all
    are returned, because `hold_out` makes them training documents.
    """
    sample: list[tuple[int, str]] = []
    held_out_texts: list[str] = []
    threshold, size = 2**64, 0
    for document in documents:
        draw = int.from_bytes(document.digest[8:], "little")
        if document.is_held_out and not sample:
            held_out_texts.append(document.text)
        if not document.is_held_out and draw < threshold:
            sample.append((draw, document.text))
            size += len(document.text)
        while size > characters and len(sample) > 1:
            threshold //= 2
            sample = [entry for entry in sample if entry[0] < threshold] or [min(sample)]
            size = sum(len(text) for _, text in sample)
    return [text for _, text in sample] or held_out_texts


class SplitWriter:
    """Appends documents to the files of a split: their ids, ends and digests."""

    def __init__(self, work: Path, split: str) -> None:
        self.files = [open(path, "wb") for path in split_files(work, split)]  # noqa: SIM115
        self.documents = self.end = 0

    def append(self, encoded: Encoded, digests: npt.NDArray[np.void], mask: npt.NDArray[np.bool_]) -> None:
        """Appends those of D encoded documents, with their digests [D], for which `mask` is true."""
        ids, sizes = encoded.ids[np.repeat(mask, encoded.sizes)], encoded.sizes[mask]
        arrays = (ids, (np.cumsum(sizes) + self.end).astype("<u8"), digests[mask])
        for file, array in zip(self.files, arrays, strict=True):
            file.write(array.data)
        self.documents += len(sizes)
        self.end += len(ids)

    def close(self) -> None:
        """Closes the files."""
        for file in self.files:
            file.close()


def write_documents(
    documents: Iterable[KeptDocument], tokenizer: Tokenizer, workers: int, work: Path, audit: Audit
) -> None:
    """Encodes documents, appends each to its split in `work`, and counts them in `audit`.

    Documents without a token are dropped. Raises RunFailed if encoding fails.
    """
    train, heldout = writers = [SplitWriter(work, split) for split in SPLITS]
    waiting_chunks: deque[list[KeptDocument]] = deque()

    def texts() -> Iterator[list[str]]:
        for chunk in chunks(documents):
            waiting_chunks.append(chunk)
            yield [document.text for document in chunk]

    try:
        for encoded in encode_in_order(texts(), tokenizer, workers):
            chunk = waiting_chunks.popleft()
            is_held_out = np.array([document.is_held_out for document in chunk])
            has_tokens = encoded.sizes > 0
            digests = np.frombuffer(b"".join(document.digest for document in chunk), f"V{DIGEST_BYTES}")
            for writer, mask in ((train, has_tokens & ~is_held_out), (heldout, has_tokens & is_held_out)):
                writer.append(encoded, digests, mask)
            audit.characters += int(encoded.characters[has_tokens].sum())
            audit.words += int(encoded.words[has_tokens].sum())
            audit.tokens_lost += len(encoded.ids)  # commit_store subtracts the tokens in the files
            audit.documents_empty += int((~has_tokens).sum())  # texts without a token
    finally:
        for writer in writers:
            writer.close()
    audit.documents_train, audit.documents_heldout = train.documents, heldout.documents
