"""Repeats logged updates of a run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from electra.artifacts import Finding
from electra.artifacts.run import RunFolder
from electra.artifacts.store import DOCUMENTS_SUFFIX
from electra.commands.framework.command import Source
from electra.foundation.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from electra.data.store import TokenStore


def replay(folder: RunFolder, steps: int, store: Source | None = None) -> list[Finding]:
    """Repeats `steps` updates after a checkpoint; returns a finding for each comparison with the log.

    It starts from the newest intact checkpoint that is followed by `steps` updates. Raises the errors of
    `training.replay.replay` and `open_run_store`.
    """
    from electra.training.replay import replay as repeat

    return repeat(folder, open_run_store(folder, store), steps)


def run_store_path(folder: RunFolder, store: Source | None = None) -> str:
    """Returns the path of the store of a run: `store`, or the one in its folder, or the recorded one.

    Raises ConfigError if no store was passed, found or recorded.
    """
    own = folder.store.path if folder.store.exists() else None
    if path := store or own or folder.record.get("environment", {}).get("store"):
        return os.fspath(path)
    problem = "the run does not record where its store is"
    raise ConfigError(problem, where=folder.path, key="store", fix="Pass `store`")


def open_run_store(folder: RunFolder, path: Source | None = None) -> TokenStore:
    """Opens the store of a run, found by `run_store_path`.

    Raises StoreError if it is missing, or is not the one that the run was trained on.
    """
    from electra.commands.parts.stores import existing_tokenizer
    from electra.data.store import TokenStore

    record, name = folder.record, run_store_path(folder, path)
    source = record.get("tokenizer", {}).get("source")
    tokenizer = existing_tokenizer(source) if source and name.endswith(DOCUMENTS_SUFFIX) else None
    store = TokenStore.open(name, tokenizer)
    if store.digest != record.get("identity", {}).get("data"):
        raise StoreError("not the store that the run was trained on", where=name, fix="Pass another `store`")
    return store
