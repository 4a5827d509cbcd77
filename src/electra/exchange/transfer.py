"""Exports networks to Hugging Face folders, and imports published models for further training."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import torch

from electra.artifacts.checkpoints import Checkpoint
from electra.artifacts.model import (
    CONFIG,
    GENERATOR_PICKLE,
    INTEGER_WEIGHTS,
    SHARED,
    SHARED_DIGEST,
    SHARED_TENSORS,
    TOKENIZER_FILES,
    Dtype,
    ModelFolder,
    recorded_files,
)
from electra.artifacts.run import PairFolder, RunFolder
from electra.data.tokenizer import Tokenizer
from electra.exchange import names, run_folder
from electra.exchange.card import Card, card_of_language_model, card_of_run
from electra.exchange.configs import DEFAULT_THRESHOLD, read_config
from electra.exchange.huggingface import require_replaceable, write_model
from electra.exchange.load import (
    Loaded,
    load,
    load_folder,
    load_language_model,
    read_tensors,
    shared_digest,
)
from electra.exchange.quantized import SCALE
from electra.exchange.source import locate
from electra.exchange.weights import read_safetensors, write_weights
from electra.foundation import durable
from electra.foundation.errors import AbsentNetwork, ModelError


def export(loaded: Loaded, out: Path, source: str | Path, *, dtype: Dtype = "float32") -> None:
    """Writes a loaded model as a Hugging Face folder, with a card made from `source`, its path or hub name.

    Raises the errors of `write_model`, for example if `out` contains anything but a model.
    """
    write(loaded, Path(out), make_card(loaded, Path(out), source), dtype)


def write(loaded: Loaded, out: Path, card: Card, dtype: Dtype = "float32") -> None:
    """Writes a loaded model as a Hugging Face folder, with this card. Raises the errors of `write_model`."""
    write_model(
        out,
        loaded.encoder,
        loaded.head,
        kind=loaded.kind,
        labels=loaded.labels,
        tokenizer=loaded.tokenizer,
        card=card,
        dtype=dtype,
        pooling=loaded.pooling,
    )


def make_card(loaded: Loaded, out: Path, source: str | Path) -> Card:
    """Makes the card of a model that is written to `out`, with the run's record if `source` is a run."""
    run = RunFolder(Path(source).expanduser())
    if not run.exists():
        base = str(source) if not run.path.exists() else ""
        card = Card(out.resolve().name, loaded.kind, base_model=base, output=loaded.output)
    elif loaded.folder == run.language_model.path:
        card = card_of_language_model(run.path, None)
    else:
        step = Checkpoint(loaded.folder).step if Checkpoint.is_at(loaded.folder) else None
        card = card_of_run(run.path, loaded.kind, step=step, averaged=loaded.averaged)
    return card if loaded.threshold == DEFAULT_THRESHOLD else replace(card, threshold=loaded.threshold)


def share_encoder(folder: Path, neighbour: str) -> None:
    """Removes the tokenizer, and the tensors of the encoder that the sibling `neighbour` has, from a model.

    A model without the sibling's token table is left as it is. Only this package can read the others.

    Raises:
        ModelError: the two tokenizers differ.
    """
    model, sibling = ModelFolder(folder), ModelFolder(folder.parent / neighbour)
    architecture = read_config(folder).encoder.architecture
    prefix = names.PREFIX[architecture]
    sibling_tensors = {
        name: tensor for name, tensor in read_tensors(sibling.path).items() if name.startswith(prefix)
    }
    shared = {
        name: tensor
        for name, tensor in read_tensors(folder).items()
        if name in sibling_tensors
        and tensor.dtype == sibling_tensors[name].dtype
        and torch.equal(tensor, sibling_tensors[name])
    }
    if names.table_and_decoder(shared, architecture)[0] is None:
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


def rewrite(source: str, out: Path, change: Callable[[Loaded], tuple[Loaded, str]]) -> list[str]:
    """Writes a changed copy of `source` to `out`; the networks of a run or pair go to subfolders.

    Nothing is written until all networks are changed. The new card has no metrics, because those of the
    source do not apply to the changed model.

    Args:
        source: a path or a name on the hub.
        out: the folder to write.
        change: returns the changed model and a short description of the change.

    Returns:
        Lines for the user.

    Raises:
        ModelError: the source is missing or fine-tuned, or `out` would replace something else.
        ElectraError: the errors of `load`, `change` and `write_model`.
    """
    path = locate(source)
    is_pair = run_folder.holds_networks(path)
    models = load_networks(path, out) if is_pair else {out: load(source, "encoder")}
    require_writable(path, out, models)
    for model in models.values():
        _require_pretrained(model, source, "Pass the model it was fine-tuned from, then fine-tune the result")
    results = {folder: change(model) for folder, model in models.items()}
    for folder, (model, description) in results.items():
        card = Card(
            folder.resolve().name,
            model.kind,
            summary=f"Derived from another model: {description}. Train it further before you use it.",
            base_model="" if path.exists() and Path(source).exists() else str(source),
            output=model.output,
            threshold=None if model.threshold == DEFAULT_THRESHOLD else model.threshold,
        )
        write(model, folder, card)
    return [f"{folder}  {model.kind}, {description}" for folder, (model, description) in results.items()]


def require_writable(source: Path, out: Path, folders: Iterable[Path]) -> None:
    """Raises ModelError if writing to `folders` would replace the source, a run, or anything but a model."""
    pair = PairFolder(source)
    source_folders = (
        source,
        *(pair.network(name).path for name in run_folder.NETWORKS),
        pair.language_model.path,
    )
    if out.resolve() in [part.resolve() for part in source_folders]:
        raise ModelError("this is the source, which would be replaced", where=out, fix="Choose another `out`")
    if RunFolder.is_at(out) or (ModelFolder.is_at(out) and out not in folders):
        content = "a run" if RunFolder.is_at(out) else "a model, but several models would be written to it"
        raise ModelError(f"this is {content}", where=out, fix="Choose another `out`")
    for folder in folders:
        require_replaceable(folder)


def _require_pretrained(model: Loaded, source: str, fix: str) -> None:
    """Raises ModelError, with the advice `fix`, for a fine-tuned model."""
    folder = ModelFolder(Path(model.folder))
    if model.kind not in run_folder.PRETRAINED or folder.task.is_file() or folder.head.is_file():
        kind = "fine-tuned model" if model.kind in run_folder.PRETRAINED else model.kind
        raise ModelError(f"this is a {kind}, not a pre-trained network", where=source, fix=fix)


def import_pair(
    source: str,
    out: Path,
    generator: str | None = None,
    *,
    allow_pickle: bool = False,
    dtype: Dtype = "float32",
) -> list[str]:
    """Writes the networks of `source` to subfolders of `out`, or an encoder without a head to `out` itself.

    Args:
        source: a path or a name on the hub.
        out: the folder to write.
        generator: another source for the generator (None: `source`).
        allow_pickle: also read weights that are stored as a pickle.
        dtype: number format of the weights. With "int8" or "int4", a token table that networks share is
            stored once.

    Returns:
        Lines for the user.

    Raises:
        ModelError: a source is missing or fine-tuned, the tokenizers differ, or `out` would replace something
            else.
        ElectraError: the errors of `load` and `write_model`.
    """
    path, pair = locate(source, allow_pickle=allow_pickle), PairFolder(out)
    discriminator_folder, generator_folder = (pair.network(name).path for name in run_folder.NETWORKS)
    sources = {}
    if generator is not None:
        models = {
            discriminator_folder: load(path, "discriminator", allow_pickle=allow_pickle),
            generator_folder: load(generator, "generator", allow_pickle=allow_pickle),
        }
        sources[generator_folder] = generator
    elif run_folder.holds_networks(path):
        models = load_networks(path, out)
    else:
        try:  # a published folder may contain several heads
            model = load(path, "discriminator", allow_pickle=allow_pickle)
        except AbsentNetwork:
            model = load(path, "encoder", allow_pickle=allow_pickle)
        models = {out if model.kind == "encoder" else pair.network(model.kind).path: model}
        if allow_pickle and (path / GENERATOR_PICKLE).is_file():
            models[generator_folder] = load_folder(path, "generator", pickle=GENERATOR_PICKLE)
    if len({model.tokenizer.digest for model in models.values()}) > 1:
        raise ModelError(
            "the two networks have different tokenizers",
            where=generator,
            fix="Pass a generator and a discriminator that were trained together",
        )
    require_writable(path, out, models)
    for model in models.values():
        _require_pretrained(model, source, "Pass a discriminator, a generator or an encoder")
    lines = []
    for folder, model in models.items():
        export(model, folder, sources.get(folder, source), dtype=dtype)
        if dtype in INTEGER_WEIGHTS and discriminator_folder in models and folder != discriminator_folder:
            share_encoder(folder, discriminator_folder.name)
        config = model.config
        shape = f"{config.num_layers} layers of {config.hidden_size}, vocabulary {config.vocab_size:,}"
        lines += [f"{folder}  {model.kind}, {shape}", *(f"note: {note}" for note in model.notes)]
    return lines


def load_networks(source: Path, out: Path) -> dict[Path, Loaded]:
    """Loads all networks of a run or pair. The keys are the subfolders of `out` for their copies.

    Raises the errors of `load`.
    """
    models = {
        PairFolder(out).network(kind).path: load(source, kind) for kind in run_folder.network_kinds(source)
    }
    if (language_model := load_language_model(source)) is not None:
        models[PairFolder(out).language_model.path] = language_model
    return models
