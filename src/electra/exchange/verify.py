"""Checks the files of any folder that electra wrote against their recorded digests."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

from electra.artifacts import Finding, Folder, ModelFolder, StoreFolder, open_folder
from electra.artifacts.model import recorded_files
from electra.data.store import TokenStore
from electra.exchange.load import load_folder
from electra.exchange.weights import recorded_digest
from electra.foundation.errors import DamagedModel, ElectraError


def verify(path: Path) -> Iterator[Finding]:
    """Yields a finding for each part of the folder at `path` and of the folders in it.

    Raises RunFolderError if there is no such folder, or electra did not write it.
    """
    yield from _verify(open_folder(path))


def _verify(folder: Folder) -> Iterator[Finding]:
    if isinstance(folder, ModelFolder):
        yield _verify_model(folder)
    elif isinstance(folder, StoreFolder):
        yield _verify_store(folder)
    else:
        yield from folder.check()
    for part in folder.parts():
        yield from _verify(part)


def _verify_store(folder: StoreFolder) -> Finding:
    problem = ""
    try:
        TokenStore.open(folder.path).verify()
    except ElectraError as error:
        problem = str(error)
    return Finding(folder.path, folder.KIND, problem)


def _verify_model(folder: ModelFolder) -> Finding:
    """Loads the model, which checks digests, configuration, tensors and tokenizer."""
    subject, problem = folder.KIND, ""
    try:
        if folder.holds_graph:
            return Finding(folder.onnx, "graph", folder.damage_of_graph() or "")
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
    return Finding(folder.path, subject, problem)
