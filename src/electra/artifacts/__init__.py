"""The folders that electra writes: one class for each kind, the only place that knows its file names.

artifacts.RunFolder(path).ledger().curve("eval", "auc", "tokens")

This package does not import torch.
"""

from pathlib import Path

from electra.artifacts.checkpoints import Checkpoint
from electra.artifacts.evaluation_files import AnalysisFolder, EvaluationFolder, StudyFolder
from electra.artifacts.finetuning_files import FinetuningFolder, SeedFolder
from electra.artifacts.folder import Finding, Folder
from electra.artifacts.included import included_model
from electra.artifacts.ledger import Ledger
from electra.artifacts.model_files import ModelFolder
from electra.artifacts.run_files import PairFolder, RunFolder
from electra.artifacts.store_files import StoreFolder
from electra.foundation.errors import RunFolderError
from electra.foundation.options import expand_path
from electra.foundation.terminal_text import with_article

__all__ = [
    "AnalysisFolder", "Checkpoint", "EvaluationFolder", "Finding", "FinetuningFolder", "Folder", "Ledger",
    "ModelFolder", "PairFolder", "RunFolder", "SeedFolder", "StoreFolder", "StudyFolder", "kind_of",
    "open_folder",
]  # fmt: skip

KINDS: tuple[type[Folder], ...] = (  # a folder is of the first kind that matches
    *(RunFolder, PairFolder, StoreFolder, FinetuningFolder, StudyFolder, EvaluationFolder, AnalysisFolder),
    *(ModelFolder, Checkpoint, SeedFolder),
)
EXPECTED = "Pass a run, token store, model, fine-tuning, study, evaluation or analysis folder"


def kind_of(path: str | Path) -> type[Folder] | None:
    """Returns the class of the folder at `path`, or None if electra did not write it."""
    path = Path(path)
    return next((kind for kind in KINDS if path.is_dir() and kind.is_at(path)), None)


def open_folder(path: str | Path) -> Folder:
    """Opens the folder, or the included model, of this name as its class; RunFolderError for any other."""
    path = included_model(str(path)) or expand_path(path, RunFolderError)
    kind = kind_of(path)
    if kind is not None:
        return kind(path)
    if not path.exists():
        raise RunFolderError("no such folder", where=path, fix=EXPECTED)
    problem = "is a file" if path.is_file() else "not a folder that electra wrote"
    for parent in path.absolute().parents:
        if (outer := kind_of(parent)) is not None:
            problem = f"{problem}, but is inside {with_article(outer.KIND)}"
            raise RunFolderError(problem, where=path, fix=f"Pass {parent}")
    raise RunFolderError(problem, where=path, fix=EXPECTED)
