"""Names on the Hugging Face hub, downloads from it, and its data sets.

The environment variables HF_HOME, HF_ENDPOINT, HF_HUB_OFFLINE and HF_TOKEN of the hub's library apply.
"""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from electra.artifacts.included import included_names
from electra.foundation.errors import ElectraError, reason_of, translated
from electra.foundation.machine import library

DATA_SET = "hub:"  # what the names of data sets begin with
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?(@\w[\w./-]*)?")


def could_be_hub_name(name: str) -> bool:
    """Whether a string may be a name on the hub: owner/name or name, with an optional @revision.

    A string such as texts/typo is a path if the working directory has a folder texts/.
    """
    parent = Path(split_revision(name)[0]).parent
    return bool(_HUB_NAME.fullmatch(name)) and (parent == Path(".") or not parent.is_dir())


def split_revision(name: str) -> tuple[str, str | None]:
    """Splits owner/name@revision into repository and branch, tag or commit (None: the main branch)."""
    repository, _, revision = name.partition("@")
    return repository, revision or None


def download(name: str, patterns: Sequence[str], error: type[ElectraError]) -> Path:
    """Returns a folder with the files of a repository that match the patterns, from the hub or its cache.

    Raises `error` if the repository or revision does not exist, or the hub cannot be reached.
    """
    from huggingface_hub import errors, snapshot_download

    repository, revision = split_revision(name)
    similar = "".join(get_close_matches(name, included_names(), n=1))
    suggestion = f"Did you mean {similar!r}?" if similar else ""
    try:
        return Path(snapshot_download(repository, revision=revision, allow_patterns=list(patterns)))
    except errors.RepositoryNotFoundError:
        problem = "neither a local folder nor on the hub"
        fix = suggestion or "Check the name, and HF_TOKEN"
    except errors.RevisionNotFoundError:
        problem = f"the repository on the hub has no branch, tag or commit {revision}"
        fix = f"Omit or correct @{revision}"
    except errors.LocalEntryNotFoundError:
        problem = "not a local folder, and the hub cannot be reached"
        fix = suggestion or "Check the path, or the network (HF_HUB_OFFLINE, HF_ENDPOINT)"
    except Exception as cause:  # network, names, permissions: the library raises dozens of kinds
        problem, fix = f"download from the hub failed ({reason_of(cause)})", "Check the name, then try again"
    raise error(problem, where=name, fix=fix)


def load_data_set(name: str, error: type[ElectraError], split: str | None = None) -> Any:
    """Returns a data set `hub:NAME[:CONFIG[:SPLIT]]`, loaded with the `datasets` library.

    `split` is loaded if the name has none (None: all splits, as a mapping). Raises `error` if there is no
    such data set, or the library is missing.
    """
    datasets = library("datasets", "hub", "hub data sets", error, where=name)
    path, config, named_split = (name.removeprefix(DATA_SET).split(":") + ["", ""])[:3]
    with translated(error, "cannot be loaded", where=name, fix="Use the form hub:NAME:CONFIG:SPLIT"):
        return datasets.load_dataset(path, config or None, split=named_split or split)
