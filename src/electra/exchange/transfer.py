"""Models from one folder to another: a run's network to a Hugging Face folder, published checkpoints to a
pair to go on training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import torch

from electra.artifacts.checkpoints import Checkpoint
from electra.artifacts.model import (
    CONFIG,
    GENERATOR_PICKLE,
    SHARED,
    SHARED_DIGEST,
    TOKENIZER_FILES,
    WEIGHTS,
    Dtype,
    ModelFolder,
    recorded_files,
)
from electra.artifacts.run import PairFolder, RunFolder
from electra.data.tokenizer import Tokenizer
from electra.exchange import names, run_folder
from electra.exchange.card import Card, card_of_language_model, card_of_run
from electra.exchange.configs import HALF, read_config
from electra.exchange.huggingface import refuse_foreign_folder, write_model
from electra.exchange.load import Loaded, load, load_folder, load_language_model, shared_digest
from electra.exchange.source import locate
from electra.exchange.weights import read_safetensors, write_weights
from electra.foundation import durable
from electra.foundation.errors import AbsentNetwork, ModelError


def export(loaded: Loaded, out: Path, source: str | Path, *, dtype: Dtype = "float32") -> None:
    """Write a loaded model as a Hugging Face folder, with the card of the run it comes from, if it comes from
    one.
    """
    write(loaded, Path(out), card_of(loaded, Path(out), source), dtype)


def write(loaded: Loaded, out: Path, card: Card, dtype: Dtype = "float32") -> None:
    """Write a loaded model as a Hugging Face folder, with this card."""
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


def card_of(loaded: Loaded, out: Path, source: str | Path) -> Card:
    """The card of a model out of `source`, which goes to `out`."""
    run = RunFolder(Path(source).expanduser())
    if not run.exists():
        base = str(source) if not run.path.exists() else ""
        card = Card(out.resolve().name, loaded.kind, base_model=base, output=loaded.output)
    elif loaded.folder == run.language_model.path:
        card = card_of_language_model(run.path, None)
    else:
        step = Checkpoint(loaded.folder).step if Checkpoint.is_at(loaded.folder) else None
        card = card_of_run(run.path, loaded.kind, step=step, averaged=loaded.averaged)
    return card if loaded.threshold == HALF else replace(card, threshold=loaded.threshold)


def share_encoder(folder: Path, beside: str) -> None:
    """Keep of the model in `folder` its head alone, where the folder named `beside` next to it has the same
    encoder and tokenizer. Raises ModelError where that differs. Such folders are read by this package only.
    """
    own, other = ModelFolder(folder), ModelFolder(folder.parent / beside)
    architecture = read_config(folder).encoder.architecture
    prefix = names.PREFIX[architecture]
    mine, theirs = read_safetensors(own.weights), read_safetensors(other.weights)
    shared = {name for name in mine if name.startswith(prefix)}
    if differing := [
        name for name in sorted(shared) if name not in theirs or not torch.equal(mine[name], theirs[name])
    ]:
        raise ModelError(f"another encoder: {differing[0]} differs", where=folder)
    if Tokenizer.load(folder).digest != Tokenizer.load(other.path).digest:
        raise ModelError("another tokenizer", where=folder)
    kept = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    contents: dict[str, durable.Content] = {
        name: path.read_bytes() for name, path in kept.items() if name not in TOKENIZER_FILES
    }
    contents[CONFIG] = durable.to_json(own.record | {SHARED: beside})
    listed = {name: contents[name] for name in recorded_files(own.weights) or {} if name in contents}
    head = {name: tensor for name, tensor in mine.items() if name not in shared}
    belonging = {SHARED_DIGEST: shared_digest({name: mine[name] for name in shared}, Tokenizer.load(folder))}
    contents[WEIGHTS] = lambda path: write_weights(path, head, listed, belonging)
    durable.commit_directory(folder, contents)
    (folder / durable.MANIFEST).unlink()


def rewrite(source: str, out: Path, change: Callable[[Loaded], tuple[Loaded, str]]) -> list[str]:
    """Write `source` changed: a model to `out`, the networks of a run or a pair to folders of their names in
    it. Nothing is written before all are changed.

    change: the changed model, and in a few words what was changed. What was measured of the model is not true
        of it any more, so the new card has no numbers. Returns lines for the user.
    """
    path = locate(source)
    models = {out: load(source, "encoder")} if not run_folder.holds_networks(path) else networks_of(path, out)
    refuse_places(path, out, models)
    for model in models.values():
        _refuse_tuned(model, source, "Give the model it was tuned from, then fine-tune the result")
    changed = {place: change(model) for place, model in models.items()}
    for place, (model, told) in changed.items():
        card = Card(
            place.resolve().name,
            model.kind,
            summary=f"Made of another model: {told}. Train it further before you use it.",
            base_model="" if path.exists() and Path(source).exists() else str(source),
            output=model.output,
            threshold=None if model.threshold == HALF else model.threshold,
        )
        write(model, place, card)
    return [f"{place}  {model.kind}, {told}" for place, (model, told) in changed.items()]


def refuse_places(source: Path, out: Path, places: Iterable[Path]) -> None:
    """Before anything is written: `out` may be a model or a pair, but nothing else, and not what is read."""
    read = PairFolder(source)
    parts = (source, *(read.network(name).path for name in run_folder.NETWORKS), read.language_model.path)
    if out.resolve() in [part.resolve() for part in parts]:
        raise ModelError("this is what is read", where=out, fix="Choose another `out`")
    if RunFolder.is_at(out) or (ModelFolder.is_at(out) and out not in places):
        what = "a run" if RunFolder.is_at(out) else "a model, and several are written"
        raise ModelError(f"this is {what}", where=out, fix="Choose another `out`")
    for place in places:
        refuse_foreign_folder(place)


def _refuse_tuned(model: Loaded, source: str, fix: str) -> None:
    folder = ModelFolder(Path(model.folder))
    if model.kind not in run_folder.PRETRAINED or folder.task.is_file() or folder.head.is_file():
        kind = "fine-tuned model" if model.kind in run_folder.PRETRAINED else model.kind
        raise ModelError(f"this is a {kind}, not a pre-trained network", where=source, fix=fix)


def import_pair(
    source: str, out: Path, generator: str | None = None, *, allow_pickle: bool = False
) -> list[str]:
    """Write the networks of `source` (and `generator`) to folders of their names in `out`, or a bare encoder
    to `out` itself. Returns lines for the user.
    """
    path, pair = locate(source, allow_pickle=allow_pickle), PairFolder(out)
    judge, writer = (pair.network(name).path for name in run_folder.NETWORKS)
    sources = {}
    if generator is not None:
        models = {
            judge: load(path, "discriminator", allow_pickle=allow_pickle),
            writer: load(generator, "generator", allow_pickle=allow_pickle),
        }
        sources[writer] = generator
    elif run_folder.holds_networks(path):
        models = networks_of(path, out)
    else:
        try:  # a published folder may hold several heads
            model = load(path, "discriminator", allow_pickle=allow_pickle)
        except AbsentNetwork:
            model = load(path, "encoder", allow_pickle=allow_pickle)
        models = {out if model.kind == "encoder" else pair.network(model.kind).path: model}
        if allow_pickle and (path / GENERATOR_PICKLE).is_file():
            models[writer] = load_folder(path, "generator", pickle=GENERATOR_PICKLE)
    if len({model.tokenizer.digest for model in models.values()}) > 1:
        raise ModelError(
            "the two networks have different tokenizers",
            where=generator,
            fix="Give the two networks of one pair",
        )
    refuse_places(path, out, models)
    for model in models.values():
        _refuse_tuned(model, source, "Give a discriminator, a generator or an encoder")
    lines = []
    for place, model in models.items():
        export(model, place, sources.get(place, source))
        config = model.config
        shape = f"{config.num_layers} layers of {config.hidden_size}, vocabulary {config.vocab_size:,}"
        lines += [f"{place}  {model.kind}, {shape}", *(f"note: {note}" for note in model.notes)]
    return lines


def networks_of(source: Path, out: Path) -> dict[Path, Loaded]:
    """The networks of a run or a pair, by the places in `out` of their copies."""
    found = {PairFolder(out).network(kind).path: load(source, kind) for kind in run_folder.networks(source)}
    if (named_by := load_language_model(source)) is not None:
        found[PairFolder(out).language_model.path] = named_by
    return found
