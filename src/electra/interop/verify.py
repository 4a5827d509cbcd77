"""Is everything in a folder as it was written? Checkpoints, stores and finished seeds by their manifests,
exported folders by what they hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from electra import durable
from electra.config import read_toml
from electra.data.store import TokenStore
from electra.errors import ElectraError, ModelError
from electra.interop import run_folder
from electra.interop.huggingface import DIGEST, WEIGHTS, digest
from electra.interop.load import load_folder, read_safetensors

FINETUNING = "finetune.json"  # marks the folder of a fine-tuning
WANTED = "Give a run folder, a checkpoint, a token store, a fine-tuning or a model folder"


@dataclass(frozen=True)
class Finding:
    """One thing looked at: what it is, and what is wrong with it (empty: nothing)."""

    path: Path
    what: str
    problem: str = ""


def verify(path: Path) -> Iterator[Finding]:
    """Look at a run folder, a checkpoint, a token store, a fine-tuning or a model folder."""
    if not path.is_dir():
        raise ModelError("no such folder", where=path, fix=WANTED)
    if run_folder.holds_networks(path):
        yield from _run(path)
    elif (path / "store.json").is_file():
        yield _store(path)
    elif (path / FINETUNING).is_file():
        yield from _finetuning(path)
    elif (path / "config.json").is_file():
        yield _model(path)
    elif (path / durable.MANIFEST).is_file() or (path / "state.json").is_file():
        yield _checkpoint(path)
    else:
        raise ModelError("nothing here that can be verified", where=path, fix=WANTED)


def _run(run: Path) -> Iterator[Finding]:
    if run_folder.is_run(run):
        yield _record(run)
        yield from (_checkpoint(path) for _, path in run_folder.checkpoints(run))
    if (run / "store").is_dir():
        yield _store(run / "store")
    yield from (_model(run / name) for name in run_folder.NETWORKS if (run / name).is_dir())


def _finetuning(folder: Path) -> Iterator[Finding]:
    for seed in sorted((folder / "seeds").glob("seed-*"), key=lambda path: (len(path.name), path.name)):
        yield Finding(seed, "results of a seed", durable.verify_directory(seed) or "")
    if (folder / "ensemble").is_dir():
        yield Finding(folder / "ensemble", "ensemble", durable.verify_directory(folder / "ensemble") or "")
    yield (
        _model(folder / "model")
        if (folder / "model").is_dir()
        else Finding(folder, "fine-tuning without a model: it has not ended")
    )


def _record(run: Path) -> Finding:
    try:
        read_toml(run / "run.toml")
    except ElectraError as error:
        return Finding(run / "run.toml", "recipe", error.what)
    return Finding(run / "run.toml", "recipe")


def _checkpoint(path: Path) -> Finding:
    return Finding(path, "checkpoint", durable.verify_directory(path) or "")


def _store(path: Path) -> Finding:
    try:
        TokenStore.open(path).verify()
    except ElectraError as error:
        return Finding(path, "token store", str(error))
    return Finding(path, "token store")


def _model(folder: Path) -> Finding:
    """The digest of the weights, then the whole of it as it is loaded for use: configuration, every tensor by
    name, shape and values, tokenizer.
    """
    from safetensors import safe_open

    try:
        tensors = read_safetensors(folder / WEIGHTS)
        with safe_open(folder / WEIGHTS, "pt") as file:
            recorded = (file.metadata() or {}).get(DIGEST)
        if recorded is not None and recorded != digest(tensors):
            return Finding(folder, "model folder", f"{WEIGHTS} is damaged (its SHA-256 differs)")
        kind = load_folder(folder, "encoder").kind
    except ElectraError as error:
        return Finding(folder, "model folder", str(error))
    return Finding(folder, f"model folder ({kind}{'' if recorded else ', without a recorded digest'})")
