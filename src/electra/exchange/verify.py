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
    """Yields a finding for each part of the folder at `path` and of the folders in it."""
    yield from _verify(open_folder(path))


def _verify(folder: Folder) -> Iterator[Finding]:
    if isinstance(folder, ModelFolder | StoreFolder):
        path, subject, problem = folder.path, folder.KIND, ""
        try:
            if isinstance(folder, StoreFolder):
                TokenStore.open(folder.path).verify()
            elif folder.holds_graph:
                path, subject, problem = folder.onnx, "graph", folder.damage_of_graph() or ""
            else:
                subject = f"{subject} ({', '.join(_contents(folder))})"
                problem = "; ".join(folder.changed_files().values())
        except ElectraError as error:
            problem = str(error)
        yield Finding(path, subject, problem)
    else:
        yield from folder.check()
    for part in folder.parts():
        yield from _verify(part)


def _contents(folder: ModelFolder) -> Iterator[str]:
    """Loads a model, which checks digests, configuration, tensors and tokenizer; yields what it is."""
    with warnings.catch_warnings(action="ignore", category=DamagedModel):  # is a finding instead
        loaded = load_folder(folder.path, "encoder")
    yield loaded.kind
    if recorded_digest(folder.weights) is None:
        yield "no digests recorded"
    elif recorded_files(folder.weights) is None:
        yield "no digests recorded of the configuration and the tokenizer"
