"""A folder of any kind as its artifact; its page; whether it is as it was written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electra.artifacts import Finding, open_folder
from electra.commands.workflow.artifact import Part, Source, given_name, given_path
from electra.commands.workflow.display import Told, display_for
from electra.foundation.signals import StopRequest

if TYPE_CHECKING:
    from electra.commands.workflow.artifact import Artifact
    from electra.commands.workflow.model import Model

CLASSES = {  # kind of folder -> where its artifact's class is
    "StoreFolder": "store.Store",
    "RunFolder": "run.Run",
    "PairFolder": "model.Model",
    "ModelFolder": "model.Model",
    "TuningFolder": "tuned.FineTuned",
    "EvaluationFolder": "evaluate.Evaluation",
    "AnalysisFolder": "analyze.Analysis",
    "StudyFolder": "ablate.Study",
}


def open(path: Source) -> Artifact[Any] | Model:
    """The Store, Run, Model, FineTuned, Evaluation, Analysis or Study at `path`.

    Raises RunFolderError where it is none of these.
    """
    folder = open_folder(given_name(path, "path"))
    home = CLASSES.get(type(folder).__name__)
    if home is None:
        return Part(path)
    module, _, name = home.partition(".")
    kind: Any = getattr(import_module(f"electra.commands.workflow.{module}"), name)
    made: Artifact[Any] | Model = kind(path)
    return made


def report(
    folder: Source,
    *,
    out: Source | None = None,
    compare: Sequence[Source] = (),
    follow: bool = False,
    progress: Told = None,
) -> Path:
    """Write the page of a run, study, evaluation or analysis; its path.

    out, compare: of a run's page alone: where it goes, and the runs drawn over it.
    follow:       of a run's page alone: rewrite it while the run trains on this machine.
    """
    from electra.pages import pages

    others = [given_path(other, "compare") for other in compare]
    path, page = given_path(folder, "folder"), None if out is None else given_path(out, "out")
    if not follow:
        return pages.write_page(path, page, others)
    with display_for(progress) as display, StopRequest() as stop:
        return pages.follow(path, page, others, stop, display.say)


def verify(folder: Source) -> Iterator[Finding]:
    """Each thing in a folder of any kind once it has been read whole, and its problem ("": none)."""
    from electra.exchange.verify import verify as check

    return check(given_path(folder, "folder"))
