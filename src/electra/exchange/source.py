"""Finds the folder of a model: a path, a bundled model, or owner/name or owner/name@revision on the hub.

The variables HF_HOME, HF_ENDPOINT, HF_HUB_OFFLINE and HF_TOKEN of the hub's library apply.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from electra.artifacts.folder import expand_path
from electra.artifacts.included import included_model, included_names
from electra.artifacts.model import (
    CONFIG,
    GENERATOR_PICKLE,
    HEAD,
    MODULES,
    ONNX,
    PICKLE,
    POOLING,
    SHARDS,
    TASK,
    TOKENIZER_FILES,
    WEIGHTS,
    ModelFolder,
)
from electra.artifacts.run import BESIDE_MAIN
from electra.data.tokenizer import could_be_hub_name, in_repository
from electra.exchange.pooling import SENTENCE_FILES, transformer_folder
from electra.foundation import durable
from electra.foundation.errors import ModelError

_MODEL = (CONFIG, WEIGHTS, HEAD, MODULES, POOLING, TASK, *TOKENIZER_FILES)
_WANTED = [
    *_MODEL,
    *(f"{folder}/{name}" for folder in BESIDE_MAIN for name in _MODEL),
    SHARDS,
    "model-*-of-*.safetensors",
    *SENTENCE_FILES,
    *(f"[0-9]_*/{name}" for name in (CONFIG, WEIGHTS, *TOKENIZER_FILES)),
]


def locate(source: str | Path, *, allow_pickle: bool = False) -> Path:
    """Returns the folder of the model `source`, downloading it from the hub if it is not a local path.

    Raises:
        ModelError: there is no such model, or the hub cannot be reached.
    """
    path = expand_path(source, ModelError)
    if not path.exists():
        durable.recover(path)  # an export that was killed between two renames
    if path.is_dir():
        return path
    if (bundled := included_model(str(source))) is not None:
        return bundled
    if path.exists():
        raise ModelError("this is a file, and a model is a folder", where=path, fix="Pass the file's folder")
    if not could_be_hub_name(str(source)):
        raise ModelError(
            "no such folder",
            where=source,
            fix="Pass a run folder, a model folder, or a name on the hub (owner/name)",
        )
    return _fetch(str(source), allow_pickle)


def _fetch(name: str, allow_pickle: bool) -> Path:
    folder = _download(name, _WANTED)
    model = ModelFolder(transformer_folder(folder))
    if not model.exists():
        raise ModelError(
            "the model on the hub has no config.json", where=name, fix="Use a model in transformers' format"
        )
    if model.weights.is_file() or (model.path / SHARDS).is_file():
        return folder
    # graphs and pickles are large, and not needed if the repository has safetensors
    folder = _download(
        name, [*_WANTED, ONNX, durable.MANIFEST, *([PICKLE, GENERATOR_PICKLE] if allow_pickle else [])]
    )
    if not allow_pickle and not ModelFolder(folder).holds_graph:
        fix = f"If it has {PICKLE}, convert it once: electra import {name} --allow-pickle --out FOLDER"
        raise ModelError(f"no {WEIGHTS} on the hub", where=name, fix=fix)
    return folder


def _download(name: str, patterns: list[str]) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    repository, revision = in_repository(name)
    try:
        return Path(snapshot_download(repository, revision=revision, allow_patterns=patterns))
    except RepositoryNotFoundError:
        raise ModelError(
            "neither a local folder nor a model on the hub",
            where=name,
            fix=_suggest(name) or "Check the name",
        ) from None
    except RevisionNotFoundError:
        what = f"the model on the hub has no branch, tag or commit {revision}"
        raise ModelError(what, where=name, fix=f"Omit or correct @{revision}") from None
    except LocalEntryNotFoundError:
        fix = _suggest(name) or "Check the path, or the network (HF_HUB_OFFLINE, HF_ENDPOINT)"
        raise ModelError("not a local folder, and the hub cannot be reached", where=name, fix=fix) from None
    except (HfHubHTTPError, HFValidationError, OSError) as problem:
        reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise ModelError(
            f"download from the hub failed ({reason})", where=name, fix="Check the name, then try again"
        ) from None


def _suggest(name: str) -> str:
    """Suggests a bundled model with a similar name."""
    similar = get_close_matches(name, included_names(), n=1)
    return f"Did you mean {similar[0]!r}?" if similar else ""
