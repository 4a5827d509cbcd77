"""Loads a model from a run, an exported or published folder, or a name on the hub."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from electra.artifacts.finetuning_files import FinetuningFolder
from electra.artifacts.model_files import (
    CONFIG,
    HEAD,
    INTEGER_WEIGHTS,
    OTHER_WEIGHTS,
    SHARDS,
    SHARED_DIGEST,
    SHARED_TENSORS,
    WEIGHTS,
    ModelFolder,
)
from electra.artifacts.run_files import PairFolder, RunFolder
from electra.data.corpus.tokenizer import Tokenizer
from electra.exchange import run_folder, weight_names
from electra.exchange import weights as weight_files
from electra.exchange.configs import CLASSES, FolderConfig, read_config
from electra.exchange.loaded import Loaded as Loaded  # noqa: PLC0414 - others import it from here
from electra.exchange.pooling import TextVector, read_text_vector, transformer_folder
from electra.exchange.source import locate
from electra.exchange.weight_names import TUNED, Kind
from electra.foundation import durable
from electra.foundation.errors import AbsentNetwork, DamagedModel, ModelError
from electra.foundation.terminal_text import plural, some_of
from electra.model.adapted import PublishedHead
from electra.model.encoder import Encoder
from electra.model.heads import DiscriminatorHead, GeneratorHead
from electra.model.pair import build_encoder
from electra.model.sizes import EncoderConfig

FEWEST = 0.5  # share of a model's embeddings that its tokenizer must name
PADDING = 128  # to a multiple of this, and no further, vocabularies are padded
KIND_PHRASES: dict[Kind, str] = {
    "discriminator": "a discriminator",
    "generator": "a generator (a masked language model)",
    "classifier": "a fine-tuned classifier",
    "tagger": "a fine-tuned tagger",
    "reader": "a fine-tuned reader",
}


def load(source: str | Path, network: Kind = "discriminator", *, step: int | None = None) -> Loaded:
    """Loads a network from a run folder, a model folder or a name on the hub.

    The kind "encoder" accepts any model, with its head; for a run, it means the discriminator, or the
    generator if there is no discriminator. Without the `step` of a checkpoint, a run's finished network is
    loaded, or its newest intact checkpoint.
    Raises AbsentNetwork if the model has no such network, and another ElectraError if the model, its
    checkpoint or its tokenizer is missing, damaged or not supported. Warns of a DamagedModel if other files
    of the model changed since it was saved, or damaged checkpoints were skipped.
    """
    path = locate(source)
    if step is not None and not RunFolder.is_at(path):
        problem = "not a run folder, so there are no checkpoints to choose from"
        raise ModelError(problem, where=path, fix="Omit `step`")
    if network == "encoder" and FinetuningFolder.is_at(path) and FinetuningFolder(path).model.exists():
        path = FinetuningFolder(path).model.path
    if not run_folder.holds_networks(path):
        return load_folder(path, network)
    finished = None if step is not None else run_folder.finished_network(path, network)
    if finished is None:
        return run_folder.open_checkpoint(path, network, step)
    loaded = load_folder(finished, network)
    if RunFolder.is_at(path) and not RunFolder(path).examples.exists():
        note = "the run is still being saved: some of its networks are not there yet"
        return replace(loaded, notes=(note, *loaded.notes))
    return loaded


def load_language_model(path: Path) -> Loaded | None:
    """Loads the full-size masked language model of the run or pair at `path`; None if there is none."""
    folder = PairFolder(path).language_model
    return load_folder(folder.path, "generator") if folder.exists() else None


def load_folder(folder: Path, network: Kind = "discriminator") -> Loaded:
    """Loads a folder in the format of transformers or sentence-transformers: see `load`."""
    return durable.read_together(folder, lambda: _load_folder(folder, network))


def _load_folder(folder: Path, network: Kind) -> Loaded:
    described = read_text_vector(folder)
    folder = transformer_folder(folder)
    model, folder_config, weights = ModelFolder(folder), read_config(folder), read_tensors(folder)
    config = folder_config.encoder
    if (sibling := model.shares_encoder_with) is not None:
        weights = _shared_tensors(model, sibling, config.architecture) | weights
    weight_files.require_numbers(weights, folder)
    notes, head_weights, labels = list[str](), dict[str, Tensor](), folder_config.labels
    if config.settings:
        from electra.exchange import adapted_folders as adapted

        kind, notes = folder_config.kind if network == "encoder" else network, [adapted.NOTE]
        if kind != folder_config.kind:
            raise absent(folder_config, network, folder)
        encoder, head, unused_names = adapted.read_networks(weights, config, kind, folder)
        if head is None:
            kind = "encoder"
            if network != kind:
                raise absent(replace(folder_config, kind=kind), network, folder)
    else:
        networks = _own_networks(weights, folder_config, network, folder)
        kind, encoder, head, head_weights, unused_names = networks
    text_vector = described or TextVector(folder_config.pooling if kind == "classifier" else "mean")
    text_vector.check(config.hidden_size, folder)
    outputs = len(head_weights.get("output.bias", ()))
    if kind in TUNED and isinstance(head, PublishedHead):
        outputs = head.whole.config.num_labels
    labels = labels or tuple(f"LABEL_{i}" for i in range(outputs))
    if kind in ("classifier", "tagger") and len(labels) != outputs:
        problem = f"id2label has {plural(len(labels), 'label')}, but the head has {plural(outputs, 'output')}"
        raise ModelError(problem, where=folder / CONFIG, fix="Name one label for each output")
    for name, problem in model.changed_files().items():
        if name == HEAD and (folder / HEAD).is_file():
            raise ModelError(problem, where=folder, fix="Download or export the model again")
        warnings.warn(f"{folder}: {problem}: see electra verify", DamagedModel, stacklevel=2)
    tokenizer = Tokenizer.load(sibling or folder)
    require_entries(tokenizer, config, folder)
    if unused_names:
        examples = some_of([name.removeprefix(weight_names.FOREIGN) for name in unused_names])
        notes.append(f"not used: {plural(len(unused_names), 'other tensor')} ({examples})")
    if tokenizer.vocab_size < 0.99 * config.vocab_size - PADDING:
        sizes = f"{tokenizer.vocab_size:,} entries for {config.vocab_size:,} embeddings"
        notes.append(f"the tokenizer has {sizes}: check that it is the model's")
    keys = {"cls": ("cls_token_id", "bos_token_id"), "sep": ("sep_token_id", "eos_token_id")}
    for role, id_ in tokenizer.specials._asdict().items():
        for key in keys.get(role, (f"{role}_token_id",)):
            if isinstance(configured := model.record.get(key), int) and configured != id_:
                notes.append(f"{CONFIG} sets {key} to {configured}; the tokenizer's id, {id_}, is used")
    return Loaded(
        encoder, head, config, tokenizer, kind, labels, folder, head_weights, tuple(notes),
        text_vector, folder_config.output, folder_config.threshold,
    )  # fmt: skip


def require_entries(tokenizer: Tokenizer, config: EncoderConfig, folder: Path) -> None:
    """Raises ModelError if the tokenizer has entries that the model has not, or too few to be the model's."""
    size, rows = tokenizer.vocab_size, config.vocab_size
    if size > rows or size < FEWEST * rows:
        problem = f"the tokenizer has {size:,} entries, but the model has {rows:,}"
        fix = "Copy the tokenizer that the model was published with into the folder"
        raise ModelError(problem, where=folder, fix=fix)


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """Reads the weights of a folder, which must be safetensors. Raises ModelError."""
    model = ModelFolder(folder)
    if (path := model.weights).is_file():
        tensors = weight_files.read_safetensors(path)
        return weight_files.dequantize(tensors, path) if path.name in INTEGER_WEIGHTS.values() else tensors
    if (index := folder / SHARDS).is_file():
        return weight_files.read_shards(index)
    others = [name for name in OTHER_WEIGHTS if (folder / name).is_file()]
    fix = "Pass a folder that contains weights"
    if others:
        fix = f"Convert {others[0]} to safetensors with transformers, or with examples/from_pickle.py"
    elif model.graphs:
        fix += ", or use `backend=onnx` to run its ONNX graph"
    raise ModelError(f"no {WEIGHTS}", where=folder, fix=fix)


def shared_digest(encoder: Mapping[str, Tensor], tokenizer: Tokenizer) -> str:
    """Returns the digest that identifies what a network uses of its sibling: tensors and tokenizer."""
    return f"{weight_files.digest(encoder)} {tokenizer.digest}"


def _shared_tensors(model: ModelFolder, sibling: Path, architecture: str) -> dict[str, Tensor]:
    """Returns the tensors that a model reads from the folder beside it."""
    names = model.record.get(SHARED_TENSORS)
    shared = {
        name: tensor
        for name, tensor in read_tensors(sibling).items()
        if (name in names if isinstance(names, list) else name.startswith(weight_names.PREFIX[architecture]))
    }
    saved_digest = weight_files.recorded_digest(model.weights, SHARED_DIGEST)
    if saved_digest not in (None, shared_digest(shared, Tokenizer.load(sibling))):
        problem = f"this belongs to another encoder or tokenizer than those in {sibling.name}/"
        raise ModelError(problem, where=model.path, fix="Copy both folders from the same model")
    return shared


def _own_networks(
    weights: Mapping[str, Tensor], described: FolderConfig, network: Kind, folder: Path
) -> tuple[Kind, Encoder, nn.Module | None, dict[str, Tensor], list[str]]:
    """Returns the kind, the encoder, its pre-training head, a fine-tuned head's weights, and unused names."""
    config, architecture = described.encoder, described.encoder.architecture
    tensors = weight_names.normalise_names(weights, architecture, described.position_offset, described.kind)
    present = weight_names.kinds_in(set(tensors), architecture, described.kind)
    kind = network
    if network == "encoder":  # any; old folders name no class, but may have a single head
        single = present[0] if len(present) == 1 else network
        kind = described.kind if described.kind in present else single
    elif network not in present:
        raise absent(replace(described, kind=present[0] if present else "encoder"), network, folder)
    # As in transformers, weights that contain both a table and an output layer override config.json.
    table, decoder = weight_names.table_and_decoder(tensors, architecture)
    is_tied = described.is_tied
    if table is not None and decoder is not None:
        is_tied = torch.equal(table, decoder)

    def build() -> nn.ModuleDict:
        modules: dict[str, nn.Module] = {"encoder": build_encoder(config)}
        if kind == "discriminator":
            modules["head"] = DiscriminatorHead(config)
        elif kind == "generator":
            modules["head"] = GeneratorHead(config, tied=is_tied)
        return nn.ModuleDict(modules)

    if config.num_layers > len(tensors):
        problem = f"config.json describes {config.num_layers} layers, but the weights have fewer"
        raise ModelError(problem, where=folder)
    with torch.device("meta"):  # names and shapes are compared before memory is allocated
        template = build().state_dict()
    state, unused = weight_names.from_transformers(tensors, template, architecture, kind, folder)
    modules = build().eval()
    modules.load_state_dict(state)
    head_weights: dict[str, Tensor] = {}
    if kind in TUNED:
        head_weights, used = weight_names.finetuned_head(tensors, architecture, kind)
        unused = [name for name in unused if name not in used]
    if of_encoder := [name for name in unused if name.startswith(weight_names.PREFIX[architecture])]:
        problem = f"the encoder in config.json has no parameter for tensor {some_of(of_encoder, most=1)}"
        raise ModelError(problem, where=folder, fix=weight_names.CHECK_CONFIG)
    encoder = modules["encoder"]
    assert isinstance(encoder, Encoder)
    return kind, encoder, dict(modules.named_children()).get("head"), head_weights, unused


def absent(described: FolderConfig, network: Kind, folder: Path) -> AbsentNetwork:
    """Returns the error of a folder that has another network than `network`."""
    phrase = KIND_PHRASES.get(described.kind, "an encoder without a head")
    named = ModelFolder(folder).record.get("architectures")  # such as BERT's class
    own_class = CLASSES.get(described.encoder.architecture, {}).get(described.kind, "AutoModel")
    class_name = str(named[0]) if isinstance(named, list) and named else own_class
    problem = f"this is {phrase} ({class_name}), not {KIND_PHRASES[network]}"
    return AbsentNetwork(problem, where=folder, fix=f"Pass the folder of {KIND_PHRASES[network]}")
