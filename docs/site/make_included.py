"""Make a model that comes with the package out of a run or pair: 16, 8 or 4 bits, what is shared stored once, a card.

    python docs/site/make_included.py RUN NAME SUMMARY.md [float16|int8|int4]

SUMMARY.md says what the card shall say first: how it was trained, the text and its licence, what it can do.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import torch

from electra.artifacts.included import MODELS
from electra.artifacts.model_files import (
    CONFIG,
    SHARED,
    SHARED_DIGEST,
    SHARED_TENSORS,
    TOKENIZER_FILES,
    Dtype,
    ModelFolder,
    recorded_files,
)
from electra.artifacts.run_files import PairFolder
from electra.data.corpus.tokenizer import Tokenizer
from electra.exchange import run_folder, weight_names
from electra.exchange.configs import read_config
from electra.exchange.huggingface import export, make_card
from electra.exchange.load import Loaded, load, load_language_model, read_tensors, shared_digest
from electra.exchange.weights import SCALE, read_safetensors, write_weights
from electra.foundation import durable
from electra.foundation.errors import ModelError


def load_networks(source: Path, out: Path) -> dict[Path, Loaded]:
    """Loads all networks of a run or pair. The keys are the subfolders of `out` for their copies."""
    models = {PairFolder(out).network(kind).path: load(source, kind) for kind in run_folder.network_kinds(source)}
    if (language_model := load_language_model(source)) is not None:
        models[PairFolder(out).language_model.path] = language_model
    return models


def share_encoder(folder: Path, neighbour: str) -> None:
    """Removes the tokenizer, and the tensors of the encoder that the sibling `neighbour` has, from a model.

    A model without the sibling's token table is left as it is. Only this package can read the others. Raises
    ModelError if the two tokenizers differ.
    """
    model, sibling = ModelFolder(folder), ModelFolder(folder.parent / neighbour)
    architecture = read_config(folder).encoder.architecture
    sibling_tensors = {
        name: tensor
        for name, tensor in read_tensors(sibling.path).items()
        if name.startswith(weight_names.PREFIX[architecture])
    }
    shared = {
        name: tensor
        for name, tensor in read_tensors(folder).items()
        if name in sibling_tensors
        and tensor.dtype == sibling_tensors[name].dtype
        and torch.equal(tensor, sibling_tensors[name])
    }
    if weight_names.table_and_decoder(shared, architecture)[0] is None:
        return
    tokenizer = Tokenizer.load(folder)
    if tokenizer.digest != Tokenizer.load(sibling.path).digest:
        raise ModelError(f"its tokenizer differs from that of {neighbour}/", where=folder)
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    contents: dict[str, durable.Content] = {
        name: path.read_bytes() for name, path in files.items() if name not in TOKENIZER_FILES
    }
    shared_entry = {} if shared.keys() == sibling_tensors.keys() else {SHARED_TENSORS: sorted(shared)}
    contents[CONFIG] = durable.to_json(model.record | {SHARED: neighbour} | shared_entry)
    recorded = {name: contents[name] for name in recorded_files(model.weights) or {} if name in contents}
    stored_tensors = read_safetensors(model.weights).items()
    remaining = {name: tensor for name, tensor in stored_tensors if name.removesuffix(SCALE) not in shared}
    metadata = {SHARED_DIGEST: shared_digest(shared, tokenizer)}
    contents[model.weights.name] = lambda path: write_weights(path, remaining, recorded, metadata)
    durable.commit_directory(folder, contents)
    (folder / durable.MANIFEST).unlink()


def make(run: Path, out: Path, summary: str, dtype: Dtype = "float16") -> None:
    """Writes the networks of `run` to `out`."""
    for folder, loaded in load_networks(run, out).items():
        card = make_card(loaded, folder, run)
        card = replace(card, name=f"{out.name}-{folder.name}", summary=summary, base_model="")
        export(loaded, folder, run, dtype=dtype, card=card)
        if folder.name != "discriminator":
            share_encoder(folder, "discriminator")


if __name__ == "__main__":
    summary = Path(sys.argv[3]).read_text(encoding="utf-8").strip()
    make(Path(sys.argv[1]), MODELS / sys.argv[2], summary, *sys.argv[4:])  # type: ignore[arg-type]
