"""Is everything in a folder as it was written? Every kind of folder, by the hashes and weights inside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from electra.artifacts import Finding, ModelFolder, StoreFolder, open_folder
from electra.artifacts.model import recorded_files
from electra.data.store import TokenStore
from electra.errors import ElectraError
from electra.interop.huggingface import DIGEST, digest
from electra.interop.load import load_folder, read_safetensors


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
    """The digest of the weights, then the whole of it as it is loaded for use: configuration, every tensor by
    name, shape and values, tokenizer.
    """
    from safetensors import safe_open

    if folder.holds_graph:
        yield from folder.check()
        return
    what, problem = folder.KIND, ""
    try:
        tensors = read_safetensors(folder.weights)
        with safe_open(folder.weights, "pt") as file:
            recorded = (file.metadata() or {}).get(DIGEST)
        if recorded is not None and recorded != digest(tensors):
            problem = f"{folder.weights.name} is damaged (its SHA-256 differs)"
        else:
            problem = "; ".join(folder.changed())
            kind = load_folder(folder.path, "encoder").kind
            what += f" ({', '.join([kind, *_unchecked(folder, recorded is not None)])})"
    except ElectraError as error:
        problem = str(error)
    yield Finding(folder.path, what, problem)


def _unchecked(folder: ModelFolder, weights: bool) -> list[str]:
    """What could be read, but not compared: no digest of it was recorded."""
    if not weights:
        return ["no digests recorded, so not compared with what was saved"]
    others = recorded_files(folder.weights) is None
    return ["no digests recorded of the configuration and the tokenizer"] if others else []
