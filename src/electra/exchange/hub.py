"""Publishes models on the hub: selects the files of a folder, removes private paths and uploads them.

A run becomes one repository: the discriminator at the top level, the generator and a masked language model in
subfolders, and each milestone in the same layout on its own branch, step-00001000.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electra.artifacts import open_folder
from electra.artifacts.finetuning import FinetuningFolder
from electra.artifacts.folder import numbered_folders
from electra.artifacts.model import (
    CARD,
    CONFIG,
    HEAD,
    MODULES,
    ONNX,
    POOLING,
    SHARDS,
    TASK,
    TOKENIZER,
    TOKENIZER_FILES,
    WEIGHTS,
    ModelFolder,
)
from electra.artifacts.private import without_paths
from electra.artifacts.run import PairFolder, RunFolder
from electra.exchange.pooling import SENTENCE_FILES
from electra.exchange.verify import require_undamaged
from electra.foundation import durable
from electra.foundation.errors import ConfigError, ModelError
from electra.foundation.progress import Say, quiet

MAIN = "main"
STEP_FILES = (CONFIG, WEIGHTS, *TOKENIZER_FILES)  # files of a step of sentence-transformers
MODEL_FILES = (  # files of a model folder to upload, by name or pattern
    *(CONFIG, CARD, WEIGHTS, SHARDS, "model-*-of-*.safetensors", HEAD, TASK, MODULES, POOLING),
    *(ONNX, f"{ONNX}.data", durable.MANIFEST, *TOKENIZER_FILES, *SENTENCE_FILES),
    *(f"[0-9]_*/{name}" for name in STEP_FILES),
)
VERBATIM = {
    TOKENIZER,
    "vocab.json",
}  # uploaded unchanged: their strings are tokens, which may look like paths
QUOTED_PATH = re.compile(r"""(?<=["'`])(?:/|~/|[A-Za-z]:[\\/])[^"'`\n]*[\\/](?=[^"'`\n]*["'`])""")


@dataclass(frozen=True)
class UploadFile:
    """One file of a branch to upload."""

    branch: str
    name: str
    """Its path in the repository."""
    path: Path

    @property
    def size(self) -> int:
        """The size of the local file in bytes."""
        return self.path.stat().st_size

    def content(self, repo: str) -> bytes | Path:
        """Returns the file's path or, for a card or JSON with paths of this machine, cleaned content.

        `repo` is the name from which the code in a card loads the model. Raises ModelError for damaged JSON.
        """
        if self.name.endswith(CARD):
            return clean_card(self.path.read_text(encoding="utf-8"), repo, self.name, self.branch).encode()
        if self.path.suffix == ".json" and self.path.name not in VERBATIM:
            original = durable.read_json(self.path, ModelError)
            cleaned = without_paths(original)
            if cleaned != original:
                return json.dumps(cleaned, indent=2, ensure_ascii=False).encode()
        return self.path


def files_to_upload(source: Path, revision: str = MAIN) -> list[UploadFile]:
    """Returns the files to upload of a run, a pair of networks, a fine-tuning or a model folder.

    `revision` is the branch for them; milestones have branches of their own.

    Raises:
        RunFolderError: there is no such folder, or electra did not write it.
        ModelError: `source` is not a model, or has no finished network, or one that is damaged or that
            transformers cannot load.
        TokenizerError: a network's tokenizer is missing or damaged.
    """
    folder = open_folder(source)
    if isinstance(folder, FinetuningFolder):
        folder = folder.model
    if isinstance(folder, ModelFolder):
        return list(_model_files(folder, revision, ""))
    if not isinstance(folder, PairFolder):
        fix = "Pass a run, a model folder or a fine-tuning"
        raise ModelError(f"not a model (the folder's kind: {folder.KIND})", where=source, fix=fix)
    if not folder.finished_networks():
        fix = "Let the run finish, or export a checkpoint and push the export: electra export"
        raise ModelError("the run has no finished network", where=source, fix=fix)
    files = list(_pair_files(folder, revision))
    if isinstance(folder, RunFolder):
        for _, path in numbered_folders(folder.path / "milestones", "step-"):
            files += _pair_files(PairFolder(path), path.name)
    return files


def _pair_files(pair: PairFolder, branch: str) -> Iterator[UploadFile]:
    names = pair.finished_networks()
    for index, name in enumerate(names):
        yield from _model_files(pair.network(name), branch, "" if index == 0 else f"{name}/")
    if pair.language_model.exists():
        yield from _model_files(pair.language_model, branch, f"{pair.language_model.path.name}/")


def require_complete(folder: ModelFolder) -> None:
    """Raises ModelError if only this package can read the network: transformers could not load it."""
    path, is_shared = folder.path.resolve(), folder.shares_encoder_with is not None
    if is_shared or folder.holds_integers:
        fix = f"Push a complete copy: electra import {path.parent if is_shared else path} --out FOLDER"
        problem = "its encoder is in another folder" if is_shared else "its weights are integers with scales"
        raise ModelError(problem, where=folder.path, fix=fix)


def _model_files(folder: ModelFolder, branch: str, prefix: str) -> Iterator[UploadFile]:
    """Yields the files of a model that match MODEL_FILES.

    Links that lead out of the folder are skipped, except those in the hub's cache to its own files.
    """
    require_complete(folder)
    require_undamaged(folder)
    root = folder.path.resolve()
    allowed = [root, *(parent.parent / "blobs" for parent in root.parents if parent.name == "snapshots")]
    for path in sorted({path for pattern in MODEL_FILES for path in folder.path.glob(pattern)}):
        if path.is_file() and any(path.resolve().is_relative_to(root) for root in allowed):
            yield UploadFile(branch, prefix + path.relative_to(folder.path).as_posix(), path)


def clean_card(text: str, repo: str, name: str, branch: str) -> str:
    """Returns a model card without paths of this machine; its code loads the model from the hub.

    `name` is the card's path in the repository: a card in a subfolder loads the model from there.
    """
    subfolder = name.rpartition("/")[0]
    text = QUOTED_PATH.sub("", text).replace(str(Path.home()) + "/", "")
    text = re.sub(r'^name = ".*?".*$', f'name = "{repo}"', text, flags=re.M)
    arguments = {"subfolder": subfolder, "revision": branch if branch != MAIN else ""}
    code = "".join(f', {key}="{value}"' for key, value in arguments.items() if value)
    return text.replace("from_pretrained(name)", f"from_pretrained(name{code})")


def push(files: list[UploadFile], repo: str, *, private: bool, say: Say = quiet) -> str:
    """Uploads `files` to the repository `repo`, creating it if necessary. Returns its URL.

    `private` applies to a new repository. `say` gets a line for each branch.

    Raises:
        ConfigError: there is no token or no permission, the name is invalid, or the hub cannot be reached or
            refuses the upload.
        ModelError: a JSON file is damaged.
    """
    from huggingface_hub import CommitOperationAdd, HfApi, get_token
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    require_valid_name(repo)
    if not get_token():
        fix = "Log in with `hf auth login`, or set HF_TOKEN to a token with write access"
        raise ConfigError("no access token for the hub", where=repo, fix=fix)
    api = HfApi(library_name="electra")
    try:
        url = api.create_repo(repo, private=private, exist_ok=True)
        repo = url.repo_id
        for branch in dict.fromkeys(file.branch for file in files):
            if branch != MAIN:
                api.create_branch(repo, branch=branch, exist_ok=True)
            branch_files = [file for file in files if file.branch == branch]
            operations = [
                CommitOperationAdd(file.name, _payload(file.content(repo))) for file in branch_files
            ]
            api.create_commit(repo, operations, commit_message="Upload with electra", revision=branch)
            say(f"{branch}: {len(branch_files)} files")
    except HfHubHTTPError as error:
        raise _upload_error(error, repo) from None
    except OfflineModeIsEnabled:
        raise ConfigError("HF_HUB_OFFLINE is set", where=repo, fix="Unset HF_HUB_OFFLINE") from None
    except Exception as error:
        http_error = HfHubHTTPError.__bases__[0]  # its HTTP library differs between versions
        if not isinstance(error, (http_error, OSError)):
            raise
        if isinstance(error, OSError) and error.filename:
            problem = f"cannot be read ({error.strerror})"
            raise ConfigError(problem, where=error.filename, fix="Rerun the command") from None
        problem = f"the hub cannot be reached ({type(error).__name__})"
        raise ConfigError(problem, where=repo, fix="Check the connection, and HF_ENDPOINT") from None
    return str(url)


def require_valid_name(repo: str) -> None:
    """Raises ConfigError unless `repo` is a valid repository name."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils._validators import validate_repo_id

    try:
        validate_repo_id(repo)
    except HFValidationError:
        fix = "Use owner/name, with letters, digits, '-', '_' and '.'"
        raise ConfigError("invalid repository name", where=repo, fix=fix) from None


def _payload(content: bytes | Path) -> bytes | str:
    return str(content) if isinstance(content, Path) else content


def _upload_error(error: Any, repo: str) -> ConfigError:
    status = error.response.status_code if error.response is not None else 0
    reasons = {
        401: ("the hub rejected the token", "Log in again with `hf auth login`, or check HF_TOKEN"),
        403: (
            "no permission to write to this repository",
            "Use your own name or organisation, and a token with write access",
        ),
        404: ("not found on the hub, or no access", "Check the name"),
        409: ("the repository was changed by another upload", "Rerun the command"),
        429: ("too many requests", "Wait a while, then rerun the command"),
    }
    details = f"{status}: {error.server_message}" if error.server_message else str(status)
    default = (
        f"the hub refused the upload ({details})",
        "Rerun the command later",
    )
    problem, fix = reasons.get(status, default)
    return ConfigError(problem, where=repo, fix=fix)
