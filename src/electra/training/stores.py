"""The stores that runs are trained on: built from text, opened, and compared with what was asked for."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electra.artifacts.included import included_model
from electra.artifacts.run_files import PairFolder, RunFolder
from electra.artifacts.store_files import DOCUMENTS_SUFFIX, StoreFolder
from electra.data.text_settings import CorpusConfig, TokenizerConfig
from electra.foundation.errors import ConfigError, RunFolderError, StoreError
from electra.foundation.machine import is_distributed, launch_variable
from electra.foundation.options import Source
from electra.foundation.progress import Say, doing
from electra.foundation.signals import interrupt_on_signal
from electra.training.recipe import Recipe, TokenizerSection
from electra.training.request import Request, TrainingText

if TYPE_CHECKING:
    from electra.data.corpus.store import TokenStore
    from electra.data.corpus.tokenizer import Tokenizer


SAMPLED_CHARACTERS = 4_000_000  # from which the size of a corpus is estimated
SAMPLED_IDS = 1 << 24  # of a store without an audit, in which unknown tokens are counted


def open_store(request: Request, recipe: Recipe, say: Say) -> TokenStore:
    """Opens the store, or prepares the text in OUT/store in the main process while the others wait."""
    from electra.data.corpus.store import TokenStore

    run, text = RunFolder(request.out), request.text
    if text.store is not None:
        source = recipe.tokenizer.source
        store = TokenStore.open(text.store, existing_tokenizer(source) if source else None)
        refuse_preparing(request, store)
        check_unknown(store, text.allow_unknown, say)
        return store
    if not is_main():
        while not run.store.exists():  # before it joins the process group, whose timeout is short
            time.sleep(0.5)
        return TokenStore.open(run.store.path)
    recorded = run.record.get("environment", {}).get("store") if run.exists() else None
    if recorded and not run.store.exists() and Path(recorded).resolve() != run.store.path.resolve():
        fix = "Pass it as `store` to resume, or choose another `out`"
        raise RunFolderError(f"this run was trained on the store {recorded}", where=run.path, fix=fix)
    how: dict[str, Any] = {"workers": text.workers, "allow_unknown": text.allow_unknown, "say": say}
    return build(text.corpus, run.store.path, recipe.tokenizer, recipe.data, **how)


def is_main() -> bool:
    """Whether this process writes: it is alone, or the launcher gave it the first rank."""
    return not is_distributed() or launch_variable("RANK") == 0


def with_store_settings(recipe: Recipe, store: TokenStore) -> Recipe:
    """Returns the recipe with the settings that the store was made with, as far as they are recorded."""
    recorded = store.description.get("settings", {})

    def known(section: Any, settings: Mapping[str, Any]) -> Any:
        names = {field.name for field in fields(section)}
        return replace(section, **{name: settings[name] for name in names & set(settings)})

    tokenizer = known(recipe.tokenizer, recorded.get("tokenizer", {}))
    return replace(recipe, tokenizer=tokenizer, data=known(recipe.data, recorded.get("corpus", {})))


def build(
    corpus: Sequence[str],
    out: Path,
    tokenizer: TokenizerSection,
    data: CorpusConfig,
    *,
    workers: int | None,
    allow_unknown: bool,
    say: Say,
) -> TokenStore:
    """Builds the store of a corpus in `out`, or opens it, and shows the progress and the audit."""
    from electra.data.corpus.audit import format_rows
    from electra.data.corpus.store import TokenStore
    from electra.data.corpus.store_builder import build_store

    if workers is not None and workers < 1:
        raise ConfigError(f"must be at least 1, not {workers}", key="workers")
    with interrupt_on_signal(out):
        build_store(corpus, tokenizer_for(tokenizer), out, config=data, workers=workers, allow_unknown=allow_unknown)
    store = TokenStore.open(out)
    check_unknown(store, allow_unknown, say)
    for name, value in format_rows(store.audit):
        say(f"{name:<16}{value}")
    entries, wanted = store.vocab_size, tokenizer.vocab_size
    if tokenizer.source is None and entries < wanted:
        say(f"this text supports a vocabulary of only {entries:,} entries, not {wanted:,}")
    return store


def check_unknown(store: TokenStore, allow: bool, say: Say) -> None:
    """Says the share of unknown tokens of a store. Raises TokenizerError if it is too large."""
    from electra.data.corpus import unknown

    if store.audit:
        count = unknown.Count.of(store.audit)
    else:  # a bare pair of files
        ids = store.train.tokens[:SAMPLED_IDS]
        count = unknown.Count(len(ids), int((ids == store.specials.unk).sum()))
    if note := unknown.note(store.tokenizer, allow, count):
        say(note)


def tokenizer_for(section: TokenizerSection) -> Tokenizer | TokenizerConfig:
    """Returns the existing tokenizer of the section [tokenizer] of a recipe, or the settings to train one."""
    if section.source is not None:
        return existing_tokenizer(section.source)
    return TokenizerConfig(**{name: value for name, value in asdict(section).items() if name != "source"})


def corpus_size(text: TrainingText, recipe: Recipe, say: Say) -> tuple[int, int]:
    """Returns an estimate of the training tokens, and the vocabulary size of text."""
    from electra.data.corpus import unknown
    from electra.data.corpus.store_builder import read_sample
    from electra.data.corpus.tokenizer import Tokenizer
    from electra.data.corpus.wordpiece import choose_accents

    tokenizer, sizes = tokenizer_for(recipe.tokenizer), list[int]()
    sample = read_sample(
        text.corpus, recipe.data, SAMPLED_CHARACTERS, lambda document: sizes.append(len(document.text))
    )
    if isinstance(tokenizer, TokenizerConfig):
        doing("training a vocabulary on a sample")
        tokenizer = Tokenizer.train(sample, choose_accents(sample, tokenizer)[0])
    tokenizer.counted = unknown.Count()
    tokens = sum(map(len, tokenizer.encode_corpus(sample))) * sum(sizes) / max(1, sum(map(len, sample)))
    if note := unknown.note(tokenizer, text.allow_unknown):
        say(note)
    say(
        f"{len(sizes):,} documents, {sum(sizes):,} characters, about {tokens:,.0f} tokens with a vocabulary"
        f" of {tokenizer.vocab_size:,}"
    )
    return round(tokens), tokenizer.vocab_size


def refuse_preparing(request: Request, store: TokenStore) -> None:
    """Raises ConfigError if the user passed settings of text that the store was made with other values of."""
    recorded, sections = store.description.get("settings", {}), {"data": "corpus", "tokenizer": "tokenizer"}
    for name in request.given:
        section, _, key = name.partition(".")
        if section in sections and key != "source":  # the store is opened with the tokenizer `source`
            config = getattr(request.recipe, section)
            value = getattr(config, key)
            default = next(field.default for field in fields(config) if field.name == key)
            prepared = recorded.get(sections[section], {}).get(key, default)
            if value not in (None, prepared):
                fix = "Omit it, or prepare the text anew with electra prepare"
                raise ConfigError("has no effect: the text is already prepared", key=name, fix=fix)


def existing_tokenizer(name: Source) -> Tokenizer:
    """Loads a tokenizer by its name or path, or the tokenizer of a store, a run or a pair of networks."""
    from electra.data.corpus.tokenizer import Tokenizer

    path = included_model(os.fspath(name)) or Path(name)
    if RunFolder.is_at(path) or PairFolder.is_at(path):
        from electra.exchange.run_folder import find_tokenizer

        return find_tokenizer(path)
    store = StoreFolder(path)
    return Tokenizer.load(store.tokenizer if store.exists() else os.fspath(name))


def run_store_path(folder: RunFolder, store: Source | None = None) -> str:
    """Returns the path of the store of a run: `store`, or the one in its folder, or the recorded one."""
    own = folder.store.path if folder.store.exists() else None
    if path := store or own or folder.record.get("environment", {}).get("store"):
        return os.fspath(path)
    problem = "the run does not record where its store is"
    raise ConfigError(problem, where=folder.path, key="store", fix="Pass `store`")


def open_run_store(folder: RunFolder, path: Source | None = None) -> TokenStore:
    """Opens the store of a run. Raises StoreError if it is not the one that the run was trained on."""
    from electra.data.corpus.store import TokenStore

    record, name = folder.record, run_store_path(folder, path)
    source = record.get("tokenizer", {}).get("source")
    tokenizer = existing_tokenizer(source) if source and name.endswith(DOCUMENTS_SUFFIX) else None
    store = TokenStore.open(name, tokenizer)
    if store.digest != record.get("identity", {}).get("data"):
        raise StoreError("not the store that the run was trained on", where=name, fix="Pass another `store`")
    return store
