"""Turn text into a token store: read it, train or take a tokenizer, encode on all cores, and account for
every token.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from electra.cli.arguments import Positional
from electra.cli.terminal import say
from electra.errors import ConfigError

if TYPE_CHECKING:
    from electra.data.packing import Progress
    from electra.data.store import TokenStore
    from electra.data.tokenizer import Tokenizer
    from electra.training.recipe import DataSection, TokenizerSection


@dataclass(frozen=True)
class Arguments:
    corpus: Positional[tuple[str, ...]]
    """Files, folders, globs, URLs, - (stdin), hub:NAME:CONFIG:SPLIT, or python-docs (the prose of Python's
    own documentation).
    """
    out: Path
    """The store to make. The same command again finds it complete."""
    tokenizer: str | None = None
    """An existing tokenizer: a folder, vocab.txt, tokenizer.json, run folder or hub name (none: train a
    WordPiece vocabulary).
    """
    vocab_size: int = 30_522
    """Entries of the vocabulary to train."""
    lowercase: bool = True
    """Lower-case the text (say --no-lowercase where capitals carry meaning, as in German)."""
    strip_accents: bool | None = None
    """Take the accents off letters (none: when lower-casing, as BERT does)."""
    sample_mb: int = 100
    """Megabytes of text to train the vocabulary on, taken evenly from the corpus."""
    unit: Literal["file", "blank-line", "line"] = "file"
    """What one document is in a .txt file: the file, a part between blank lines, or a line."""
    text_field: str = "text"
    """Field of .jsonl, column of .parquet and of hub data sets that holds the text."""
    format: Literal["auto", "txt", "jsonl", "parquet"] = "auto"
    """Format of the sources (auto: what their suffix says; stdin is txt)."""
    heldout: float = 0.005
    """Share of the documents held out for evaluation, chosen by a hash of their text; at least one."""
    workers: int | None = None
    """Processes that encode (none: all cores). The store is the same for any number."""
    shard: str | None = None
    """Prepare one of several parts, such as 3/8 (counted from 0), on a machine of its own. Needs --tokenizer;
    --merge ends it.
    """
    merge: bool = False
    """CORPUS are the shards of one corpus: make the store of them that one command would have made."""


def run(arguments: Arguments) -> int:
    from electra.data.corpus import CorpusConfig
    from electra.data.tokenizer import TokenizerConfig

    if not arguments.corpus:
        raise ConfigError(
            "no text named", where="electra prepare", fix="Such as: electra prepare texts/ --out store"
        )
    if arguments.shard is not None or arguments.merge:
        return run_part(arguments)
    existed = (arguments.out / "store.json").is_file()
    with _terminated_as_exit():
        store = build(
            arguments.corpus,
            arguments.out,
            (
                existing_tokenizer(arguments.tokenizer)
                if arguments.tokenizer
                else TokenizerConfig(
                    vocab_size=arguments.vocab_size,
                    lowercase=arguments.lowercase,
                    strip_accents=arguments.strip_accents,
                    sample_mb=arguments.sample_mb,
                )
            ),
            CorpusConfig(
                unit=arguments.unit,
                text_field=arguments.text_field,
                format=arguments.format,
                heldout=arguments.heldout,
            ),
            arguments.workers,
        )
    say(f"{'already complete' if existed else 'written'}: {arguments.out} (data {store.digest[:16]})")
    say(f"next: electra pretrain --store {arguments.out} --out runs/NAME")
    return 0


def run_part(arguments: Arguments) -> int:
    """One shard, or all of them put together."""
    from electra.data.corpus import CorpusConfig
    from electra.data.sharding import build_shard, merge, parse_shard

    if arguments.merge and arguments.shard is not None:
        raise ConfigError(
            "both --shard and --merge are given", where="electra prepare", fix="Give one of them"
        )
    if arguments.merge:
        with _terminated_as_exit(), _progress() as progress:
            store = merge([Path(folder) for folder in arguments.corpus], arguments.out, progress)
        show(store)
        say(f"written: {arguments.out} (data {store.digest[:16]})")
        return 0
    shard = parse_shard(str(arguments.shard))
    if arguments.tokenizer is None:
        fix = (
            "Make one from a sample first: electra prepare SAMPLE --out first; then --tokenizer"
            " first/tokenizer"
        )
        raise ConfigError("all shards need the same tokenizer", where="--shard", fix=fix)
    config = CorpusConfig(
        unit=arguments.unit,
        text_field=arguments.text_field,
        format=arguments.format,
        heldout=arguments.heldout,
    )
    tokenizer = existing_tokenizer(arguments.tokenizer)
    with _terminated_as_exit(), _progress() as progress:
        new = build_shard(
            arguments.corpus,
            tokenizer,
            arguments.out,
            shard,
            config=config,
            workers=arguments.workers,
            progress=progress,
        )
    say(f"{'written' if new else 'already complete'}: shard {arguments.shard} in {arguments.out}")
    return 0


def prepare(
    corpus: Sequence[str],
    out: Path,
    *,
    data: DataSection,
    tokenizer: TokenizerSection,
    existing: str | None = None,
    workers: int | None = None,
) -> TokenStore:
    """The store of a run that is given a corpus, from the sections of its recipe."""
    from electra.data.corpus import CorpusConfig
    from electra.data.tokenizer import TokenizerConfig

    wanted = (
        existing_tokenizer(existing)
        if existing
        else TokenizerConfig(
            vocab_size=tokenizer.vocab_size,
            lowercase=tokenizer.lowercase,
            strip_accents=tokenizer.strip_accents,
        )
    )
    return build(
        corpus,
        out,
        wanted,
        CorpusConfig(unit=data.unit, text_field=data.text_field, heldout=data.heldout),
        workers,
    )


def build(corpus: Sequence[str], out: Path, tokenizer: Any, config: Any, workers: int | None) -> TokenStore:
    """Build the store with a progress line, and show its audit."""
    from electra.data.packing import build_store

    if workers is not None and workers < 1:
        raise ConfigError(f"{workers} workers", where="--workers", fix="At least 1")
    with _progress() as progress:
        store = build_store(corpus, tokenizer, out, config=config, workers=workers, progress=progress)
    show(store)
    return store


def show(store: TokenStore) -> None:
    """The audit as a table."""
    from rich.console import Console
    from rich.table import Table

    from electra.data.audit import rows

    table = Table(title="Audit of the text", show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column()
    for name, value in rows(store.audit):
        table.add_row(name, value)
    Console(highlight=False).print(table)


def existing_tokenizer(name: str) -> Tokenizer:
    """A tokenizer by its own name, or that of a run or of a pair of networks."""
    from electra.data.tokenizer import Tokenizer

    if any((Path(name) / part).exists() for part in ("run.toml", "discriminator", "generator")):
        from electra.interop.run_folder import find_tokenizer

        return find_tokenizer(Path(name))
    return Tokenizer.load(name)


@contextmanager
def _progress() -> Iterator[Progress]:
    """A line that says what is being done; nothing when the output is not a terminal."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    with console.status("reading") as status:
        yield lambda stage, characters: status.update(f"{stage}: {characters / 1e6:,.1f} million characters")


@contextmanager
def _terminated_as_exit() -> Iterator[None]:
    """SIGTERM leaves nothing behind: it unwinds the build, and the exit code is 143."""

    def leave(number: int, frame: object) -> None:
        sys.exit(143)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
