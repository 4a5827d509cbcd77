"""Publishing on the hub: which files of a folder go where, what is private in them, and sending them.

A run becomes one repository: the discriminator at its top, the generator and a language model in folders
beside it, and each milestone the same way on a branch of its own, step-00001000.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electra.artifacts import open_folder
from electra.artifacts.folder import numbered
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
from electra.artifacts.tuning import TuningFolder
from electra.exchange.pooling import SENTENCE_FILES
from electra.exchange.verify import refuse_damaged
from electra.foundation import durable
from electra.foundation.errors import ConfigError, ModelError
from electra.foundation.progress import Say, quiet

MAIN = "main"
STEPS = (CONFIG, WEIGHTS, *TOKENIZER_FILES)  # in the folder of a step of sentence-transformers
MODEL_FILES = (  # what is sent of a model folder, by name or pattern
    *(CONFIG, CARD, WEIGHTS, SHARDS, "model-*-of-*.safetensors", HEAD, TASK, MODULES, POOLING),
    *(ONNX, f"{ONNX}.data", durable.MANIFEST, *TOKENIZER_FILES, *SENTENCE_FILES),
    *(f"[0-9]_*/{name}" for name in STEPS),
)
VERBATIM = {TOKENIZER, "vocab.json"}  # their strings are tokens
QUOTED = re.compile(r"""(?<=["'`])(?:/|~/|[A-Za-z]:[\\/])[^"'`\n]*[\\/](?=[^"'`\n]*["'`])""")


@dataclass(frozen=True)
class Sent:
    """One file of a branch."""

    branch: str
    name: str
    """Its path in the repository."""
    path: Path

    @property
    def size(self) -> int:
        return self.path.stat().st_size

    def content(self, repo: str) -> bytes | Path:
        """What is sent: the file, or its text where paths of this machine have to go."""
        if self.name.endswith(CARD):
            return clean_card(self.path.read_text(encoding="utf-8"), repo, self.name, self.branch).encode()
        if self.path.suffix == ".json" and self.path.name not in VERBATIM:
            known = durable.read_json(self.path, ModelError)
            cleaned = without_paths(known)
            return (
                self.path if cleaned == known else json.dumps(cleaned, indent=2, ensure_ascii=False).encode()
            )
        return self.path


def plan(source: Path, revision: str = MAIN) -> list[Sent]:
    """The files that make up a run, a pair of networks, a fine-tuning or a model folder on the hub.

    Raises ModelError where `source` has no finished network, or one that is damaged.
    """
    folder = open_folder(source)
    if isinstance(folder, TuningFolder):
        folder = folder.model
    if isinstance(folder, ModelFolder):
        refuse_shared(folder)
        return list(_files(folder, revision, ""))
    if not isinstance(folder, PairFolder):
        fix = "Give a run, a model folder or a fine-tuning"
        raise ModelError(f"a {folder.KIND} is no model", where=source, fix=fix)
    if not folder.finished():
        fix = "Let the run finish, or export a checkpoint and push that: electra export"
        raise ModelError("has no finished network", where=source, fix=fix)
    sent = list(_pair(folder, revision))
    if isinstance(folder, RunFolder):
        for _, path in numbered(folder.path / "milestones", "step-"):
            sent += _pair(PairFolder(path), path.name)
    return sent


def _pair(pair: PairFolder, branch: str) -> Iterator[Sent]:
    names = pair.finished()
    for place, name in enumerate(names):
        yield from _files(pair.network(name), branch, "" if place == 0 else f"{name}/")
    if pair.language_model.exists():
        refuse_shared(pair.language_model)
        yield from _files(pair.language_model, branch, f"{pair.language_model.path.name}/")


def refuse_shared(folder: ModelFolder) -> None:
    """Only this package reads a network whose encoder is in the folder beside."""
    if folder.shares_encoder_with is not None:
        pair = folder.path.resolve().parent
        fix = f"Write whole folders first, and push those: electra import {pair} --out FOLDER"
        raise ModelError("its encoder is in the folder beside", where=folder.path, fix=fix)


def _files(folder: ModelFolder, branch: str, under: str) -> Iterator[Sent]:
    """A model's files by their names, and nothing else that lies there or that a link leads to; links of the
    hub's cache to its own files count as files.
    """
    refuse_damaged(folder)
    here = folder.path.resolve()
    roots = [here, *(parent.parent / "blobs" for parent in here.parents if parent.name == "snapshots")]
    for path in sorted({path for pattern in MODEL_FILES for path in folder.path.glob(pattern)}):
        if path.is_file() and any(path.resolve().is_relative_to(root) for root in roots):
            yield Sent(branch, under + path.relative_to(folder.path).as_posix(), path)


def clean_card(text: str, repo: str, name: str, branch: str) -> str:
    """A card that says how to load its network from the hub, and no path of this machine."""
    where = name.rpartition("/")[0]
    text = QUOTED.sub("", text).replace(str(Path.home()) + "/", "")
    loaded = re.sub(r'^name = ".*?".*$', f'name = "{repo}"', text, flags=re.M)
    more = {"subfolder": where, "revision": branch if branch != MAIN else ""}
    given = "".join(f', {key}="{value}"' for key, value in more.items() if value)
    return loaded.replace("from_pretrained(name)", f"from_pretrained(name{given})")


def push(files: list[Sent], repo: str, *, private: bool, say: Say = quiet) -> str:
    """Send `files` to the repository `repo`, which is made where there is none; its address.

    Raises ConfigError where the hub refuses: no token, no permission, not a name.
    """
    from huggingface_hub import CommitOperationAdd, HfApi, get_token
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    refuse_name(repo)
    if not get_token():
        fix = "Log in with `hf auth login`, or set HF_TOKEN to a token with write access"
        raise ConfigError("no token for the hub", where=repo, fix=fix)
    api = HfApi(library_name="electra")
    try:
        made = api.create_repo(repo, private=private, exist_ok=True)
        repo = made.repo_id
        for branch in dict.fromkeys(file.branch for file in files):
            if branch != MAIN:
                api.create_branch(repo, branch=branch, exist_ok=True)
            chosen = [file for file in files if file.branch == branch]
            parts = [CommitOperationAdd(file.name, _given(file.content(repo))) for file in chosen]
            api.create_commit(repo, parts, commit_message="Upload with electra", revision=branch)
            say(f"{branch}: {len(chosen)} files")
    except HfHubHTTPError as error:
        raise _refused(error, repo) from None
    except OfflineModeIsEnabled:
        raise ConfigError("the hub is switched off", where=repo, fix="Unset HF_HUB_OFFLINE") from None
    except Exception as error:
        of_http = HfHubHTTPError.__bases__[0]  # of the HTTP library that this version of the hub's uses
        if not isinstance(error, (of_http, OSError)):
            raise
        what = f"the hub cannot be reached ({type(error).__name__})"
        raise ConfigError(what, where=repo, fix="Check the connection, and HF_ENDPOINT") from None
    return str(made)


def refuse_name(repo: str) -> None:
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils._validators import validate_repo_id

    try:
        validate_repo_id(repo)
    except HFValidationError:
        fix = "Use owner/name, of letters, digits, '-', '_' and '.'"
        raise ConfigError("not a name for a repository", where=repo, fix=fix) from None


def _given(content: bytes | Path) -> bytes | str:
    return str(content) if isinstance(content, Path) else content


def _refused(error: Any, repo: str) -> ConfigError:
    code = error.response.status_code if error.response is not None else 0
    told = {
        401: ("the hub does not accept the token", "Log in again with `hf auth login`, or check HF_TOKEN"),
        403: (
            "no permission to write there",
            "Use your own name or organisation, and a token that may write",
        ),
        404: ("not found on the hub, or not yours", "Check the name"),
        409: ("the repository changed meanwhile", "Rerun the command"),
        429: ("too many requests", "Wait a while, then rerun the command"),
    }
    what, fix = told.get(
        code, (f"the hub refused ({code}: {error.server_message or ''})".strip(), "Rerun later")
    )
    return ConfigError(what, where=repo, fix=fix)
