"""Checks the files of any folder that electra wrote against their recorded digests."""

import json
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from electra.artifacts import Finding, Folder, ModelFolder, StoreFolder, open_folder
from electra.artifacts.model_files import CARD, recorded_files
from electra.data.corpus.store import TokenStore
from electra.exchange.load import load_folder
from electra.exchange.weights import recorded_digest
from electra.foundation import durable
from electra.foundation.errors import DamagedModel, ElectraError


def files_compared(path: Path) -> tuple[list[Path], list[Path]]:
    """Returns the files below the folder at `path` that `verify` compares with a digest, and all others.

    Digests are recorded in manifests, and in the headers of weights. Hidden files are left out.
    """
    folder = open_folder(path)
    known = {file for each in _folders(folder) for file in _with_digests(each.path)}
    names = [file.relative_to(folder.path) for file in sorted(folder.path.rglob("*")) if file.is_file()]
    names = [name for name in names if not any(part.startswith(".") for part in name.parts)]
    compared = [name for name in names if folder.path / name in known]
    return compared, [name for name in names if name not in compared]


def _folders(folder: Folder) -> Iterator[Folder]:
    yield folder
    for part in folder.parts():
        yield from _folders(part)


def _with_digests(folder: Path) -> Iterator[Path]:
    """Yields a folder's files with recorded digests, and the files that record them."""
    if (manifest := folder / durable.MANIFEST).is_file():
        with suppress(OSError, ValueError, LookupError, TypeError):  # damaged: a finding of `verify`
            listed = [folder / name for name in json.loads(manifest.read_bytes())["files"]]
            is_graph = ModelFolder.is_at(folder)  # its card may have been changed
            yield from (file for file in (manifest, *listed) if not (is_graph and file.name == CARD))
        return
    for weights in folder.glob("*.safetensors"):
        with suppress(Exception):  # the library raises its own kinds
            if recorded_digest(weights):
                yield weights
                yield from (folder / name for name in recorded_files(weights) or ())


def verify(at: Path | Folder) -> Iterator[Finding]:
    """Yields a finding for each part of a folder and of the folders in it."""
    folder = at if isinstance(at, Folder) else open_folder(at)
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
        yield from verify(part)


def _contents(folder: ModelFolder) -> Iterator[str]:
    """Loads a model, which checks digests, configuration, tensors and tokenizer; yields what it is."""
    with warnings.catch_warnings(action="ignore", category=DamagedModel):  # is a finding instead
        loaded = load_folder(folder.path, "encoder")
    yield loaded.kind
    if recorded_digest(folder.weights) is None:
        yield "no digests recorded"
    elif recorded_files(folder.weights) is None:
        yield "no digests recorded of the configuration and the tokenizer"
