"""Is everything in a folder as it was written? Every kind of folder, by the hashes and weights inside it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

from electra.artifacts import Finding, ModelFolder, StoreFolder, open_folder
from electra.artifacts.model import recorded_files
from electra.data.store import TokenStore
from electra.exchange.load import load_folder
from electra.exchange.weights import recorded_digest
from electra.foundation.errors import Damaged, ElectraError, ModelError


def verify(path: Path) -> Iterator[Finding]:
    """Each thing looked at in the folder at `path`, of whatever kind, and in the folders inside it."""
    yield from open_folder(path).verify({ModelFolder: _model, StoreFolder: _store})


def _store(folder: StoreFolder) -> Iterator[Finding]:
    problem = ""
    try:
        TokenStore.open(folder.path).verify()
    except ElectraError as error:
        problem = str(error)
    yield Finding(folder.path, folder.KIND, problem)


def _model(folder: ModelFolder) -> Iterator[Finding]:
    """All of it as it is loaded for use: digests, configuration, names, shapes and values of the tensors,
    tokenizer.
    """
    if folder.holds_graph:
        yield from folder.check()
        return
    what, problem = folder.KIND, ""
    try:
        what += f" ({', '.join([_read(folder), *_unchecked(folder)])})"
        problem = "; ".join(folder.changed().values())
    except ElectraError as error:
        problem = str(error)
    yield Finding(folder.path, what, problem)


def refuse_damaged(folder: ModelFolder) -> None:
    """A ModelError where `verify` finds a model folder damaged."""
    if folder.holds_graph:
        problem = folder.damage_of_graph()
    else:
        _read(folder)
        problem = "; ".join(folder.changed().values())
    if problem:
        raise ModelError(problem, where=folder.path, fix="Get it or export it again")


def _read(folder: ModelFolder) -> str:
    """The kind of the network, once all of it has been read."""
    with warnings.catch_warnings(action="ignore", category=Damaged):  # it is the finding
        return load_folder(folder.path, "encoder").kind


def _unchecked(folder: ModelFolder) -> list[str]:
    """What could be read, but not compared: no digest of it was recorded."""
    if recorded_digest(folder.weights) is None:
        return ["no digests recorded, so not compared with what was saved"]
    others = recorded_files(folder.weights) is None
    return ["no digests recorded of the configuration and the tokenizer"] if others else []
