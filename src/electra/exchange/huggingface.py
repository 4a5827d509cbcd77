"""Writes Hugging Face model folders, atomically and without transformers.

A folder contains only config.json, model.safetensors, tokenizer.json, tokenizer_config.json, vocab.txt,
README.md and the files of sentence-transformers (modules.json, 1_Pooling/), so it can be published unchanged.
A fine-tuned model may have further files. Weights as integers, which transformers does not read, are in
model-int8.safetensors or model-int4.safetensors instead. The header of the weights file contains the digests
of the weights and of every file but the card, by which `electra verify` detects damage.
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from electra.artifacts.checkpoints import Checkpoint
from electra.artifacts.model_files import (
    CARD,
    CONFIG,
    DETECTION,
    FILES,
    HEAD,
    INTEGER_WEIGHTS,
    TASK,
    TOKENIZER,
    TOKENIZER_CONFIG,
    WEIGHTS,
    Dtype,
    ModelFolder,
)
from electra.artifacts.run_files import RunFolder
from electra.data.corpus.tokenizer import Tokenizer
from electra.exchange.card import Card, card_of_run, render
from electra.exchange.configs import CLASSES, DEFAULT_THRESHOLD, MAX_LENGTH, head_settings, write_config
from electra.exchange.load import Loaded, require_entries
from electra.exchange.pooling import MEAN, SENTENCE_FILES, TextVector, vector_files
from electra.exchange.weight_names import TUNED, Kind, to_transformers
from electra.exchange.weights import BITS, quantize, write_weights
from electra.foundation import durable
from electra.foundation.config import convert
from electra.foundation.errors import ModelError
from electra.foundation.progress import doing
from electra.foundation.terminal_text import some_of
from electra.model.adapted import AdaptedEncoder
from electra.model.heads import GeneratorHead
from electra.model.modern import ModernEncoder, ProjectedTable
from electra.model.pair import Discriminator, EncoderAlone, Generator
from electra.model.token_table import DisentangledTable


def export_network(
    folder: Path,
    network: Generator | Discriminator | EncoderAlone,
    tokenizer: Tokenizer,
    card: Card,
    *,
    dtype: Dtype = "float32",
    text_vector: TextVector = MEAN,
) -> None:
    """Writes a pre-trained network as a standard Hugging Face folder. Raises the errors of `write_model`."""
    kinds: dict[type, Kind] = {Generator: "generator", Discriminator: "discriminator"}
    kind, encoder = kinds.get(type(network), "encoder"), network.encoder
    head = None if isinstance(network, EncoderAlone) else network.head
    loaded = Loaded(encoder, head, encoder.config, tokenizer, kind, (), folder, text_vector=text_vector)
    write_model(folder, loaded, card, dtype)


def export(
    loaded: Loaded, out: Path, source: str | Path, *, dtype: Dtype | None = None, card: Card | None = None
) -> None:
    """Writes a loaded model as a Hugging Face folder, with a card made from `source`, its path or hub name.

    A fine-tuned head keeps its settings, and a model its files that transformers has no use for. Without
    `dtype`, weights of 16 bits stay so, and others are written as float32. Raises the errors of
    `write_model`, for example if `out` contains anything but a model.
    """
    if dtype is None:
        record = ModelFolder(loaded.folder).record if ModelFolder.is_at(loaded.folder) else {}
        stored = record.get("dtype") or record.get("torch_dtype")
        dtype = stored if stored in ("bfloat16", "float16") else "float32"
    files = [file for name in (HEAD, TASK, DETECTION) if (file := loaded.folder / name).is_file()]
    values = head_settings(loaded.folder) if loaded.kind in TUNED else {}
    further = {file.name: file.read_bytes() for file in files}
    card = card or make_card(loaded, out, source)
    write_model(out, loaded, card, dtype, values=values, further=further)


def make_card(loaded: Loaded, out: Path, source: str | Path) -> Card:
    """Makes the card of a model that is written to `out`, with the run's record if `source` is a run."""
    run = RunFolder(Path(source).expanduser())
    if not run.exists():
        base = str(source) if not run.path.exists() else ""
        card = Card(out.resolve().name, loaded.kind, base_model=base, output=loaded.output)
    elif loaded.folder == run.language_model.path:
        card = card_of_run(run.path, "generator", beside=True)
    else:
        step = Checkpoint(loaded.folder).step if Checkpoint.is_at(loaded.folder) else None
        card = card_of_run(run.path, loaded.kind, step=step)
    return card if loaded.threshold == DEFAULT_THRESHOLD else replace(card, threshold=loaded.threshold)


def write_model(
    folder: Path,
    model: Loaded,
    card: Card,
    dtype: Dtype = "float32",
    *,
    values: Mapping[str, Any] = {},
    further: Mapping[str, durable.Content] = {},
) -> None:
    """Writes any model as a folder, atomically; an existing model folder is replaced.

    The model's parameters are named as in weight_names.py; those of a fine-tuned head are dense, norm (modern
    encoders only), pooler (BERT's classifier) and output. `values` are further settings for config.json, and
    `further` files of the model. Raises ModelError if `folder` contains anything but a model, or the
    vocabulary is too large, and DiskError if it cannot be written.
    """
    convert(Dtype, dtype, "dtype")
    require_replaceable(folder, further)
    encoder, tokenizer, kind = model.encoder, model.tokenizer, model.kind
    config, head = encoder.config, model.head or model.head_weights or None
    require_entries(tokenizer, config, folder)
    weights, further_settings = exported_weights(encoder, head), dict(values)
    if isinstance(encoder, AdaptedEncoder):
        from electra.exchange import adapted_folders as adapted

        tensors, described = adapted.folder_parts(encoder, model.head, weights, kind, dtype)
        further_settings = described | further_settings
        class_name = str(described["architectures"][0])
    else:
        tensors = to_transformers(weights, config.architecture, kind)
        class_name = CLASSES[config.architecture][kind]
        if "head.pooler.weight" in weights:
            class_name = f"Bert{TUNED[kind]}"
            further_settings |= {"model_type": "bert", "architectures": [class_name]}
    if (bits := BITS.get(dtype)) is not None:
        tensors = quantize(tensors, bits)
    else:
        tensors = {name: tensor.to(getattr(torch, dtype)) for name, tensor in tensors.items()}
    max_length = further_settings.pop(MAX_LENGTH, config.max_positions)
    threshold = None if card.threshold is None else round(card.threshold, 4)
    own: dict[str, Any] = {"output": card.output, "threshold": threshold, "further": further_settings}
    settings = write_config(config, kind, model.labels, dtype, tokenizer.specials, **own)
    if isinstance(head, GeneratorHead) and head.weight is not None:
        settings["tie_word_embeddings"] = False
    other_files: dict[str, durable.Content] = {
        CONFIG: durable.to_json(settings),
        **vector_files(model.text_vector, config.hidden_size),
        **tokenizer_files(model, min(max_length, config.max_positions)),
        **further,
    }
    card = replace(card, architecture=card.architecture or class_name, bits=bits or card.bits)
    files: dict[str, durable.Content] = {
        **other_files,
        INTEGER_WEIGHTS.get(dtype, WEIGHTS): lambda path: write_weights(path, tensors, other_files),
        CARD: render(card).encode(),
    }
    doing(f"saving {folder.name}")
    durable.commit_directory(folder, files)
    (folder / durable.MANIFEST).unlink()  # needed for the commit only; not part of a published folder


def require_replaceable(folder: Path, further: Collection[str] = ()) -> None:
    """Raises ModelError if `folder` contains anything but a model, since writing a model replaces it.

    `further` names files that are also allowed.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ModelError("is a file, not a folder", where=folder, fix="Choose another `out`")
    others = {entry.name for entry in folder.iterdir() if not re.fullmatch(r"\d+_[A-Z]\w*", entry.name)}
    if others := others - {*FILES, *INTEGER_WEIGHTS.values(), *further, durable.MANIFEST, *SENTENCE_FILES}:
        problem = f"the folder exists and contains other files ({some_of(sorted(others))})"
        raise ModelError(problem, where=folder, fix="Choose another `out`")


def exported_weights(encoder: nn.Module, head: nn.Module | Mapping[str, Tensor] | None) -> dict[str, Tensor]:
    """Returns all weights on the CPU, under our names, `encoder.X` and `head.X`.

    A token table that is derived from another network's table is computed and returned as a plain table.
    The tensors of a network on the CPU share its memory.
    """
    state = {f"encoder.{name}": tensor.detach() for name, tensor in encoder.state_dict().items()}
    for name, module in encoder.named_modules():
        if isinstance(module, DisentangledTable):
            state[f"encoder.{name}.weight"] = state.pop(f"encoder.{name}.delta") + module.source_weight()
    if isinstance(encoder, ModernEncoder) and isinstance(encoder.tokens, ProjectedTable):
        state = {name: tensor for name, tensor in state.items() if not name.startswith("encoder.tokens.")}
        with torch.no_grad(), torch.autocast(encoder.token_table().device.type, enabled=False):
            state["encoder.tokens.weight"] = encoder.token_table().detach()
    if head is not None:
        head_state = head if isinstance(head, Mapping) else head.state_dict()
        state |= {f"head.{name}": tensor.detach() for name, tensor in head_state.items()}
    return {name: tensor.cpu() for name, tensor in state.items()}


def tokenizer_files(model: Loaded, max_length: int) -> dict[str, durable.Content]:
    """Returns the tokenizer's files by name; tokenizer_config.json has this length and the model's inputs."""
    files = model.tokenizer.files()
    settings: dict[str, Any] = json.loads(files[TOKENIZER_CONFIG])
    settings[MAX_LENGTH] = max_length
    settings |= {"truncation_side": "left"} if model.text_vector.keep_end else {}
    if model.kind in TUNED:
        # In a text, "[MASK]" is plain characters, as it was in fine-tuning.
        settings["split_special_tokens"] = True
        plain = model.tokenizer.with_plain_roles()
        files[TOKENIZER] = (json.dumps(plain, ensure_ascii=False) + "\n").encode()
    if not model.config.reads_token_types:
        settings["model_input_names"] = ["input_ids", "attention_mask"]
    return {**files, TOKENIZER_CONFIG: durable.to_json(settings)}
