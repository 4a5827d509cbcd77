"""Publishes models on the hub: only model files, without paths of this machine.

A run becomes one repository: the discriminator at the top level, the generator and a masked language model in
subfolders, and each milestone in the same layout on its own branch, step-00001000.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from electra.artifacts import open_folder
from electra.artifacts.finetuning import FinetuningFolder
from electra.artifacts.folder import numbered_folders
from electra.artifacts.model import CARD, ONNX, TOKENIZER, VOCABULARY_JSON, ModelFolder
from electra.artifacts.private import without_paths
from electra.artifacts.run import PairFolder, RunFolder
from electra.exchange.source import MODEL_FILES
from electra.exchange.verify import require_undamaged
from electra.foundation import durable
from electra.foundation.errors import ConfigError, ModelError

MAIN = "main"
PUBLISHED = (*MODEL_FILES, CARD, ONNX, f"{ONNX}.data", durable.MANIFEST)  # what leaves the machine
VERBATIM = (TOKENIZER, VOCABULARY_JSON)  # their strings are tokens, which may look like paths
QUOTED_PATH = re.compile(r"""(?<=["'`])(?:/|~/|[A-Za-z]:[\\/])[^"'`\n]*[\\/](?=[^"'`\n]*["'`])""")


class PublicFile(NamedTuple):
    """One file to upload: its branch, its path there, and its content (a local path, if unchanged)."""

    branch: str
    name: str
    content: bytes | Path


def public_files(source: Path, repo: str, revision: str = MAIN) -> list[PublicFile]:
    """Returns the files to upload of a run, a pair of networks, a fine-tuning or a model folder.

    Args:
        source: the folder.
        repo: the repository, from which the code in the cards loads the model.
        revision: the branch; milestones have branches of their own.

    Raises ModelError if `source` is not a model, or has no finished network, or one that is damaged or that
    transformers cannot load.
    """
    folder = open_folder(source)
    if isinstance(folder, FinetuningFolder):
        folder = folder.model
    if isinstance(folder, ModelFolder):
        return list(_model_files(folder, repo, revision, ""))
    if not isinstance(folder, PairFolder):
        fix = "Pass a run, a model folder or a fine-tuning"
        raise ModelError(f"not a model (the folder's kind: {folder.KIND})", where=source, fix=fix)
    if not folder.finished_networks():
        fix = "Let the run finish, or export a checkpoint, and publish the export"
        raise ModelError("the run has no finished network", where=source, fix=fix)
    pairs = {revision: folder}
    if isinstance(folder, RunFolder):
        milestones = numbered_folders(folder.path / "milestones", "step-")
        pairs |= {path.name: PairFolder(path) for _, path in milestones}
    files: list[PublicFile] = []
    for branch, pair in pairs.items():
        for index, name in enumerate(pair.finished_networks()):
            files += _model_files(pair.network(name), repo, branch, "" if index == 0 else f"{name}/")
        if pair.language_model.exists():
            files += _model_files(pair.language_model, repo, branch, f"{pair.language_model.path.name}/")
    return files


def _model_files(folder: ModelFolder, repo: str, branch: str, prefix: str) -> Iterator[PublicFile]:
    """Yields the files of a model, except links out of the folder (other than into the hub's cache)."""
    path, is_shared = folder.path.resolve(), folder.shares_encoder_with is not None
    if is_shared or folder.holds_integers:
        problem = "its encoder is in another folder" if is_shared else "its weights are integers with scales"
        fix = f"Publish a complete copy: electra export {path.parent if is_shared else path} --out FOLDER"
        raise ModelError(f"{problem}, which only electra reads", where=folder.path, fix=fix)
    require_undamaged(folder)
    roots = [path, *(parent.parent / "blobs" for parent in path.parents if parent.name == "snapshots")]
    for file in sorted({file for pattern in PUBLISHED for file in folder.path.glob(pattern)}):
        if file.is_file() and any(file.resolve().is_relative_to(root) for root in roots):
            name, content = file.relative_to(folder.path).as_posix(), _public_content(file)
            if name == CARD:
                content = public_card(file.read_text(encoding="utf-8"), repo, prefix, branch).encode()
            yield PublicFile(branch, prefix + name, content)


def _public_content(file: Path) -> bytes | Path:
    if file.suffix != ".json" or file.name in VERBATIM:
        return file
    original = durable.read_json(file, ModelError)
    cleaned = without_paths(original)
    return file if cleaned == original else json.dumps(cleaned, indent=2, ensure_ascii=False).encode()


def public_card(text: str, repo: str, subfolder: str, branch: str) -> str:
    """Returns a model card without paths of this machine; its code loads the model from the hub."""
    text = QUOTED_PATH.sub("", text).replace(str(Path.home()) + "/", "")
    text = re.sub(r'^name = ".*?".*$', f'name = "{repo}"', text, flags=re.M)
    arguments = {"subfolder": subfolder.rstrip("/"), "revision": branch if branch != MAIN else ""}
    code = "".join(f', {key}="{value}"' for key, value in arguments.items() if value)
    return text.replace("from_pretrained(name)", f"from_pretrained(name{code})")


def publish(files: list[PublicFile], repo: str, *, private: bool = False) -> str:
    """Uploads `files` to the repository `repo`, creating it if necessary. Returns its URL.

    `private` applies to a new repository. Raises ConfigError if there is no token or no permission, the name
    is invalid, or the hub cannot be reached or refuses the upload.
    """
    from huggingface_hub import HfApi, get_token
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

    if not get_token():
        fix = "Log in with `hf auth login`, or set HF_TOKEN to a token with write access"
        raise ConfigError("no access token for the hub", where=repo, fix=fix)
    api = HfApi(library_name="electra")
    problem, fix = "the hub cannot be reached", "Check the connection, and HF_ENDPOINT"
    try:
        url = api.create_repo(repo, private=private, exist_ok=True)
        for branch in dict.fromkeys(file.branch for file in files):
            if branch != MAIN:
                api.create_branch(url.repo_id, branch=branch, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="electra-") as folder:
                for file in files:
                    if file.branch == branch:
                        _stage(Path(folder) / file.name, file.content)
                api.upload_folder(
                    repo_id=url.repo_id,
                    folder_path=folder,
                    revision=branch,
                    commit_message="Upload with electra",
                )
        return str(url)
    except HFValidationError:
        problem, fix = "invalid repository name", "Use owner/name, with letters, digits, '-', '_' and '.'"
    except HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else 0
        reason = f": {error.server_message}" if error.server_message else ""
        problem = f"the hub refused the upload ({status}{reason})"
        fix = "Check the name and that the token may write there (`hf auth login`), or try again later"
    except OfflineModeIsEnabled:
        problem, fix = "HF_HUB_OFFLINE is set", "Unset HF_HUB_OFFLINE"
    except Exception as error:  # network, certificates: the library raises dozens of kinds
        problem += f" ({type(error).__name__})"
    raise ConfigError(problem, where=repo, fix=fix)


def _stage(path: Path, content: bytes | Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, Path):
        path.symlink_to(content.resolve())
    else:
        path.write_bytes(content)
