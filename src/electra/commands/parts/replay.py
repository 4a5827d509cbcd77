"""The store that a run was trained on, and updates of the run that are repeated on it."""

from __future__ import annotations

import os

from electra.artifacts import Finding
from electra.artifacts.run import RunFolder
from electra.artifacts.store import DOCUMENTS_SUFFIX
from electra.foundation.errors import ConfigError, StoreError
from electra.foundation.options import Source


def replay(folder: RunFolder, steps: int, store: Source | None = None) -> list[Finding]:
    """Repeats `steps` updates after a checkpoint; returns a finding for each comparison with the log.

    Raises the errors of `training.replay.replay`, and StoreError if the store is missing, or is not the one
    that the run was trained on.
    """
    from electra.commands.parts.stores import existing_tokenizer
    from electra.data.store import TokenStore
    from electra.training.replay import replay as repeat

    record, name = folder.record, run_store_path(folder, store)
    source = record.get("tokenizer", {}).get("source")
    tokenizer = existing_tokenizer(source) if source and name.endswith(DOCUMENTS_SUFFIX) else None
    opened = TokenStore.open(name, tokenizer)
    if opened.digest != record.get("identity", {}).get("data"):
        raise StoreError("not the store that the run was trained on", where=name, fix="Pass another `store`")
    return repeat(folder, opened, steps)


def run_store_path(folder: RunFolder, store: Source | None = None) -> str:
    """Returns the path of the store of a run: `store`, or the one in its folder, or the recorded one.

    Raises ConfigError if no store was passed, found or recorded.
    """
    own = folder.store.path if folder.store.exists() else None
    if path := store or own or folder.record.get("environment", {}).get("store"):
        return os.fspath(path)
    problem = "the run does not record where its store is"
    raise ConfigError(problem, where=folder.path, key="store", fix="Pass `store`")
