"""Checks the files of any folder that electra wrote against their recorded digests."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

from electra.artifacts import Finding, ModelFolder, StoreFolder, open_folder
from electra.artifacts.model import recorded_files
from electra.data.store import TokenStore
from electra.exchange.load import load_folder
from electra.exchange.weights import recorded_digest
from electra.foundation.errors import DamagedModel, ElectraError


def verify(path: Path) -> Iterator[Finding]:
    """Yields a finding for each part of the folder at `path` and of the folders in it.

    Raises RunFolderError if there is no such folder, or electra did not write it.
    """
    yield from open_folder(path).verify({ModelFolder: _verify_model, StoreFolder: _verify_store})


def _verify_store(folder: StoreFolder) -> Iterator[Finding]:
    problem = ""
    try:
        TokenStore.open(folder.path).verify()
    except ElectraError as error:
        problem = str(error)
    yield Finding(folder.path, folder.KIND, problem)


def _verify_model(folder: ModelFolder) -> Iterator[Finding]:
    """Loads the model, which checks digests, configuration, tensors and tokenizer."""
    if folder.holds_graph:
        yield from folder.check()
        return
    subject, problem = folder.KIND, ""
    try:
        with warnings.catch_warnings(action="ignore", category=DamagedModel):  # is a finding instead
            phrases: list[str] = [load_folder(folder.path, "encoder").kind]
        if recorded_digest(folder.weights) is None:
            phrases.append("no digests recorded")
        elif recorded_files(folder.weights) is None:
            phrases.append("no digests recorded of the configuration and the tokenizer")
        subject += f" ({', '.join(phrases)})"
        problem = "; ".join(folder.changed_files().values())
    except ElectraError as error:
        problem = str(error)
    yield Finding(folder.path, subject, problem)
