"""What lies on disk: one class for each kind of folder, which alone knows its files. Torch-free.

artifacts.open_folder("runs/mine").facts()
artifacts.RunFolder(path).ledger().curve("eval", "auc", "tokens")
"""

from __future__ import annotations

from pathlib import Path

from electra.artifacts.checkpoints import Checkpoint
from electra.artifacts.evaluation import AnalysisFolder, EvaluationFolder
from electra.artifacts.folder import Finding, Folder, expanded
from electra.artifacts.included import included
from electra.artifacts.ledger import Ledger
from electra.artifacts.model import ModelFolder
from electra.artifacts.run import PairFolder, RunFolder
from electra.artifacts.session import with_article
from electra.artifacts.store import ShardFolder, StoreFolder
from electra.artifacts.study import StudyFolder
from electra.artifacts.tuning import EnsembleFolder, SeedFolder, TuningFolder
from electra.foundation.errors import RunFolderError

__all__ = [
    "AnalysisFolder",
    "Checkpoint",
    "EnsembleFolder",
    "EvaluationFolder",
    "Finding",
    "Folder",
    "Ledger",
    "ModelFolder",
    "PairFolder",
    "RunFolder",
    "SeedFolder",
    "ShardFolder",
    "StoreFolder",
    "StudyFolder",
    "TuningFolder",
    "kind_of",
    "open_folder",
]

KINDS: tuple[type[Folder], ...] = (  # a folder is the first of these that it looks like
    RunFolder,
    PairFolder,
    StoreFolder,
    ShardFolder,
    TuningFolder,
    StudyFolder,
    EvaluationFolder,
    AnalysisFolder,
    ModelFolder,
    Checkpoint,
    SeedFolder,
    EnsembleFolder,
)
OLD_PROMPTING = ("prompting.json", "prompt.json")
WANTED = "Pass a run, token store, model, fine-tuning, study, evaluation or analysis folder"


def kind_of(path: str | Path) -> type[Folder] | None:
    """Which kind of folder lies at `path`; None where it is none of ours."""
    path = Path(path)
    return next((kind for kind in KINDS if path.is_dir() and kind.is_at(path)), None)


def open_folder(path: str | Path) -> Folder:
    """The folder at `path` (or of the included model of that name), of whatever kind; RunFolderError says
    what else is there.
    """
    path = included(str(path)) or expanded(path, RunFolderError)
    kind = kind_of(path)
    if kind is not None:
        return kind(path)
    if not path.exists():
        raise RunFolderError("no such folder", where=path, fix=WANTED)
    if any((path / name).is_file() for name in OLD_PROMPTING):
        what = "a prompting, which electra no longer makes or opens; its numbers are in prompt.json"
        raise RunFolderError(what, where=path, fix="Prompting is now a task: see examples/prompting.py")
    around = next((parent for parent in path.absolute().parents if kind_of(parent) is not None), None)
    found = kind_of(around) if around is not None else None
    what = "is a file" if path.is_file() else "not a folder that electra wrote"
    if found is not None:
        raise RunFolderError(
            f"{what}, but lies in {with_article(found.KIND)}", where=path, fix=f"Pass {around}"
        )
    raise RunFolderError(what, where=path, fix=WANTED)
