"""A folder of any kind as the object it is."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from electra.artifacts import open_folder
from electra.commands.framework.command import Source
from electra.commands.results.artifact import Part
from electra.foundation.options import given_name

if TYPE_CHECKING:
    from electra.commands.results.artifact import Artifact
    from electra.commands.results.model import Model

CLASSES = {  # kind of folder -> where its artifact's class is
    "StoreFolder": "results.store.Store",
    "RunFolder": "results.run.Run",
    "PairFolder": "results.model.Model",
    "ModelFolder": "results.model.Model",
    "TuningFolder": "results.tuned.FineTuned",
    "EvaluationFolder": "results.evaluation.Evaluation",
    "AnalysisFolder": "results.analysis.Analysis",
    "StudyFolder": "results.study.Study",
}


def open(path: Source) -> Artifact[Any] | Model:
    """The Store, Run, Model, FineTuned, Evaluation, Analysis or Study at `path`.

    Raises RunFolderError where it is none of these.
    """
    folder = open_folder(given_name(path, "path"))
    home = CLASSES.get(type(folder).__name__)
    if home is None:
        return Part(path)
    module, _, name = home.rpartition(".")
    kind: Any = getattr(import_module(f"electra.commands.{module}"), name)
    made: Artifact[Any] | Model = kind(path)
    return made
