"""Writes the page of a folder of any kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from electra.artifacts import (
    AnalysisFolder,
    EvaluationFolder,
    FinetuningFolder,
    Folder,
    RunFolder,
    StudyFolder,
    kind_of,
    open_folder,
)
from electra.foundation import durable
from electra.foundation.errors import RunFolderError
from electra.foundation.terminal_text import with_article
from electra.pages import finetuning_page as finetuning
from electra.pages import probes
from electra.pages import run_page as run
from electra.pages import study_page as study
from electra.pages import suite_page as suite

PAGES: Mapping[type[Folder], Callable[[Path], Path]] = {
    RunFolder: run.write_page,
    StudyFolder: study.write_page,
    EvaluationFolder: suite.write_page,
    AnalysisFolder: probes.write_page,
    FinetuningFolder: finetuning.write_page,
}


def write_page(folder: Path) -> Path:
    """Writes the page of a folder of any kind and returns its path. Raises RunFolderError for bad records."""
    folder = Path(folder)
    kind = kind_of(folder)
    if kind is None:
        kind = type(open_folder(folder))  # raises, naming what is there instead
    if kind not in PAGES:
        problem = f"{with_article(kind.KIND)} has no page"
        raise RunFolderError(problem, where=folder, fix="Pass a run or the folder of a result")
    try:
        with durable.guarded(folder):
            return PAGES[kind](folder)
    except (LookupError, TypeError, ValueError, AttributeError) as error:  # records are not validated
        detail = f"{type(error).__name__}: {error}"
        fix = "Run electra verify, and restore the record that was edited or damaged"
        raise RunFolderError(f"its records are inconsistent ({detail})", where=folder, fix=fix) from error
