"""Opens a folder of any kind."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from electra.artifacts import open_folder
from electra.commands.framework.command import Source
from electra.commands.results.artifact import Part
from electra.foundation.options import as_name

if TYPE_CHECKING:
    from electra.commands.results.artifact import Artifact
    from electra.commands.results.model import Model

CLASSES = {  # class of a folder -> class of its result, in electra.commands
    "StoreFolder": "results.store.Store",
    "RunFolder": "results.run.Run",
    "PairFolder": "results.model.Model",
    "ModelFolder": "results.model.Model",
    "FinetuningFolder": "results.finetuned.FineTuned",
    "EvaluationFolder": "results.evaluation.Evaluation",
    "AnalysisFolder": "results.analysis.Analysis",
    "StudyFolder": "results.study.Study",
}


def open(path: Source) -> Artifact[Any] | Model:
    """Returns the Store, Run, Model, FineTuned, Evaluation, Analysis or Study in a folder.

    For a folder inside one of these, such as a seed or a checkpoint, returns a Part.

    Raises:
        RunFolderError: there is no such folder, or electra did not write it.
    """
    folder = open_folder(as_name(path, "path"))
    class_path = CLASSES.get(type(folder).__name__)
    if class_path is None:
        return Part(path)
    module, _, name = class_path.rpartition(".")
    kind: Any = getattr(import_module(f"electra.commands.{module}"), name)
    result: Artifact[Any] | Model = kind(path)
    return result
