"""Builds a token store: reads documents, drops empty and duplicate ones, holds some out, encodes, writes.

The bytes of a store depend only on the text and the settings: documents are encoded independently and written
in the order of reading, whatever the number of workers. The store is built in a sibling folder,
`.NAME.building`, and gets its name in one rename. The next build empties what a killed one leaves.
"""

import os
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from electra.artifacts.store_files import SPLITS, TOKENIZER, StoreFolder
from electra.data.corpus import store, unknown
from electra.data.corpus.audit import Audit, repeated_note, turkish_note
from electra.data.corpus.documents import Documents, KeptDocument, chunks, keep_documents, show
from electra.data.corpus.encoding import id_dtype
from electra.data.corpus.holding_out import DIGEST_BYTES, hold_out, no_text, split_files
from electra.data.corpus.parallel import encode_in_order
from electra.data.corpus.sources import Argument, is_same_text
from electra.data.corpus.store import TokenStore
from electra.data.corpus.tokenizer import Tokenizer
from electra.data.corpus.wordpiece import MIN_FREQUENCY, choose_accents
from electra.data.text_settings import CorpusConfig, TokenizerConfig
from electra.foundation import config as recipes
from electra.foundation import durable, machine
from electra.foundation.errors import RunFolderError, StoreError

SAMPLED_DOCUMENTS = 10_000  # whose beginnings are searched for what deserves a note


def build_store(
    sources: Sequence[Argument],
    tokenizer: Tokenizer | TokenizerConfig,
    out: str | Path,
    *,
    config: CorpusConfig | None = None,
    workers: int | None = None,
    allow_unknown: bool = False,
) -> TokenStore:
    """Builds the token store of a corpus; reuses a store at `out` with the same text and settings.

    The tokenizer may be the settings for training one on the corpus. By default, a worker encodes on each
    core. Raises CorpusError for text that is missing or cannot be read, StoreError if `out` is not a store or
    was built from different text or settings, RunFolderError if another process is building it, and
    TokenizerError or ConfigError if no vocabulary can be trained, or too many tokens are unknown.
    """
    out, config = Path(out), config or CorpusConfig()
    existing = _existing_store(sources, tokenizer, out, config)
    if existing is not None:
        if out.with_name(f".{out.name}.building").is_dir():  # of a killed build, or of one that is at work
            with suppress(RunFolderError, StoreError), _build_folder(out):
                pass
        return existing
    with _build_folder(out) as work:
        existing = _existing_store(sources, tokenizer, out, config)  # another process may have built it
        if existing is None:
            _build(
                Documents(sources, config, work / "copies"),
                tokenizer,
                out,
                settings={"corpus": config.record(), "tokenizer": _tokenizer_record(tokenizer)},
                work=work,
                workers=workers or machine.cores(),
                allow_unknown=allow_unknown,
            )
    return existing or TokenStore.open(out)


def _build(
    documents: Documents,
    tokenizer: Tokenizer | TokenizerConfig,
    out: Path,
    *,
    settings: dict[str, Any],
    work: Path,
    workers: int,
    allow_unknown: bool,
) -> None:
    sources = documents.describe()
    accents = None
    if not isinstance(tokenizer, Tokenizer):
        tokenizer, accents = _trained(documents, tokenizer, Audit(sources=sources))
    audit = Audit(vocab_size=tokenizer.vocab_size, sources=sources)
    beginnings: list[str] = []  # of the first documents

    def kept_documents() -> Iterator[KeptDocument]:
        for document in keep_documents(documents, audit, "encoding"):
            if len(beginnings) < SAMPLED_DOCUMENTS:
                beginnings.append(document.text[:1000])
            yield document

    with durable.explain_disk_errors(out):
        _write_documents(kept_documents(), tokenizer, workers, work, audit)
        hold_out(work, settings["corpus"]["heldout"], audit)
    folder, complete, size = StoreFolder(work), work / "made", tokenizer.vocab_size
    train, heldout = (store.map_documents(folder.documents(split), id_dtype(size)) for split in SPLITS)
    counts = store.count_ids(train, size) + store.count_ids(heldout, size)
    audit.accents = accents
    audit.tokens_unknown, audit.vocabulary_used = int(counts[tokenizer.specials.unk]), int((counts > 0).sum())
    audit.tokens_train, audit.tokens_heldout = train.num_tokens, heldout.num_tokens
    _note(audit, beginnings, tokenizer, allow_unknown)
    audit.tokens_lost -= audit.tokens
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
        **{f"{TOKENIZER}/{name}": content for name, content in tokenizer.files().items()},
        StoreFolder.RECORD: durable.to_json(description),
        folder.audit.name: durable.to_json(audit.as_json()),
        **{name: partial(os.replace, work / name) for name in StoreFolder.split_files()},
    }
    durable.commit_directory(complete, files)
    with durable.explain_disk_errors(out):
        durable.rename(complete, out)
        durable.fsync(out.parent)


def _trained(documents: Documents, config: TokenizerConfig, audit: Audit) -> tuple[Tokenizer, dict[str, Any] | None]:
    """Returns a tokenizer trained on a sample of the corpus, and what was decided about its accents."""
    kept = keep_documents(documents, audit, "reading")
    sample = sample_documents(kept, 1_000_000 * config.sample_mb)
    if not sample:
        raise no_text(audit)
    show("training the vocabulary", sum(map(len, sample)))
    config, accents = choose_accents(sample, config)
    return Tokenizer.train(sample, config, has_forms=audit.documents_not_nfc > 0), accents


def _note(audit: Audit, beginnings: Sequence[str], tokenizer: Tokenizer, allow_unknown: bool) -> None:
    audit.notes += repeated_note(beginnings)
    if tokenizer.normalised("I") == "i":
        audit.notes += turkish_note(beginnings)
    if audit.unknown_rate > unknown.SAID:
        audit.unknown_words = unknown.words_in(beginnings, tokenizer)
        unknown.note(tokenizer, allow_unknown, unknown.Count.of(audit.as_json()))


@contextmanager
def _build_folder(out: Path) -> Iterator[Path]:
    """Yields an empty folder next to `out`, locked against another build and removed afterwards."""
    work = out.with_name(f".{out.name}.building")
    with durable.lock(work):
        for leftover in work.iterdir():
            if leftover.is_dir() and not leftover.is_symlink():
                shutil.rmtree(leftover)
            elif leftover.name != ".lock":
                leftover.unlink()
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _existing_store(
    sources: Sequence[Argument], tokenizer: Tokenizer | TokenizerConfig, out: Path, config: CorpusConfig
) -> TokenStore | None:
    """Returns the store at `out`, or None if there is nothing or an empty folder; refuses anything else."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return None
    if not StoreFolder.is_at(out):
        fix = "Choose another `out`, or remove it"
        raise StoreError("exists and is not a token store", where=out, fix=fix)
    existing = TokenStore.open(out)
    settings: dict[str, Any] = {"corpus": config.record(), "tokenizer": _tokenizer_record(tokenizer)}
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


def _tokenizer_record(tokenizer: Tokenizer | TokenizerConfig) -> dict[str, Any]:
    """Returns what a store records: the tokenizer's digest, or how to train it."""
    if isinstance(tokenizer, Tokenizer):
        return {"digest": tokenizer.digest}
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


def read_sample(
    sources: Sequence[Argument], config: CorpusConfig, characters: int, see: Callable[[KeptDocument], object]
) -> list[str]:
    """Returns `sample_documents` of a corpus, and shows every document to `see`; errors: `build_store`."""
    audit = Audit()

    def seen(corpus: Documents) -> Iterator[KeptDocument]:
        for document in keep_documents(corpus, audit, "reading"):
            see(document)
            yield document

    with tempfile.TemporaryDirectory() as work:
        corpus = Documents(sources, config, Path(work))
        sample = sample_documents(seen(corpus), characters)
        if not sample:
            audit.sources = corpus.describe()
            raise no_text(audit)
    return sample


def _write_documents(
    documents: Iterable[KeptDocument], tokenizer: Tokenizer, workers: int, work: Path, audit: Audit
) -> None:
    """Encodes documents, appends each with a token to its split in `work`, and counts them in the audit."""
    waiting_chunks: deque[list[KeptDocument]] = deque()

    def texts() -> Iterator[list[str]]:
        for chunk in chunks(documents):
            waiting_chunks.append(chunk)
            yield [document.text for document in chunk]

    counts, ends = [0, 0], [0, 0]  # documents and tokens written to each split
    with ExitStack() as stack:
        files = [[stack.enter_context(open(path, "wb")) for path in split_files(work, s)] for s in SPLITS]
        for encoded in encode_in_order(texts(), tokenizer, workers):
            chunk = waiting_chunks.popleft()
            split_of = np.array([int(document.is_held_out) for document in chunk])
            has_tokens = encoded.sizes > 0
            digests = np.frombuffer(b"".join(document.digest for document in chunk), f"V{DIGEST_BYTES}")
            for split, split_file in enumerate(files):
                mask = has_tokens & (split_of == split)
                sizes = encoded.sizes[mask]
                index = (np.cumsum(sizes) + ends[split]).astype("<u8")
                arrays = (encoded.ids[np.repeat(mask, encoded.sizes)], index, digests[mask])
                for file, array in zip(split_file, arrays, strict=True):
                    file.write(array.data)
                counts[split] += len(sizes)
                ends[split] += int(sizes.sum())
            audit.characters += int(encoded.characters[has_tokens].sum())
            audit.words += int(encoded.words[has_tokens].sum())
            audit.tokens_lost += len(encoded.ids)  # `_build` subtracts the tokens in the files
            audit.documents_empty += int((~has_tokens).sum())  # texts without a token
    audit.documents_train, audit.documents_heldout = counts
