"""Finds the folder of a model: a path, an included model, or owner/name or owner/name@revision on the hub."""

import warnings
from functools import cache
from pathlib import Path

from electra.artifacts.included import included_model, included_names
from electra.artifacts.model_files import CONFIG, NEEDED, ONNX, SHARDS, TOKENIZER_FILES, WEIGHTS, ModelFolder
from electra.artifacts.run_files import SUBFOLDERS
from electra.data.tables.hub_files import could_be_hub_name, download
from electra.exchange.pooling import SENTENCE_FILES, transformer_folder
from electra.foundation import durable
from electra.foundation.errors import ModelError, Note
from electra.foundation.options import expand_path

_FILES = [  # names or patterns, without the card and graphs
    *(*NEEDED, SHARDS, "model-*-of-*.safetensors", *SENTENCE_FILES),
    *(f"[0-9]_*/{name}" for name in (CONFIG, WEIGHTS, *TOKENIZER_FILES)),
    *(f"{folder}/{name}" for folder in SUBFOLDERS for name in NEEDED),
]


def locate(source: str | Path) -> Path:
    """Returns a model's folder, downloaded if it is no local path; ModelError if there is no such model."""
    path = expand_path(source, ModelError)
    if not path.exists():
        durable.recover(path)  # in case an export was killed between two renames
    if path.is_dir():
        _note_namesake(str(source))
        return path
    if (included := included_model(str(source))) is not None:
        return included
    if path.exists():
        raise ModelError("is a file, not a model folder", where=path, fix="Pass the file's folder")
    if not could_be_hub_name(str(source)):
        fix = "Pass a run folder, a model folder, or a name on the hub (owner/name)"
        raise ModelError("no such folder", where=source, fix=fix)
    return _fetch(str(source))


@cache
def _note_namesake(source: str) -> None:
    if source in included_names():
        problem = f"{source} is the folder here, not the model that comes with the package"
        warnings.warn(f"{problem}: rename the folder to use that", Note, stacklevel=3)


def _fetch(name: str) -> Path:
    folder = download(name, _FILES, ModelError)
    model = ModelFolder(transformer_folder(folder))
    if not model.exists():
        fix = "Use a model in transformers' format"
        raise ModelError("the model on the hub has no config.json", where=name, fix=fix)
    if model.weights.is_file() or (model.path / SHARDS).is_file():
        return folder
    folder = download(name, [*_FILES, ONNX, durable.MANIFEST], ModelError)  # graphs are large: only if needed
    if not ModelFolder(folder).holds_graph:
        fix = "Convert its weights to safetensors with transformers, or with examples/from_pickle.py"
        raise ModelError(f"no {WEIGHTS} on the hub", where=name, fix=fix)
    return folder
