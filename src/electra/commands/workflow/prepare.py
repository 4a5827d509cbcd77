"""Text -> Store: read it, train or take a tokenizer, encode on all cores, account for every token."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from electra.artifacts.included import included
from electra.artifacts.model import ModelFolder
from electra.artifacts.run import PairFolder, RunFolder
from electra.artifacts.store import StoreFolder
from electra.commands.workflow.artifact import Source, given_name, given_path, name_of
from electra.commands.workflow.display import Display, Told, display_for
from electra.commands.workflow.texts import Text, is_data_set, named_sources
from electra.foundation import config
from electra.foundation.errors import ConfigError
from electra.foundation.signals import unwinding
from electra.training.recipe import DataSection, TokenizerSection

if TYPE_CHECKING:
    from electra.commands.workflow.store import Store
    from electra.data.corpus import CorpusConfig
    from electra.data.packing import Counted
    from electra.data.tokenizer import Tokenizer, TokenizerConfig


def prepare(
    source: Text | Mapping[str, Text],
    out: Source,
    *,
    kind: Literal["wordpiece", "bpe", "unigram"] = "wordpiece",
    vocab_size: int = 30_522,
    tokenizer: Source | None = None,
    lowercase: bool = True,
    strip_accents: bool | None = None,
    sample_mb: int = 100,
    unit: Literal["file", "blank-line", "line"] = "file",
    text_field: str = "text",
    format: Literal["auto", "txt", "csv", "tsv", "json", "jsonl", "parquet", "arrow"] = "auto",
    encoding: str | None = None,
    broken_rows: float = 0.01,
    heldout: float = 0.005,
    near_duplicates: float | None = None,
    mix_temperature: float | None = None,
    mix_seed: int = 0,
    workers: int | None = None,
    memory: int = 1000,
    progress: Told = None,
) -> Store:
    """Turn text into a token store at `out`, or open the one that was made there of this text.

    source: files, folders, globs, URLs, "hub:NAME:CONFIG:SPLIT" or "python-docs"; one or several. Or texts: a
        list or generator of strings that name no file, a DataFrame, or a data set of `datasets`. Or several
        corpora by name, {"de": ..., "fi": ...}, for `mix_temperature`.
    kind: of the tokenizer that is trained: WordPiece, byte-level BPE or Unigram.
    vocab_size: entries of the vocabulary that is trained on the text.
    tokenizer: an existing one instead: a folder, vocab.txt, tokenizer.json, a run or a hub name.
    lowercase: lower-case the text; set it to False where capitals carry meaning, as in German.
    strip_accents: remove the accents from letters (None: when lower-casing text with hardly any).
    sample_mb: megabytes of text that the vocabulary is trained on, taken evenly from the corpus.
    unit: what one document is in a .txt file: the file, a part between blank lines, or a line.
    text_field: the field or column of tables (csv, JSON, parquet, hub data sets) that holds the text;
        "doc.body" for a field within another.
    format: of the sources ("auto": what their file extension says).
    encoding: of text, csv and JSON, such as "cp1252" (None: UTF-8, or UTF-16 where a file begins so).
    broken_rows: share of the rows of tables that may be left out because they cannot be read or have no text.
    heldout: share of the documents held out for evaluation, chosen by a hash of their text; at least one.
    near_duplicates: drop documents this similar to an earlier one, such as 0.8 (None: only equal ones).
    mix_temperature: the power of a named corpus' tokens that its share is proportional to, from 0 (all
        alike) to 1 (as they are). Documents of small ones are repeated, of large ones left out.
    mix_seed: of the draw of those documents.
    workers: processes that encode (None: all cores). The store is the same for any number.
    memory: megabytes for finding duplicates; what is more lies on disk. The store is the same for any.
    progress: see `electra.commands.workflow.display.Told`.

    Raises CorpusError for text that cannot be read, TokenizerError, ConfigError, and StoreError where `out`
    holds something else.
    """
    vocabulary = {
        "source": name_of(tokenizer, "tokenizer"),
        "kind": kind,
        "vocab_size": vocab_size,
        "lowercase": lowercase,
        "strip_accents": strip_accents,
        "sample_mb": sample_mb,
    }
    reading = {
        "unit": unit,
        "text_field": text_field,
        "format": format,
        "encoding": encoding,
        "broken_rows": broken_rows,
        "heldout": heldout,
        "near_duplicates": near_duplicates,
        "mix_temperature": mix_temperature,
        "mix_seed": mix_seed,
    }
    chosen = config.build(TokenizerSection, vocabulary, where="")
    data = config.build(DataSection, reading, where="")
    workers, memory = config.convert(int | None, workers, "workers"), config.convert(int, memory, "memory")
    if isinstance(source, Mapping) and not is_data_set(source) and mix_temperature is None:
        raise ConfigError(
            "named corpora are for a mixture",
            key="mix_temperature",
            fix="Give it, such as 0.5, or a list of sources",
        )
    with (
        display_for(progress) as display,
        named_sources(source, "source", text_field, format, display.say) as names,
    ):
        return build(
            names,
            given_path(out, "out"),
            chosen,
            data,
            workers=workers,
            memory=memory,
            display=display,
        )


def build(
    corpus: Sequence[str],
    out: Path,
    tokenizer: TokenizerSection,
    data: DataSection,
    *,
    workers: int | None,
    memory: int = 1000,
    display: Display,
) -> Store:
    """The store of a corpus; `display` is told how it is made and, at the end, its audit."""
    from electra.commands.workflow.store import Store
    from electra.data.packing import build_store

    if workers is not None and workers < 1:
        raise ConfigError(f"must be at least 1, not {workers}", key="workers")
    _check_memory(memory)
    chosen = (
        existing_tokenizer(tokenizer.source) if tokenizer.source is not None else tokenizer_config(tokenizer)
    )
    with unwinding(out):
        build_store(
            corpus,
            chosen,
            out,
            config=corpus_config(data),
            workers=workers,
            memory=memory * 1_000_000,
            progress=counting(display),
        )
    store = Store(out)
    tell_audit(store, display)
    made = store.tokens.vocab_size
    if tokenizer.source is None and made < tokenizer.vocab_size:
        display.say(f"this text supports a vocabulary of {made:,} entries, not {tokenizer.vocab_size:,}")
    return store


def _check_memory(megabytes: int) -> None:
    if megabytes < 1:
        raise ConfigError(f"must be at least 1 (megabyte), not {megabytes}", key="memory")


def tokenizer_config(section: TokenizerSection) -> TokenizerConfig:
    """The vocabulary to train, from the section [tokenizer] of a recipe."""
    from electra.data.tokenizer import TokenizerConfig

    return TokenizerConfig(**{name: value for name, value in asdict(section).items() if name != "source"})


def corpus_config(data: DataSection) -> CorpusConfig:
    """How text is read, from the section [data] of a recipe."""
    from electra.data.corpus import CorpusConfig

    return CorpusConfig(**asdict(data))


def prepare_shard(
    source: Source | Sequence[Source],
    out: Source,
    shard: str,
    *,
    tokenizer: Source,
    data: DataSection,
    workers: int | None = None,
    memory: int = 1000,
    progress: Told = None,
) -> bool:
    """Encode one of several parts of a corpus, such as "3/8" (counted from 0). False: it was there before."""
    from electra.data.sharding import build_shard, parse_shard

    _check_memory(memory)
    made, number = existing_tokenizer(tokenizer), parse_shard(shard)
    with display_for(progress) as display, unwinding(out):
        return build_shard(
            sources(source),
            made,
            given_path(out, "out"),
            number,
            config=corpus_config(data),
            workers=workers,
            memory=memory * 1_000_000,
            progress=counting(display),
        )


def merge_shards(shards: Sequence[Source], out: Source, *, progress: Told = None) -> Store:
    """The store that one command would have made of the corpus these shards are of."""
    from electra.commands.workflow.store import Store
    from electra.data.sharding import merge

    with display_for(progress) as display, unwinding(out):
        merge([given_path(shard, "shards") for shard in shards], given_path(out, "out"), counting(display))
        store = Store(out)
        tell_audit(store, display)
    return store


def tell_audit(store: Store, display: Display) -> None:
    """What became of the text, line by line."""
    from electra.data.audit import rows

    for name, value in rows(store.audit):
        display.say(f"{name:<16}{value}")


def sources(source: Source | Sequence[Source], key: str = "") -> list[str]:
    """One source or several as a list of their names."""
    given: Any = source
    several = isinstance(given, Iterable) and not isinstance(given, str | bytes | os.PathLike)
    return [given_name(one, key) for one in (given if several else [given])]


def counting(display: Display) -> Counted:
    """What building a store calls while it reads."""
    return lambda stage, characters: display.progress(f"{stage}: {characters / 1e6:,.1f} million characters")


def holds_weights(name: str | None) -> bool:
    """Whether a tokenizer's source is a model that training can continue from."""
    path = None if name is None else included(name) or Path(name).expanduser()
    return path is not None and (RunFolder.is_at(path) or PairFolder.is_at(path) or ModelFolder.is_at(path))


def existing_tokenizer(name: Source) -> Tokenizer:
    """A tokenizer by its own name, or that of a store, a run or a pair of networks."""
    from electra.data.tokenizer import Tokenizer

    path = included(os.fspath(name)) or Path(name)
    if RunFolder.is_at(path) or PairFolder.is_at(path):
        from electra.exchange.run_folder import find_tokenizer

        return find_tokenizer(path)
    store = StoreFolder(path)
    return Tokenizer.load(store.tokenizer if store.exists() else os.fspath(name))
